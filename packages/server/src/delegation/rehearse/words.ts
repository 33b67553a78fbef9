import { compileHours, hoursWords } from '../policy/hours.ts'
import type { ApprovalRule, Condition, Policy, Rule, SessionCondition, Spend } from '../policy/policy-schema.ts'
import type { RehearsedPolicy } from './rehearsal-schema.ts'

/** Values of a condition that are written out. */
const VALUES_MAX = 5
const SHOWN_CHARS_MAX = 80

const WINDOWS = { lifetime: 'in the whole session', rolling_24h: 'within 24 hours', day_utc: 'per day (UTC)' } as const

const OPERATORS: Record<Condition['op'], string> = {
  eq: 'is',
  ne: 'is not',
  in: 'is one of',
  not_in: 'is none of',
  lt: 'is less than',
  lte: 'is at most',
  gt: 'is more than',
  gte: 'is at least',
}

/** A text between quotation marks, so that nothing in it reads as ours. */
const quoted = (text: string) =>
  JSON.stringify(text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text)

function where({ path, op, value }: Condition): string {
  const values = [value].flat()
  const more = values.length - VALUES_MAX
  const shown = values.slice(0, VALUES_MAX).map(quoted).join(', ')
  return `${path} ${OPERATORS[op]} ${shown}${more > 0 ? ` and ${more} more` : ''}`
}

function ruleWords({ templateId, actions, choices, where: conditions }: Rule, can: string): string {
  const acts = actions ?? (choices === undefined ? ['create', 'exercise'] : ['exercise'])
  const what = acts.map((act) => (act === 'create' ? 'create' : `exercise ${choices?.join(', ') ?? 'any choice'}`))
  const only = (conditions ?? []).map(where).join(' and ')
  return `${can} ${what.join(' or ')} of ${templateId}${only === '' ? '' : `, if ${only}`}.`
}

const spendWords = ({ asset, amount, window, unlimited }: Spend): string =>
  unlimited === true
    ? `Can spend any amount of ${quoted(asset.symbol)}.`
    : `Can spend at most ${amount} ${quoted(asset.symbol)} ${WINDOWS[window ?? 'lifetime']}.`

const approvalWords = ({ asset, above }: ApprovalRule): string =>
  above === undefined
    ? 'Asks the owner before a party is paid for whom the owner has approved no payment yet.'
    : `Asks the owner before one transaction spends more than ${above} ${quoted(asset?.symbol ?? '')}.`

function conditionWords({ hours, rate, otherwise }: SessionCondition): string {
  const end = otherwise === 'require_approval' ? 'otherwise asks the owner' : 'never otherwise'
  if (hours !== undefined) return `Acts ${hoursWords(compileHours(hours))}; ${end}.`
  if (rate === undefined) return `Pays parties in the wallet's address book; ${end}.`
  const { executions, amount, asset, withinSeconds } = rate
  return executions === undefined
    ? `Spends at most ${amount} ${quoted(asset?.symbol ?? '')} within ${withinSeconds} seconds; ${end}.`
    : `Makes at most ${executions} transactions within ${withinSeconds} seconds; ${end}.`
}

/** What each entry of a policy says, by its name. */
export function wordsOf(policy: Policy): RehearsedPolicy['words'] {
  const { allow, deny = [], spend = [], requireApproval = [], conditions = [], query } = policy
  const named =
    <T>(list: string, words: (entry: T) => string) =>
    (entry: T, index: number) => ({ rule: `${list}[${index}]`, text: words(entry) })
  return [
    ...allow.map(named('allow', (entry: Rule) => ruleWords(entry, 'Can'))),
    ...deny.map(named('deny', (entry: Rule) => ruleWords(entry, 'Never can'))),
    ...spend.map(named('spend', spendWords)),
    ...conditions.map(named('conditions', conditionWords)),
    ...requireApproval.map(named('requireApproval', approvalWords)),
    { rule: 'query', text: query === undefined ? 'Reads no contracts.' : `Reads ${query.templateIds.join(', ')}.` },
  ]
}
