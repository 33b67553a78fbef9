import type { ErrorDetail } from '../../platform/http/errors.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import { checkApprovers, compileApprovers, type Quorum } from '../approvals/approvers/quorum.ts'
import { type CompiledHours, clockWords, compileHours, hoursWords, isWithin, isZone } from './hours.ts'
import type { Payment } from './payment.ts'
import type { SessionCondition } from './policy-schema.ts'
import { type ApprovalReason, lifetimeMsOf } from './require-approval.ts'
import type { Charge } from './spend.ts'
import { positive, type Spent, standing } from './windows.ts'

/** More have no use, and each costs time where it is looked for when all of them are open. */
const HOURS_MAX = 4

/** How conditions are named in decisions, and where their count is in what a session has spent. */
type ConditionName = `conditions[${number}]`

/** How much may be done within a window. */
interface CompiledRate {
  kind: 'rate'
  /** Null: transactions are counted. */
  asset: { issuer: string; symbol: string } | null
  /** Transactions, or base units of the asset. */
  limit: bigint
  seconds: number
}

type What = { kind: 'hours'; hours: CompiledHours } | CompiledRate | { kind: 'address_book' }

/** A compiled condition of a session. */
export type CompiledSessionCondition = What & {
  name: ConditionName
  otherwise: 'deny' | 'require_approval'
  /** Who is asked; null for the owner. */
  approvers: Quorum | null
  /** How long they have. */
  lifetimeMs: number
}

/** Why a condition denies. Counts and amounts have the form of the API. */
export interface ConditionDenial {
  code: 'policy_denied'
  rule: ConditionName
  message: string
  asset?: { issuer: string; symbol: string }
  limit?: string
  spent?: string
  asked?: string
  remaining?: string
  withinSeconds?: number
  /** When some of `spent` no longer counts. */
  resetsAt?: string | null
  recipient?: string
}

/** What conditions are held against. */
export interface Moment {
  spent: Spent
  now: Date
  /** Whether the wallet's address book has a party, whose time to count has come. */
  isInBook: (party: string) => boolean
}

/** What conditions say: what to count, and which of them ask; or which denies. */
export type ConditionVerdict = { denied: ConditionDenial } | { charges: Charge[]; reasons: ApprovalReason[] }

function rateProblems(rate: NonNullable<SessionCondition['rate']>, field: string): ErrorDetail[] {
  const { executions, asset, amount } = rate
  const wrong = (name: string, code: string, message: string): ErrorDetail[] => [
    { field: `${field}.${name}`, code, message },
  ]
  if (executions !== undefined)
    return (['asset', 'amount'] as const).flatMap((name) =>
      rate[name] === undefined ? [] : wrong(name, 'invalid', 'Must be absent if "executions" is set.'),
    )
  if (amount === undefined) return wrong('executions', 'required', 'Either "executions" or "amount" is required.')
  return asset === undefined ? wrong('asset', 'required', '"asset" is required beside "amount".') : []
}

function problemsOf(condition: SessionCondition, field: string): ErrorDetail[] {
  const { hours, rate, otherwise } = condition
  const wrong = (name: string, message: string): ErrorDetail[] => [
    { field: `${field}${name}`, code: 'invalid', message },
  ]
  const given = (['hours', 'rate', 'recipients'] as const).filter((name) => condition[name] !== undefined)
  if (given.length !== 1) return wrong('', 'Must have exactly one of "hours", "rate" and "recipients".')
  const unasked = (['approvers', 'expiresInSeconds'] as const).filter((name) => condition[name] !== undefined)
  const asking =
    otherwise === 'require_approval'
      ? checkApprovers(condition.approvers, field)
      : unasked.flatMap((name) => wrong(`.${name}`, 'Must be absent unless "otherwise" is "require_approval".'))
  if (rate !== undefined) return [...rateProblems(rate, `${field}.rate`), ...asking]
  if (hours === undefined) return asking
  const zone = isZone(hours.timeZone) ? [] : wrong('.hours.timeZone', 'This time zone is not known.')
  const empty =
    hours.from === hours.to ? wrong('.hours.to', 'Must differ from "from". For whole days: 00:00 to 24:00.') : []
  return [...zone, ...empty, ...asking]
}

/** Checks what the schema of conditions cannot express. */
export function checkSessionConditions(conditions: readonly SessionCondition[], field: string): ErrorDetail[] {
  const found = conditions.flatMap((condition, index) => problemsOf(condition, `${field}.${index}`))
  if (conditions.filter(({ hours }) => hours !== undefined).length <= HOURS_MAX) return found
  return [{ field, code: 'too_many', message: `Must have at most ${HOURS_MAX} conditions with "hours".` }, ...found]
}

function whatOf({ hours, rate }: SessionCondition): What {
  if (hours !== undefined) return { kind: 'hours', hours: compileHours(hours) }
  if (rate === undefined) return { kind: 'address_book' }
  const { executions, asset, amount, withinSeconds: seconds } = rate
  if (executions !== undefined) return { kind: 'rate', asset: null, limit: BigInt(executions), seconds }
  const limit = parseAmount(amount ?? '')
  if (asset === undefined || limit === null) throw new Error('a rate of a policy has neither executions nor an amount')
  return { kind: 'rate', asset, limit, seconds }
}

/** Compiles a condition. It has passed its schema and `checkSessionConditions`. */
export const compileSessionCondition = (condition: SessionCondition, index: number): CompiledSessionCondition => ({
  ...whatOf(condition),
  name: `conditions[${index}]`,
  otherwise: condition.otherwise ?? 'deny',
  approvers: compileApprovers(condition.approvers),
  lifetimeMs: lifetimeMsOf(condition.expiresInSeconds),
})

/** What a condition finds: what to count of it, and why it is not met (null: it is). */
interface Finding {
  charge: Charge | null
  miss: Omit<ConditionDenial, 'code' | 'rule'> | null
}

function lookAtRate(rate: CompiledRate & { name: ConditionName }, { costs }: Payment, { spent, now }: Moment): Finding {
  const { asset, limit, seconds, name } = rate
  const cost = costs.find((one) => one.asset.issuer === asset?.issuer && one.asset.symbol === asset.symbol)
  const units = asset === null ? 1n : (cost?.units ?? 0n)
  if (units === 0n) return { charge: null, miss: null }
  const { bucket, sum, resetsAt } = standing({ seconds }, spent[name] ?? {}, now)
  const charge: Charge = { entry: name, bucket, units: units.toString() }
  if (sum + units <= limit) return { charge, miss: null }
  const words = asset === null ? String : formatAmount
  const left = words(positive(limit - sum))
  const what = asset === null ? 'transactions' : asset.symbol
  const message = `The policy's ${name} allows ${words(limit)} ${what} within ${seconds} seconds; ${left} are left.`
  const figures = {
    limit: words(limit),
    spent: words(sum),
    asked: words(units),
    remaining: left,
    withinSeconds: seconds,
  }
  const miss = { message, ...(asset === null ? {} : { asset }), ...figures, resetsAt: resetsAt?.toISOString() ?? null }
  return { charge, miss }
}

function lookAt(condition: CompiledSessionCondition, payment: Payment, moment: Moment): Finding {
  const { name } = condition
  if (condition.kind === 'rate') return lookAtRate(condition, payment, moment)
  if (condition.kind === 'hours') {
    const { hours } = condition
    if (isWithin(hours, moment.now)) return { charge: null, miss: null }
    const clock = clockWords(hours, moment.now)
    const there = clock === '' ? '' : ` There it is ${clock}.`
    return { charge: null, miss: { message: `The policy's ${name} is for ${hoursWords(hours)}.${there}` } }
  }
  const stranger = payment.recipients.find((party) => !moment.isInBook(party))
  if (stranger === undefined) return { charge: null, miss: null }
  const message = `The policy's ${name} is for parties in the wallet's address book, and ${stranger} is not there or not long enough.`
  return { charge: null, miss: { message, recipient: stranger } }
}

/** What the conditions say of a payment. The first that denies wins; then all that ask, ask. */
export function judgeConditions(
  conditions: readonly CompiledSessionCondition[],
  payment: Payment,
  moment: Moment,
): ConditionVerdict {
  const charges: Charge[] = []
  const reasons: ApprovalReason[] = []
  for (const condition of conditions) {
    const { name: rule, otherwise, approvers, lifetimeMs } = condition
    const { charge, miss } = lookAt(condition, payment, moment)
    if (charge !== null) charges.push(charge)
    if (miss === null) continue
    if (otherwise === 'deny') return { denied: { code: 'policy_denied', rule, ...miss } }
    reasons.push({ rule, message: miss.message, approvers, lifetimeMs })
  }
  return { charges, reasons }
}
