import { isDeepStrictEqual } from 'node:util'
import { parseAmount } from '../../platform/ports/amount.ts'
import { compileHours, isWithin } from '../policy/hours.ts'
import type { Policy, Rule, SessionCondition, Spend } from '../policy/policy-schema.ts'
import type { Warning } from './rehearsal-schema.ts'

const MINUTE_MS = 60_000
/** Offsets of zones are multiples of this. */
const STEP_MINUTES = 15
/** Hours repeat after a week. A day more, so that one that clocks skip is found the next time. */
const WEEK_MINUTES = 8 * 24 * 60

type Asset = Spend['asset']

const same = (a: Asset | undefined, b: Asset | undefined) => a?.issuer === b?.issuer && a?.symbol === b?.symbol
const unitsOf = (amount: string | undefined) => parseAmount(amount ?? '') ?? 0n

function actsOf({ actions, choices }: Rule): { create: boolean; exercise: boolean } {
  return {
    create: actions?.includes('create') ?? choices === undefined,
    exercise: actions?.includes('exercise') ?? true,
  }
}

/** Whether everything that a rule is for is also for another one, which has no conditions. */
function isCovered(rule: Rule, other: Rule): boolean {
  if (rule.templateId !== other.templateId || other.where !== undefined) return false
  const [acts, others] = [actsOf(rule), actsOf(other)]
  if ((acts.create && !others.create) || (acts.exercise && !others.exercise)) return false
  if (!acts.exercise || other.choices === undefined) return true
  return rule.choices?.every((choice) => other.choices?.includes(choice)) ?? false
}

const unreachable = (field: string, message: string): Warning => ({ field, code: 'unreachable', message })

function ofRules({ allow, deny = [] }: Policy): Warning[] {
  const denied = allow.flatMap((rule, index) => {
    const by = deny.findIndex((other) => isCovered(rule, other))
    const earlier = allow.findIndex((other, at) => at < index && isCovered(rule, other))
    if (by !== -1) return [unreachable(`policy.allow.${index}`, `deny[${by}] denies everything that this rule allows.`)]
    if (earlier === -1) return []
    return [unreachable(`policy.allow.${index}`, `allow[${earlier}] allows everything that this rule allows.`)]
  })
  const idle = deny.flatMap(({ templateId }, index) =>
    allow.some((rule) => rule.templateId === templateId)
      ? []
      : [unreachable(`policy.deny.${index}`, 'No rule allows anything of this template, so it is denied anyway.')],
  )
  return [...denied, ...idle]
}

/** The least that one transaction can spend at most of an asset; null without a limit, undefined if it cannot be spent at all. */
function mostOf(spend: readonly Spend[], asset: Asset | undefined): bigint | null | undefined {
  const caps = spend.filter((entry) => same(entry.asset, asset))
  if (caps.length === 0) return undefined
  const limits = caps.filter(({ unlimited }) => unlimited !== true).map(({ amount }) => unitsOf(amount))
  return limits.reduce<bigint | null>((least, units) => (least === null || units < least ? units : least), null)
}

function ofAmounts({ spend = [], requireApproval = [], conditions = [] }: Policy): Warning[] {
  const zero = (field: string, message: string): Warning => ({ field, code: 'cap_zero', message })
  const caps = spend.flatMap(({ amount }, index) =>
    amount !== undefined && unitsOf(amount) === 0n
      ? [zero(`policy.spend.${index}.amount`, 'Nothing of this asset can be spent.')]
      : [],
  )
  const limited = (field: string, asset: Asset | undefined, units: bigint): Warning[] => {
    const most = mostOf(spend, asset)
    if (most === undefined)
      return [unreachable(field, 'The asset is not listed under "spend", so none of it can be spent anyway.')]
    return most !== null && units >= most ? [unreachable(field, 'A cap of "spend" does not allow as much.')] : []
  }
  const asking = requireApproval.flatMap(({ asset, above }, index) =>
    above === undefined ? [] : limited(`policy.requireApproval.${index}.above`, asset, unitsOf(above)),
  )
  const rates = conditions.flatMap(({ rate }, index) => {
    if (rate?.amount === undefined) return []
    const field = `policy.conditions.${index}.rate.amount`
    const none = zero(field, 'Nothing of this asset meets the condition.')
    return [
      ...(unitsOf(rate.amount) === 0n ? [none] : []),
      ...(mostOf(spend, rate.asset) === undefined ? limited(field, rate.asset, 0n) : []),
    ]
  })
  return [...caps, ...asking, ...rates]
}

const denies = ({ otherwise }: SessionCondition) => otherwise !== 'require_approval'

/** Whether all hours of a policy that deny are open at one time while a session lasts, or within a week. */
function opens(conditions: readonly SessionCondition[], now: Date, expiresInSeconds: number | undefined): boolean {
  const hours = conditions.flatMap((one) => (one.hours !== undefined && denies(one) ? [compileHours(one.hours)] : []))
  if (hours.length === 0) return true
  const lastsMinutes = Math.min((expiresInSeconds ?? Number.POSITIVE_INFINITY) / 60, WEEK_MINUTES)
  const isOpen = (ms: number) => hours.every((each) => isWithin(each, new Date(ms)))
  const offsets = new Set([0, ...hours.map(({ from }) => from % STEP_MINUTES)])
  const start = Math.ceil(now.getTime() / (STEP_MINUTES * MINUTE_MS)) - 1
  const end = now.getTime() + lastsMinutes * MINUTE_MS
  if (isOpen(now.getTime())) return true
  // All open where the last of them opens, so it is enough to look when one does.
  for (let step = start; step * STEP_MINUTES * MINUTE_MS < end; step += 1)
    for (const offset of offsets) {
      const at = (step * STEP_MINUTES + offset) * MINUTE_MS
      if (at >= now.getTime() && at < end && isOpen(at)) return true
    }
  return false
}

/** What in a valid policy is hardly meant. `expiresInSeconds`: how long its session would last, if that is known. */
export function warningsOf(policy: Policy, now: Date, expiresInSeconds: number | undefined): Warning[] {
  const { conditions = [] } = policy
  const doubled = conditions.flatMap((condition, index) =>
    conditions.findIndex((other) => isDeepStrictEqual(other, condition)) < index
      ? [unreachable(`policy.conditions.${index}`, 'Another condition says the same.')]
      : [],
  )
  const expiry: Warning[] =
    expiresInSeconds === undefined
      ? [{ field: 'expiresInSeconds', code: 'no_expiry', message: 'Without it a session lasts one hour.' }]
      : []
  const shut: Warning[] = opens(conditions, now, expiresInSeconds)
    ? []
    : [
        {
          field: 'policy.conditions',
          code: 'never_open',
          message: 'There is no time within all of its hours while the session lasts.',
        },
      ]
  return [...expiry, ...ofRules(policy), ...ofAmounts(policy), ...doubled, ...shut]
}
