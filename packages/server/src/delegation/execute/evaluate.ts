import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { HttpError } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Command, type Ledger, LedgerError, type Prepared } from '../../platform/ports/ledger.ts'
import { countRepeatedDenial, recordFirstDenial } from '../denials/denials.ts'
import { fail } from '../errors.ts'
import { decideEffects } from '../policy/effects.ts'
import { type CompiledPolicy, type Decision, decideCommands } from '../policy/policy.ts'
import { type Charge, charge } from '../policy/spend.ts'
import { policyOf, sessionEvent } from '../session.ts'
import * as store from '../store.ts'

/** How often denials by one rule publish an event. */
const DENIED_EVENT_EVERY_MS = 60_000

/** Why a policy denies, as the API returns it. */
export interface Denial {
  code: 'policy_denied' | 'spend_limit_exceeded'
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

/** Why the policy denies what a prepared transaction does, apart from its cost; null if it allows it. Asks the ledger. */
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

/** What a prepared transaction takes of the session's caps as they are in `row`, or why the policy denies it. */
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

/** Both: effects and cost. */
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

function errorOf({ code, rule, command, message, more }: Denial): HttpError {
  return fail(code).about(command === null ? 'commands' : `commands.${command}`, message, { rule, ...more })
}

/**
 * Refuses, and publishes `delegated_session.denied` unless the same rule's was published within the last minute. The event
 * stays even if the surrounding transaction would roll back. @throws policy_denied, spend_limit_exceeded
 */
export async function deny(db: Db, deps: Deps, cause: Call, row: store.SessionRow, denial: Denial): Promise<never> {
  const now = deps.now()
  const { rule, code, message } = denial
  const event = sessionEvent(now, row, 'delegated_session.denied', cause, { rule, code, message })
  const since = new Date(now.getTime() - DENIED_EVENT_EVERY_MS)
  // The row was just read: a delegate that is denied in a loop causes no writes.
  const isRecent = row.denials[rule] !== undefined && Date.parse(row.denials[rule]) > since.getTime()
  if (isRecent) countRepeatedDenial(deps, row, denial, now)
  else {
    if (await store.recordDenial(db, row, rule, { now, since, event })) db.afterCommit(deps.wake.outbox)
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
