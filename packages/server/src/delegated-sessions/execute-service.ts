import type { Db } from '../core/db.ts'
import type { Deps } from '../core/deps.ts'
import { failures, HttpError } from '../core/errors.ts'
import type { Origin } from '../core/http.ts'
import { isId } from '../core/ids.ts'
import { type Ledger, LedgerError, type Prepared } from '../ledger/ledger.ts'
import { findByCommand, lockTransaction, type TransactionRow } from '../transactions/service.ts'
import { type Executor, liveFor, requireLive } from './access-service.ts'
import { ledgerCommandId, newTransaction, toExecution, withPrepared } from './execution.ts'
import { asAnswer, deny, judgeCommands, judgeEffects, ledgerFailure } from './judge-service.ts'
import { type AskedCommands, type AskedSignature, hashOf } from './request.ts'
import type { Execution } from './schema.ts'
import { DELEGATED_SESSION_ERRORS, policyOf, remainingIn } from './service.ts'
import { recordCompleted, reserve, settleCompleted, settleFailed } from './settle-service.ts'
import * as store from './store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** How long what is prepared and signed in one go can be executed. */
const PREPARED_MS = 60_000
/** How long the owner of a wallet has for signing. */
const SIGNING_MS = 10 * 60_000

/** Who executes, and from where. */
export interface ExecuteCall extends Executor {
  origin: Origin
}

/** The ledger of a session's wallet. */
export function ledgerOf(deps: Deps, row: Pick<store.LiveRow, 'ledger'>): Ledger {
  const ledger = deps.ledgers.get(row.ledger)
  if (ledger === undefined) throw fail('ledger_unavailable')
  return ledger
}

/** A transaction as it is answered. */
export function answerOf(deps: Deps, session: store.LiveRow, row: TransactionRow): Execution {
  if (row.status === 'failed' && row.error !== null) {
    const { status, code, message, details } = row.error
    throw new HttpError(status, code, message, details as never)
  }
  const digestOf = (bytes: Buffer) => ledgerOf(deps, session).decode(bytes).digest
  return toExecution(row, session, remainingIn(session, deps.now()), digestOf)
}

/** What was answered under this command id; undefined if nothing was. @throws duplicate_command, and why it failed */
export async function repeatOf(
  tx: Db,
  session: store.LiveRow,
  { commandId, commands }: AskedCommands,
): Promise<TransactionRow | undefined> {
  if (commandId === null) return undefined
  const row = await findByCommand(tx, session.tenant_id, session.id, commandId)
  if (row !== undefined && !row.commands_hash.equals(hashOf(commands)))
    throw fail('duplicate_command', [
      { field: 'commandId', code: 'duplicate_command', message: `Transaction ${row.id} has it, with other commands.` },
    ])
  return row
}

/** That a use is left. One that is taken by an open transaction may come back. @throws uses_in_flight */
export function requireUse({ max_uses: max, uses }: store.SessionRow): void {
  if (max !== null && uses >= max) throw fail('uses_in_flight')
}

/** Signs with the node's key, executes and records: all in this transaction. */
async function executeNow(
  tx: Db,
  deps: Deps,
  call: ExecuteCall,
  session: store.LiveRow,
  row: TransactionRow,
  prepared: Prepared,
): Promise<Execution> {
  const ledger = ledgerOf(deps, session)
  const signatures = await ledger.sign(tx, session.tenant_id, session.party_id, prepared.digest)
  await deps.reached('signed')
  const receipt = await ledger.submit(tx, session.tenant_id, prepared.bytes, signatures, deps.now())
  await deps.reached('submitted')
  const done = await recordCompleted(tx, deps, session, row, receipt, call)
  await deps.reached('settled')
  return answerOf(deps, session, done)
}

/** Reserves, and asks the wallet's owner to sign. */
async function askForSignature(
  tx: Db,
  deps: Deps,
  session: store.LiveRow,
  row: TransactionRow,
  prepared: Prepared,
): Promise<Execution> {
  const asked: TransactionRow = {
    ...row,
    status: 'signature_required',
    prepared: prepared.bytes,
    expires_at: prepared.expiresAt,
    check_at: prepared.expiresAt,
  }
  return answerOf(deps, session, await reserve(tx, deps, session, asked, { isNew: true }))
}

/**
 * Executes commands on a ledger that joins: check, reserve, prepare, sign, execute, settle and events are one
 * transaction under the session's row lock, so that no reservation can be stuck and none is read twice.
 */
export async function executeJoined(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  asked: AskedCommands,
): Promise<Execution> {
  return deps.db.tx(async (tx) => {
    const session = await liveFor(store.lockLive, tx, deps, call, id)
    const before = await repeatOf(tx, session, asked)
    if (before !== undefined) return answerOf(deps, session, before)
    const now = deps.now()
    requireLive(session, now)
    requireUse(session)
    const { commands } = asked
    const denial = judgeCommands(policyOf(session), commands)
    if (denial !== null) return deny(tx, deps, call, session, denial)
    const ledger = ledgerOf(deps, session)
    const row = newTransaction(session, asked.commandId, commands, now)
    const lifetimeMs = session.custody === 'embedded' ? PREPARED_MS : SIGNING_MS
    const request = {
      tenantId: session.tenant_id,
      commandId: ledgerCommandId(row),
      actAs: session.party_id,
      commands,
      now,
      expiresAt: new Date(now.getTime() + lifetimeMs),
    }
    const prepared = await ledger.prepare(tx, request).catch((error: unknown): never => {
      throw asAnswer(error)
    })
    const judged = await judgeEffects(tx, deps, ledger, session, commands, prepared)
    if ('denial' in judged) return deny(tx, deps, call, session, judged.denial)
    await deps.reached('reserved')
    const reserved = withPrepared(row, prepared, judged.charges)
    return session.custody === 'embedded'
      ? executeNow(tx, deps, call, session, reserved, prepared)
      : askForSignature(tx, deps, session, reserved, prepared)
  })
}

async function lockAsked(tx: Db, session: store.LiveRow, id: string): Promise<TransactionRow> {
  const row = isId('tx', id) ? await lockTransaction(tx, session.tenant_id, id) : undefined
  if (row === undefined || row.delegated_session_id !== session.id)
    throw fail('not_found', [
      { field: 'signingRequestId', code: 'not_found', message: 'This session has no signing request of this id.' },
    ])
  return row
}

/**
 * Executes what the wallet's owner has signed, on a ledger that joins. A wrong signature changes nothing; what can no
 * longer happen is settled as failed. @throws signature_invalid, transaction_settled, prepared_expired, contract_archived
 */
export async function executeSigned(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: AskedSignature,
): Promise<Execution> {
  return deps.db.tx(async (tx) => {
    const session = await liveFor(store.lockLive, tx, deps, call, id)
    const row = await lockAsked(tx, session, signingRequestId)
    if (row.status === 'completed' || row.status === 'failed') return answerOf(deps, session, row)
    if (row.status !== 'signature_required' || row.prepared === null) throw fail('transaction_settled')
    requireLive(session, deps.now())
    const publicKey = session.public_key as Buffer
    const signatures = [{ party: session.party_id, publicKey, signature }]
    try {
      const receipt = await ledgerOf(deps, session).submit(tx, session.tenant_id, row.prepared, signatures, deps.now())
      const done = await settleCompleted(tx, deps, session, row, receipt, { cause: call, submitted: true })
      return answerOf(deps, session, done)
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error
      const refusal = ledgerFailure(error)
      if (error.code === 'signature_invalid')
        throw fail('signature_invalid', [{ field: 'signature', code: 'signature_invalid', message: error.message }])
      const { status, code, message, details } = refusal
      await settleFailed(
        tx,
        deps,
        session,
        row,
        { status, code, message, details: [...details] },
        { cause: call, reserved: true },
      )
      throw refusal.keepingEffects()
    }
  })
}
