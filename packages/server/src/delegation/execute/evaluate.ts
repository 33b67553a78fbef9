import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { StoredEvent } from '../../platform/events/events.ts'
import type { HttpError } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { type Command, type Ledger, LedgerError, type Prepared } from '../../platform/ports/ledger.ts'
import type { Acting } from '../access.ts'
import { knownRecipients } from '../approvals/verdict.ts'
import { type BudgetDenial, partsOf, type Toll, tollsOf } from '../budgets/count.ts'
import { countRepeatedDenial, recordFirstDenial } from '../denials/denials.ts'
import { fail } from '../errors.ts'
import { type Declared, decideEffects } from '../policy/effects.ts'
import { judgePayment, type PaymentDenial, type Required } from '../policy/judge.ts'
import { paymentOf } from '../policy/payment.ts'
import { type CompiledPolicy, type Decision, decideCommands } from '../policy/policy.ts'
import type { Charge } from '../policy/spend.ts'
import type { Part } from '../policy/windows.ts'
import { policyOf, sessionEvent } from '../session.ts'
import * as store from '../store.ts'

/** How often denials by one rule publish an event. */
const DENIED_EVENT_EVERY_MS = 60_000

/** Why a policy denies, as the API returns it. */
export interface Denial {
  code: 'policy_denied' | 'spend_limit_exceeded' | 'budget_exceeded'
  rule: string
  command: number | null
  message: string
  /** Further fields of the error's details. */
  more: Record<string, unknown>
}

const denialBy = ({ rule, command, message }: Decision): Denial => ({
  code: 'policy_denied',
  rule,
  command,
  message,
  more: {},
})

/** Why the policy denies commands as they were requested; null if it allows them. */
export function evaluateCommands(policy: CompiledPolicy, commands: readonly Command[]): Denial | null {
  const decision = decideCommands(policy, commands)
  return decision.allowed ? null : denialBy(decision)
}

/** The templates that each exercised choice may touch, as its template declares. */
async function declaredBy(
  ledger: Ledger,
  db: Db,
  tenantId: Id<'ten'>,
  commands: readonly Command[],
): Promise<Declared> {
  const known = new Map<string, ReturnType<Declared>>()
  for (const command of commands) {
    if (!('exercise' in command)) continue
    const { templateId, choice } = command.exercise
    const key = `${templateId} ${choice}`
    if (!known.has(key)) known.set(key, await ledger.declaredConsequences(db, tenantId, templateId, choice))
  }
  return (templateId, choice) => known.get(`${templateId} ${choice}`) ?? null
}

/** Why the policy denies what a prepared transaction does, apart from its cost; null if it allows it. Asks the ledger. */
export async function evaluateActs(
  db: Db,
  ledger: Ledger,
  policy: CompiledPolicy,
  { tenant_id, party_id, commands }: Pick<store.LiveRow, 'tenant_id' | 'party_id'> & { commands: readonly Command[] },
  prepared: Pick<Prepared, 'actAs' | 'effects'>,
): Promise<Denial | null> {
  const declared = await declaredBy(ledger, db, tenant_id, commands)
  const decision = decideEffects(policy, { actAs: party_id, commands }, prepared, declared)
  return decision.allowed ? null : denialBy(decision)
}

/** What a prepared transaction takes of its session's caps and of the budgets of its wallet, and whether the owner is asked. */
export interface Cost {
  charges: Charge[]
  tolls: Toll[]
  /** What the tolls are, counted on what is spent as it was read. */
  parts: Part[]
  /** What the owner has to approve; null for nothing. */
  required: Required | null
}

/** A refusal because of a condition or the cost. */
export function costDenial({ code, rule, message, ...more }: PaymentDenial | BudgetDenial): Denial {
  return { code, rule, command: null, message, more }
}

/** What a prepared transaction costs on what is spent in `row`, or why a condition, cap or budget denies it. */
export async function evaluateCost(
  db: Db,
  row: Acting,
  prepared: Prepared,
  now: Date,
): Promise<{ denial: Denial } | Cost> {
  const policy = policyOf(row)
  const payment = paymentOf(prepared, row.party_id)
  const known = await knownRecipients(db, row, policy, payment, now)
  const judged = judgePayment(policy, payment, { ...known, spent: row.spent, now })
  if ('denied' in judged) return { denial: costDenial(judged.denied) }
  const tolls = tollsOf(row.limits, prepared, row.party_id)
  const counted = partsOf(tolls, row.spending?.spent ?? {}, now)
  if ('denied' in counted) return { denial: costDenial(counted.denied) }
  return { ...judged, tolls, ...counted }
}

/** Both: effects and cost. */
export async function evaluateEffects(
  db: Db,
  deps: Deps,
  ledger: Ledger,
  row: Acting,
  commands: readonly Command[],
  prepared: Prepared,
): Promise<{ denial: Denial } | Cost> {
  const denial = await evaluateActs(db, ledger, policyOf(row), { ...row, commands }, prepared)
  return denial === null ? evaluateCost(db, row, prepared, deps.now()) : { denial }
}

function errorOf({ code, rule, command, message, more }: Denial): HttpError {
  return fail(code).about(command === null ? 'commands' : `commands.${command}`, message, { rule, ...more })
}

/** The events of a denial. What exceeds a budget concerns the wallet, whichever of its sessions asked. */
function eventsOf(now: Date, cause: Call, row: store.SessionRow, { rule, code, message, more }: Denial): StoredEvent[] {
  const denied = sessionEvent(now, row, 'delegated_session.denied', cause, { rule, code, message })
  return code === 'budget_exceeded'
    ? [denied, sessionEvent(now, row, 'budget.exceeded', cause, { budget: rule, message, ...more })]
    : [denied]
}

/**
 * Refuses, and publishes `delegated_session.denied` unless the same rule's was published within the last minute. The event
 * stays even if the surrounding transaction would roll back. @throws policy_denied, spend_limit_exceeded, budget_exceeded
 */
export async function deny(db: Db, deps: Deps, cause: Call, row: store.SessionRow, denial: Denial): Promise<never> {
  const now = deps.now()
  const { rule } = denial
  const since = new Date(now.getTime() - DENIED_EVENT_EVERY_MS)
  // The row was just read: a delegate that is denied in a loop causes no writes.
  const isRecent = row.denials[rule] !== undefined && Date.parse(row.denials[rule]) > since.getTime()
  if (isRecent) countRepeatedDenial(deps, row, denial, now)
  else {
    const events = eventsOf(now, cause, row, denial)
    if (await store.recordDenial(db, row, rule, { now, since, events })) db.afterCommit(deps.wake.outbox)
    await recordFirstDenial(db, row, denial, now)
  }
  throw errorOf(denial).commitOnThrow()
}

/** A ledger's refusal as an HTTP error. Its field is below `commands`. */
export function ledgerFailure(error: LedgerError): HttpError {
  const code = error.code === 'prepared_invalid' ? 'transaction_failed' : error.code
  const field = error.field === null ? 'commands' : `commands.${error.field}`.replace(/\.$/, '')
  return fail(code).about(field, error.message)
}

/** An error of the ledger as an HTTP error; other errors unchanged. */
export function asAnswer(error: unknown): unknown {
  return error instanceof LedgerError ? ledgerFailure(error) : error
}
