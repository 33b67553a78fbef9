import { compileApprovers, quorumWords } from '../approvals/approvers/quorum.ts'
import { compileHours, hoursWords } from '../policy/hours.ts'
import type {
  ApprovalRule,
  Approvers,
  Condition,
  Policy,
  Rule,
  SessionCondition,
  Spend,
} from '../policy/policy-schema.ts'
import type { RehearsedPolicy } from './rehearsal-schema.ts'

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

/** Characters that cannot be seen, or that turn the text around them. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu

const escaped = (text: string) =>
  Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')

/** A text between quotation marks, whole, so that nothing in it reads as ours. */
const quoted = (text: string) => JSON.stringify(text).replace(UNSEEN, escaped)

/** With the issuer, because anybody can issue an asset with the same symbol. */
const assetWords = (asset: Spend['asset'] | undefined): string =>
  asset === undefined ? 'an asset' : `${quoted(asset.symbol)} (issued by ${asset.issuer})`

const where = ({ path, op, value }: Condition): string =>
  `${path} ${OPERATORS[op]} ${[value].flat().map(quoted).join(', ')}`

function ruleWords({ templateId, actions, choices, where: conditions }: Rule, can: string): string {
  const acts = actions ?? (choices === undefined ? ['create', 'exercise'] : ['exercise'])
  const what = acts.map((act) => (act === 'create' ? 'create' : `exercise ${choices?.join(', ') ?? 'any choice'}`))
  const only = (conditions ?? []).map(where).join(' and ')
  return `${can} ${what.join(' or ')} of ${templateId}${only === '' ? '' : `, if ${only}`}.`
}

const spendWords = ({ asset, amount, window, unlimited }: Spend): string =>
  unlimited === true
    ? `Can spend any amount of ${assetWords(asset)}.`
    : `Can spend at most ${amount} ${assetWords(asset)} ${WINDOWS[window ?? 'lifetime']}.`

const whoWords = (approvers: Approvers | undefined): string =>
  approvers === undefined
    ? 'the owner'
    : `${quorumWords(compileApprovers(approvers))} (${approvers.users.map(quoted).join(', ')})`

const approvalWords = ({ asset, above, approvers }: ApprovalRule): string =>
  above === undefined
    ? `Asks ${whoWords(approvers)} before a party is paid for whom ${approvers === undefined ? 'the owner has' : 'they have'} approved no payment yet.`
    : `Asks ${whoWords(approvers)} before one transaction spends more than ${above} ${assetWords(asset)}.`

function conditionWords({ hours, rate, otherwise, approvers }: SessionCondition): string {
  const end = otherwise === 'require_approval' ? `otherwise asks ${whoWords(approvers)}` : 'never otherwise'
  if (hours !== undefined) return `Acts ${hoursWords(compileHours(hours))}; ${end}.`
  if (rate === undefined) return `Pays parties in the wallet's address book; ${end}.`
  const { executions, amount, asset, withinSeconds } = rate
  return executions === undefined
    ? `Spends at most ${amount} ${assetWords(asset)} within ${withinSeconds} seconds; ${end}.`
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
