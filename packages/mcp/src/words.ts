import type { Decision, Policy, Remaining } from './agent.ts'

const LISTED_MAX = 20
/** Values of a condition that are written out. */
const VALUES_MAX = 5
const VALUE_CHARS_MAX = 200

type Rule = Policy['allow'][number]
type Condition = NonNullable<Rule['where']>[number]

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

/** A value between quotation marks, so that no text in it reads as ours. */
const quoted = (value: string) => JSON.stringify(value.slice(0, VALUE_CHARS_MAX))

function conditionInWords({ path, op, value }: Condition): string {
  const values = [value].flat()
  const shown = values.slice(0, VALUES_MAX).map(quoted).join(', ')
  const more = values.length > VALUES_MAX ? ` and ${values.length - VALUES_MAX} more` : ''
  return `${path} ${OPERATORS[op]} ${shown}${more}`
}

function ruleInWords(rule: Rule, index: number, kind: string): string {
  const acts = rule.actions ?? (rule.choices === undefined ? ['create', 'exercise'] : ['exercise'])
  const choices = rule.choices === undefined ? '' : ` ${rule.choices.join(', ')}`
  const what = acts.map((act) => (act === 'create' ? 'create' : `exercise${choices || ' any choice'}`)).join(' or ')
  const where = (rule.where ?? []).map(conditionInWords).join(' and ')
  return `${kind}[${index}]: ${what} of ${rule.templateId}${where === '' ? '' : `, if ${where}`}`
}

function listed(texts: string[]): string[] {
  const more = texts.length - LISTED_MAX
  return more > 0 ? [...texts.slice(0, LISTED_MAX), `and ${more} more`] : texts
}

/** A policy's rules, one text each. */
export const rulesInWords = (rules: readonly Rule[] | undefined, kind: 'allow' | 'deny'): string[] =>
  listed((rules ?? []).map((rule, index) => ruleInWords(rule, index, kind)))

const WINDOWS: Record<string, string> = {
  lifetime: 'in the whole session',
  rolling_24h: 'within 24 hours',
  day_utc: 'per day (UTC)',
}

const BUDGET_WINDOWS: Record<string, string> = {
  ...WINDOWS,
  lifetime: 'in total',
  rolling_30d: 'within 30 days',
}

/** What may still be spent, one text for each cap. */
export const spendInWords = ({ spend }: Remaining): string[] =>
  listed(
    spend.map(({ asset, remaining, limit, window }, index) =>
      limit === null
        ? `spend[${index}]: any amount of ${quoted(asset.symbol)}`
        : `spend[${index}]: at most ${remaining} more ${quoted(asset.symbol)} of ${limit} ${WINDOWS[window ?? 'lifetime']}`,
    ),
  )

type Approvers = NonNullable<NonNullable<Policy['requireApproval']>[number]['approvers']>

/** Who has to approve. */
const whoInWords = (approvers: Approvers | undefined): string =>
  approvers === undefined ? 'the owner has' : `${approvers.threshold} of ${approvers.users.length} named users have`

/** What needs approval, one text for each rule. */
export const askedInWords = ({ requireApproval }: Policy): string[] =>
  listed(
    (requireApproval ?? []).map(({ asset, above, approvers }, index) =>
      above === undefined
        ? `requireApproval[${index}]: ${whoInWords(approvers)} to approve a payment to somebody whom they approved none to yet`
        : `requireApproval[${index}]: ${whoInWords(approvers)} to approve more than ${above} ${quoted(asset?.symbol ?? '')} in one transaction`,
    ),
  )

type SessionCondition = NonNullable<Policy['conditions']>[number]

function wantedInWords({ hours, rate }: SessionCondition): string {
  if (hours !== undefined) {
    const days = hours.days === undefined ? 'every day' : hours.days.join(', ')
    return `only ${days} from ${hours.from} to ${hours.to} (${hours.timeZone})`
  }
  if (rate === undefined) return "only payments to parties in the wallet's address book, which only its owner changes"
  const most = rate.executions ?? `${rate.amount} ${quoted(rate.asset?.symbol ?? '')}`
  return `at most ${most}${rate.executions === undefined ? '' : ' transactions'} within ${rate.withinSeconds} seconds`
}

/** What every transaction has to meet, one text for each condition. */
export const conditionsInWords = ({ conditions }: Policy): string[] =>
  listed(
    (conditions ?? []).map((condition, index) => {
      const otherwise =
        condition.otherwise === 'require_approval' ? `${whoInWords(condition.approvers)} to approve` : 'refused'
      return `conditions[${index}]: ${wantedInWords(condition)}; otherwise ${otherwise}`
    }),
  )

/** What the budgets of the wallet leave, one text for each. Other sessions take from them too. */
export const budgetsInWords = ({ budgets }: Remaining): string[] =>
  listed(
    budgets.map(({ asset, amount, remaining, window, recipient, templateId }, index) => {
      const only = [
        ...(recipient === null ? [] : [`to ${quoted(recipient)}`]),
        ...(templateId === null ? [] : [`by ${templateId}`]),
      ]
      const what = [`${remaining} more ${quoted(asset.symbol)} of ${amount}`, ...only].join(' ')
      return `budget ${index}: at most ${what} ${BUDGET_WINDOWS[window] ?? ''}, through all sessions of the wallet`
    }),
  )

/** Why a policy decided so, one text for each rule that was checked. */
export const traceInWords = ({ trace }: Decision): string[] =>
  listed(
    trace.flatMap(({ command, action, allowed, rule, rules }) => [
      `command ${command} (${action}): ${allowed ? 'allowed' : 'refused'} by ${rule}`,
      ...rules.map((one) => `${one.rule} ${one.matched ? 'matched' : 'did not match'}: ${one.reason}`),
    ]),
  )
