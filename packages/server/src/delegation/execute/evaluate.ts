import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type ErrorDetail, failures, type HttpError } from '../../platform/http/errors.ts'
import type { Caller, Origin } from '../../platform/http/route.ts'
import { type Command, type Ledger, LedgerError, type Prepared } from '../../platform/ports/ledger.ts'
import { decideEffects } from '../policy/effects.ts'
import { type CompiledPolicy, type Decision, decideCommands } from '../policy/policy.ts'
import { type Charge, charge } from '../policy/spend.ts'
import { DELEGATED_SESSION_ERRORS, policyOf, sessionEvent } from '../service.ts'
import * as store from '../store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** A denial by one rule is told of once in so long. */
const TOLD_EVERY_MS = 60_000

/** Why a policy denies, as it is answered. */
export interface Denial {
  code: 'policy_denied' | 'spend_limit_exceeded'
  rule: string
  command: number | null
  message: string
  /** Further facts for the answer's details. */
  more: Record<string, unknown>
}

const denialBy = ({ rule, command, message }: Decision): Denial => ({
  code: 'policy_denied',
  rule,
  command,
  message,
  more: {},
})

/** Whether the policy denies commands as they were asked for. */
export function evaluateCommands(policy: CompiledPolicy, commands: readonly Command[]): Denial | null {
  const decision = decideCommands(policy, commands)
  return decision.allowed ? null : denialBy(decision)
}

async function declaredBy(
  ledger: Ledger,
  db: Db,
  row: store.SessionRow,
  commands: readonly Command[],
): Promise<(templateId: string, choice: string) => readonly string[] | null> {
  const known = new Map<string, readonly string[] | null>()
  for (const command of commands) {
    if (!('exercise' in command)) continue
    const { templateId, choice } = command.exercise
    const key = `${templateId} ${choice}`
    if (!known.has(key)) known.set(key, await ledger.declaredConsequences(db, row.tenant_id, templateId, choice))
  }
  return (templateId, choice) => known.get(`${templateId} ${choice}`) ?? null
}

/** Whether the policy denies what a prepared transaction does, apart from what it costs. Asks the ledger. */
export async function evaluateActs(
  db: Db,
  ledger: Ledger,
  row: store.LiveRow,
  commands: readonly Command[],
  prepared: Prepared,
): Promise<Denial | null> {
  const declared = await declaredBy(ledger, db, row, commands)
  const decision = decideEffects(policyOf(row), { actAs: row.party_id, commands }, prepared, declared)
  return decision.allowed ? null : denialBy(decision)
}

/** What a prepared transaction takes of the session's caps as they are in `row`, or why it may not. */
export function evaluateCost(
  row: store.LiveRow,
  prepared: Prepared,
  now: Date,
): { denial: Denial } | { charges: Charge[] } {
  const charged = charge(policyOf(row), row.spent, prepared.flows, row.party_id, now)
  if ('charges' in charged) return charged
  const { code, rule, message, ...more } = charged.denied
  return { denial: { code, rule, command: null, message, more } }
}

/** Whether the policy denies what a prepared transaction does; if not, what it takes of the session's caps. */
export async function evaluateEffects(
  db: Db,
  deps: Deps,
  ledger: Ledger,
  row: store.LiveRow,
  commands: readonly Command[],
  prepared: Prepared,
): Promise<{ denial: Denial } | { charges: Charge[] }> {
  const denial = await evaluateActs(db, ledger, row, commands, prepared)
  return denial === null ? evaluateCost(row, prepared, deps.now()) : { denial }
}

/** A denial as an error. */
function denied({ code, rule, command, message, more }: Denial): HttpError {
  const field = command === null ? 'commands' : `commands.${command}`
  return fail(code, [{ field, code, message, rule, ...more }])
}

/**
 * Refuses, and tells of it with `delegated_session.denied` unless the same rule's was told within a minute: that stays,
 * whatever else the transaction was about to do. @throws policy_denied, spend_limit_exceeded
 */
export async function deny(
  db: Db,
  deps: Deps,
  cause: { caller: Caller; origin: Origin },
  row: store.SessionRow,
  denial: Denial,
): Promise<never> {
  const now = deps.now()
  const { rule, code, message } = denial
  const event = sessionEvent(now, row, 'delegated_session.denied', cause, { rule, code, message })
  const since = new Date(now.getTime() - TOLD_EVERY_MS)
  // In memory most of the time: who is denied again and again costs no write.
  const lately = row.denials[rule] !== undefined && Date.parse(row.denials[rule]) > since.getTime()
  if (!lately && (await store.recordDenial(db, row, rule, { now, since, event }))) db.afterCommit(deps.wake.outbox)
  throw denied(denial).commitOnThrow()
}

/** A ledger's refusal as an answer; its field is below `commands`. */
export function ledgerFailure(error: LedgerError): HttpError {
  const code = error.code === 'prepared_invalid' ? 'transaction_failed' : error.code
  const field = error.field === null ? 'commands' : `commands.${error.field}`.replace(/\.$/, '')
  const detail: ErrorDetail = { field, code, message: error.message }
  return fail(code, [detail])
}

/** Whatever a ledger threw, as an answer; other errors as they are. */
export function asAnswer(error: unknown): unknown {
  return error instanceof LedgerError ? ledgerFailure(error) : error
}
