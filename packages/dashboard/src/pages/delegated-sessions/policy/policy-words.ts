import type {
  Budget,
  Policy,
  PolicyApprovalRule,
  PolicyApprovers,
  PolicyCondition,
  PolicyRule,
  PolicySessionCondition,
  PolicySpend,
} from '@halfkey/sdk'
import { shortParty } from '../../../components/records/party.tsx'

/** The windows of a cap. */
export const WINDOWS: Record<NonNullable<PolicySpend['window']>, string> = {
  lifetime: 'in total',
  rolling_24h: 'in any 24 hours',
  day_utc: 'per day (UTC)',
}

/** The windows of a budget: one more than a cap has. */
export const BUDGET_WINDOWS: Record<Budget['window'], string> = { ...WINDOWS, rolling_30d: 'in any 30 days' }

/** The comparison operators. */
export const OPERATORS: Record<PolicyCondition['op'], string> = {
  eq: 'is',
  ne: 'is not',
  in: 'is one of',
  not_in: 'is none of',
  lt: 'is less than',
  lte: 'is at most',
  gt: 'is more than',
  gte: 'is at least',
}

const LISTED_MAX = 5

/** With a capital, for the beginning of a line. */
export function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}

function list(words: readonly string[], last: 'and' | 'or'): string {
  if (words.length <= 1) return words[0] ?? ''
  return `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`
}

/** The actions of a rule. A rule with choices and no actions means exercises. */
export function actionsOf({ actions, choices }: PolicyRule): ('create' | 'exercise')[] {
  return actions ?? (choices === undefined ? ['create', 'exercise'] : ['exercise'])
}

/** What a rule is about: "exercise Transfer or Split on Token:Holding". */
export function actWords(rule: PolicyRule): string {
  const template = rule.templateId || 'a template'
  const exercise = `exercise ${rule.choices?.length ? list(rule.choices, 'or') : 'any choice'} on ${template}`
  const words = { create: `create ${template}`, exercise }
  return list(
    actionsOf(rule).map((action) => words[action]),
    'or',
  )
}

/** A condition: "amount is at most 5". */
export function conditionWords({ path, op, value }: PolicyCondition): string {
  const values = (Array.isArray(value) ? value : [value]).map(shortParty)
  const told = values.slice(0, LISTED_MAX)
  const more = values.length - told.length
  const shown = more > 0 ? `${told.join(', ')} and ${more} more` : list(told, 'or')
  return `${path || 'an argument'} ${OPERATORS[op] ?? op} ${shown || '…'}`
}

/** A cap: "10 USDX per day (UTC)". */
export function spendWords({ asset, amount, window, unlimited }: PolicySpend): string {
  const symbol = asset.symbol || 'an asset'
  if (unlimited === true) return `any amount of ${symbol}`
  return `at most ${amount || '…'} ${symbol} ${WINDOWS[window ?? 'lifetime'] ?? ''}`
}

/** Who is asked: "the owner" or "2 of 3 named users". */
export function whoWords(approvers: PolicyApprovers | undefined): string {
  if (approvers === undefined) return 'the owner'
  return `${approvers.threshold} of ${approvers.users.length} named users`
}

/** What has to be approved: "more than 5 USDX in one transaction". */
export function askWords({ asset, above, approvers }: PolicyApprovalRule): string {
  const who = approvers === undefined ? 'the owner has not' : `${whoWords(approvers)} have not`
  if (above === undefined) return `a payment to a party that ${who} approved one to yet`
  return `more than ${above} ${asset?.symbol ?? 'of an asset'} in one transaction`
}

/** The days of the week, in their order. */
export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const

const UNITS = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const

/** `any 2 hours`. */
function spanWords(seconds: number): string {
  const [size, unit] = UNITS.find(([each]) => seconds % each === 0) ?? [1, 'second']
  const count = seconds / size
  return count === 1 ? `any ${unit}` : `any ${count} ${unit}s`
}

/** What a condition wants: "at most 10 transactions in any hour". */
export function sessionConditionWords({ hours, rate }: PolicySessionCondition): string {
  if (hours !== undefined) {
    const days = hours.days === undefined || hours.days.length === DAYS.length ? 'every day' : hours.days.join(', ')
    return `${days} from ${hours.from || '…'} to ${hours.to || '…'} (${hours.timeZone || '…'})`
  }
  if (rate === undefined) return "payments to parties in the wallet's address book"
  const { executions, amount, asset, withinSeconds } = rate
  const most =
    executions === undefined ? `${amount || '…'} ${asset?.symbol || 'of an asset'}` : `${executions} transactions`
  return `at most ${most} in ${spanWords(withinSeconds)}`
}

/** What happens to a transaction that does not meet a condition. */
export const otherwiseWords = ({ otherwise, approvers }: PolicySessionCondition): string => {
  if (otherwise !== 'require_approval') return 'otherwise denied'
  return approvers === undefined ? 'otherwise the owner is asked' : `otherwise ${whoWords(approvers)} are asked`
}

/** The rule of a policy that a decision names, in words; null where it names none. */
export function ruleInWords(policy: Policy, name: string): string | null {
  const [, side, number] = /^(allow|deny|spend|requireApproval|conditions)\[(\d+)\]$/.exec(name) ?? []
  if (side === 'requireApproval') {
    const asked = policy.requireApproval?.[Number(number)]
    return asked === undefined ? null : `Asks ${whoWords(asked.approvers)} for ${askWords(asked)}.`
  }
  if (side === 'conditions') {
    const condition = policy.conditions?.[Number(number)]
    if (condition === undefined) return null
    return `${capital(sessionConditionWords(condition))}; ${otherwiseWords(condition)}.`
  }
  if (side === 'spend') {
    const spend = policy.spend?.[Number(number)]
    return spend === undefined ? null : `Can spend ${spendWords(spend)}.`
  }
  const rule = side === undefined ? undefined : policy[side as 'allow' | 'deny']?.[Number(number)]
  if (rule === undefined) return null
  const where = (rule.where ?? []).map(conditionWords)
  return `${side === 'allow' ? 'Can' : 'Cannot'} ${actWords(rule)}${where.length === 0 ? '' : `, if ${list(where, 'and')}`}.`
}
