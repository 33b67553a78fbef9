import { type HalfkeyError, isHalfkeyError } from '../../sdk/src/index.ts'
import type { Decision, Policy, Remaining } from './agent.ts'
import type { Refusal } from './schemas.ts'
import { budgetsInWords, conditionsInWords, rulesInWords, spendInWords } from './words.ts'

const STOP = 'Stop, and tell the person you work for: only the owner of the wallet can change this.'
const WAIT = 'Tell the person you work for, and wait until they have decided.'
const ASK = 'Ask the owner of the wallet for another session if this is needed. Do not split or disguise the act.'

/** What an agent can do about a refusal, by its code. */
const WHAT_TO_DO: Record<string, string> = {
  policy_denied: `Do only what \`allowed\` lists. ${ASK}`,
  spend_limit_exceeded: `Pay at most \`remaining\`, or wait for the next window of the cap. ${ASK}`,
  budget_exceeded: `Pay at most \`remaining\`, or wait until the budget opens again. ${ASK}`,
  approval_required:
    'The owner of the wallet has to approve this. Make the call: it answers with a link for them, and pays nothing before they approve.',
  approval_pending: `The owner has not decided on an earlier request by the same rule. ${WAIT}`,
  approval_denied: 'The owner refused. Stop: do not ask for the same again.',
  approval_expired: `The owner did not decide in time. If it is still needed, ask with another commandId. ${WAIT}`,
  approval_canceled: STOP,
  approval_limit_reached: `The owner was asked too often. Stop asking. ${WAIT}`,
  approval_outdated:
    'It did not happen, because it would have done something else than the owner approved. Ask with another commandId.',
  authorization_missing: 'Another party has to do this.',
  contract_archived: 'Read the holdings or contracts again, then repeat the call.',
  contract_not_found: 'The wallet sees no such contract. Read the holdings or contracts again.',
  duplicate_command: 'This commandId belongs to something else. Use another commandId for another act.',
  uses_in_flight: 'Wait until the transactions in progress have finished, then repeat the call.',
  transaction_failed: 'It did not happen. Repeat it with another commandId if it is still needed.',
  prepared_expired: 'It did not happen. Repeat it with another commandId if it is still needed.',
  wallet_frozen: STOP,
  wallet_not_ready: 'Wait until the wallet is ready.',
  user_suspended: STOP,
  guest_expired: STOP,
  delegated_session_revoked: STOP,
  delegated_session_expired: STOP,
  delegated_session_exhausted: STOP,
  session_invalid: 'The token in HALFKEY_TOKEN is not valid any more. Stop, and tell the person you work for.',
  dpop_proof_required:
    'The session is bound to a key that this server does not have: HALFKEY_KEY_FILE is not set. Stop, and tell the person you work for.',
  dpop_proof_invalid:
    'The session is bound to another key, the clock is wrong, or HALFKEY_URL is not the public address of the service. Stop, and tell the person you work for.',
  not_found: 'There is no such record of this session.',
  rate_limited: 'Wait a few seconds, then repeat the call with the same commandId.',
}

/** What an agent can do where a condition of the policy refused, by what the service says beside it. */
function afterCondition(detail: Record<string, unknown>): string {
  if (typeof detail.resetsAt === 'string')
    return `Wait until ${detail.resetsAt}, then repeat the call. Do not split or disguise the act.`
  if (typeof detail.recipient === 'string')
    return `Only the owner of the wallet adds to its address book, and a new entry counts later. ${ASK}`
  return `Do it at a time that \`allowed\` names. ${ASK}`
}

/** A refusal with these fields; the others are null. */
export function refusal(given: Partial<Refusal> & Pick<Refusal, 'code' | 'message'>): Refusal {
  return {
    rule: null,
    command: null,
    asset: null,
    limit: null,
    spent: null,
    asked: null,
    remaining: null,
    allowed: [],
    whatToDo: WHAT_TO_DO[given.code] ?? 'Correct what `message` says, then repeat the call.',
    ...given,
  }
}

/** What the policy allows, in words: all of it, or what is left of a used-up cap or of the budgets. */
function allowedBy(code: string, rule: string | null, policy: Policy, remaining: Remaining | null): string[] {
  const caps = remaining === null ? [] : spendInWords(remaining)
  if (code === 'spend_limit_exceeded') return caps.filter((cap) => cap.startsWith(`${rule}:`))
  if (code === 'budget_exceeded') return remaining === null ? [] : budgetsInWords(remaining)
  if (code !== 'policy_denied') return []
  if (rule?.startsWith('conditions[')) return conditionsInWords(policy).filter((one) => one.startsWith(`${rule}:`))
  return [
    ...rulesInWords(policy.allow, 'allow'),
    ...rulesInWords(policy.deny, 'deny').map((one) => `not ${one}`),
    ...conditionsInWords(policy),
    ...caps,
  ]
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function assetOf(value: unknown): Refusal['asset'] {
  const { issuer, symbol } = (value ?? {}) as { issuer?: unknown; symbol?: unknown }
  return typeof issuer === 'string' && typeof symbol === 'string' ? { issuer, symbol } : null
}

/** Whether the service said that nothing happened. Otherwise a change may have happened, and only its answer was lost. */
export function isDefinite({ status }: HalfkeyError): boolean {
  return status >= 400 && status < 500 && status !== 429
}

/**
 * An error of a call as an agent is told of it. `policy` and `remaining` say what would be allowed.
 * @throws the error again, if it is none of the API's or the network's
 */
export function refusalOf(error: unknown, policy: Policy | null, remaining: Remaining | null): Refusal {
  if (!isHalfkeyError(error)) throw error
  const { code, message, details, status } = error
  const detail: Record<string, unknown> = details[0] ?? {}
  const rule = text(detail.rule)
  const command = /^commands\.(\d+)/.exec(text(detail.field) ?? '')?.[1]
  const unreachable = status === 0 || status >= 500
  return refusal({
    code,
    message,
    rule,
    command: command === undefined ? null : Number(command),
    asset: assetOf(detail.asset),
    limit: text(detail.limit),
    spent: text(detail.spent),
    asked: text(detail.asked),
    remaining: text(detail.remaining),
    allowed: policy === null ? [] : allowedBy(code, rule, policy, remaining),
    ...(rule?.startsWith('conditions[') && code === 'policy_denied' ? { whatToDo: afterCondition(detail) } : {}),
    ...(unreachable
      ? {
          whatToDo:
            'The service did not answer. Repeat the same call: with the same commandId it happens at most once.',
        }
      : {}),
  })
}

/** The figures of the cap or budget that refused; the budgets of the app follow those of the wallet. */
function figuresOf(
  rule: string,
  { spend, budgets }: Remaining,
): Pick<Refusal, 'asset' | 'limit' | 'spent' | 'remaining'> {
  const [, list, index] = /^(spend|budgets|appBudgets)\[(\d+)\]$/.exec(rule) ?? []
  if (list === 'spend') {
    const { asset = null, limit = null, spent = null, remaining = null } = spend[Number(index)] ?? {}
    return { asset, limit, spent, remaining }
  }
  const same = budgets.filter(({ setBy }) => (setBy === 'app') === (list === 'appBudgets'))
  const { asset = null, amount = null, spent = null, remaining = null } = same[Number(index)] ?? {}
  return { asset, limit: amount, spent, remaining }
}

/** The decision of a dry run as a refusal; null if it allows. */
export function refusalOfDecision(decision: Decision, policy: Policy, remaining: Remaining): Refusal | null {
  if (decision.allowed) return null
  const { message, rule, command } = decision
  const code = decision.code ?? 'policy_denied'
  const figures = figuresOf(rule, remaining)
  return refusal({ code, message, rule, command, ...figures, allowed: allowedBy(code, rule, policy, remaining) })
}
