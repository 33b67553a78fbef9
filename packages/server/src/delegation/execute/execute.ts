import type { Db, Sql } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError } from '../../platform/http/errors.ts'
import type { Origin } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { type Ledger, LedgerError, type Prepared } from '../../platform/ports/ledger.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { findByCommand, lockTransaction, type TransactionRow } from '../../wallets/transactions/service.ts'
import { type Executor, findLive, requireLive } from '../manage/access.ts'
import type { Execution } from '../schema.ts'
import { DELEGATED_SESSION_ERRORS, policyOf, remainingIn } from '../service.ts'
import * as store from '../store.ts'
import { COSIGNING_MS, recordWrongSignature, requireCommitments, requireSameShares, withCoSignature } from './cosign.ts'
import { asAnswer, deny, evaluateCommands, evaluateEffects, ledgerFailure } from './evaluate.ts'
import { ledgerCommandId, newTransaction, toExecution, withPrepared } from './execution.ts'
import { recordCompleted, recordFailed, reserveNew, writeCompleted } from './record.ts'
import { hashOf, type RequestedCommands, type RequestedSignature } from './request.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** How long what is prepared and signed in one go can be executed. */
export const PREPARED_MS = 60_000
/** How long the owner of a wallet has for signing. */
const SIGNING_MS = 10 * 60_000

/** How long what is prepared for a wallet of this custody can be executed. */
export const LIFETIME_MS = { embedded: PREPARED_MS, shared: COSIGNING_MS, self_custody: SIGNING_MS } as const

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
export async function findRepeat(
  tx: Db,
  session: store.LiveRow,
  { commandId, commands, commitments }: Omit<RequestedCommands, 'dryRun'>,
): Promise<TransactionRow | undefined> {
  if (commandId === null) return undefined
  const row = await findByCommand(tx, session.tenant_id, session.id, commandId)
  if (row !== undefined && !row.commands_hash.equals(hashOf(commands)))
    throw fail('duplicate_command', [
      { field: 'commandId', code: 'duplicate_command', message: `Transaction ${row.id} has it, with other commands.` },
    ])
  if (row?.cosigned != null) {
    // A second part for other commitments would be one of another signature: who wants that asks for another transaction.
    if (canonicalJson(row.cosigned.commitments) !== canonicalJson(commitments))
      throw fail('duplicate_command', [
        { field: 'commitments', code: 'duplicate_command', message: `Transaction ${row.id} was asked with others.` },
      ])
    requireSameShares(session, row)
  }
  return row
}

/** That a use is left. One that is taken by an open transaction may come back. @throws uses_in_flight */
export function requireUse({ max_uses: max, uses }: store.SessionRow): void {
  if (max !== null && uses >= max) throw fail('uses_in_flight')
}

/** Signs with the node's key, executes and records. Null where somebody else was quicker: then nothing happened. */
async function executeNow(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: store.LiveRow,
  row: TransactionRow,
  prepared: Prepared,
): Promise<TransactionRow | null> {
  const ledger = ledgerOf(deps, session)
  const signatures = await ledger.sign(db, session.tenant_id, session.party_id, prepared.digest)
  await deps.failpoint('signed')
  const submission = ledger.submission?.(prepared, signatures, deps.now())
  if (submission === undefined) throw new Error(`the ledger ${ledger.name} joins and has no submission`)
  return recordCompleted(db, deps, session, row, submission, call)
}

/** Reserves, and asks the wallet's owner to sign. Null as above. */
function askForSignature(
  db: Db,
  deps: Deps,
  session: store.LiveRow,
  row: TransactionRow,
  prepared: Prepared,
): Promise<TransactionRow | null> {
  const { bytes, expiresAt } = prepared
  const asked = {
    ...row,
    status: 'signature_required' as const,
    prepared: bytes,
    expires_at: expiresAt,
    check_at: expiresAt,
  }
  return reserveNew(db, deps, session, asked)
}

/** One attempt: what was read may have changed by the time that it is written. Null if so. */
async function attempt(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: store.ReadyRow,
  asked: RequestedCommands,
): Promise<TransactionRow | null> {
  const now = deps.now()
  requireLive(session, now)
  requireUse(session)
  await deps.quotas.require(db, session.tenant_id, 'transactions')
  requireCommitments(session, asked.commitments)
  const { commands } = asked
  const denial = evaluateCommands(policyOf(session), commands)
  if (denial !== null) return deny(db, deps, call, session, denial)
  const ledger = ledgerOf(deps, session)
  const row = newTransaction(session, asked, now)
  const request = {
    tenantId: session.tenant_id,
    commandId: ledgerCommandId(row),
    actAs: session.party_id,
    commands,
    now,
    expiresAt: new Date(now.getTime() + LIFETIME_MS[session.custody]),
  }
  const prepared = await ledger.prepare(db, request, session.snapshot).catch((error: unknown): never => {
    throw asAnswer(error)
  })
  const judged = await evaluateEffects(db, deps, ledger, session, commands, prepared)
  if ('denial' in judged) return deny(db, deps, call, session, judged.denial)
  await deps.failpoint('reserved')
  const cosigned = await withCoSignature(db, deps, session, row, prepared)
  await deps.failpoint('cosigned')
  const reserved = withPrepared(cosigned, prepared, judged.charges)
  return session.custody === 'embedded'
    ? executeNow(db, deps, call, session, reserved, prepared)
    : askForSignature(db, deps, session, reserved, prepared)
}

/** What the ledger that joins reads for commands: with the session, so that it costs no statement of its own. */
function snapshotFor(deps: Deps, { caller }: ExecuteCall, commands: RequestedCommands['commands']): Sql {
  const joined = [...deps.ledgers.values()].find((ledger) => ledger.snapshot !== undefined)
  try {
    return joined?.snapshot?.(caller.tenantId, commands) as Sql
  } catch (error) {
    throw asAnswer(error)
  }
}

/** The answer to a call, or null where an attempt came too late. */
async function attemptOrRepeat(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  id: string,
  asked: RequestedCommands,
): Promise<Execution | null> {
  const { commandId, commands } = asked
  const snapshot = snapshotFor(deps, call, commands)
  const look = (on: Db, now: Date, reach: store.Reach, of: string) =>
    store.findReady(on, now, reach, of, { commandId, snapshot, tokenHash: call.delegate?.tokenHash ?? null })
  const session = await findLive(look, db, deps, call, id)
  const before = session.known_transaction === null ? undefined : await findRepeat(db, session, asked)
  if (before !== undefined) return answerOf(deps, session, before)
  try {
    const row = await attempt(db, deps, call, session, asked)
    return row && answerOf(deps, session, row)
  } catch (error) {
    // The first call under this command id may have been answered meanwhile, and used up what this one asks for.
    const meanwhile = error instanceof HttpError ? await findRepeat(db, session, asked) : undefined
    if (meanwhile === undefined) throw error
    return answerOf(deps, session, meanwhile)
  }
}

const ATTEMPTS_MAX = 10

/**
 * Executes commands on a ledger that joins. Nothing is locked while it is checked, prepared and signed: one statement
 * locks session, wallet, user and contracts, finds that they are what the decision was made on, and writes ledger, caps,
 * transaction and events, or nothing. So no reservation can be stuck, and no cap be passed. Calls of one session take
 * turns in a process; who loses to another process looks again, with the session's row locked.
 */
export async function executeInTransaction(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  asked: RequestedCommands,
): Promise<Execution> {
  let answer = await attemptOrRepeat(deps.db, deps, call, id, asked)
  for (let attempts = 1; answer === null && attempts < ATTEMPTS_MAX; attempts += 1)
    answer = await deps.db.tx(async (tx) => {
      await findLive(store.lockLive, tx, deps, call, id)
      return attemptOrRepeat(tx, deps, call, id, asked)
    })
  if (answer === null) throw fail('ledger_unavailable')
  await deps.failpoint('settled')
  return answer
}

/** A session's transaction that a signature is for; locked where `look` locks. @throws not_found (names `signingRequestId`) */
export async function requestedCommands(
  look: typeof lockTransaction,
  db: Db,
  session: store.LiveRow,
  id: string,
): Promise<TransactionRow> {
  const row = isId('tx', id) ? await look(db, session.tenant_id, id) : undefined
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
  { signingRequestId, signature }: RequestedSignature,
): Promise<Execution> {
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLive, tx, deps, call, id)
    const row = await requestedCommands(lockTransaction, tx, session, signingRequestId)
    if (row.status === 'completed' || row.status === 'failed') return answerOf(deps, session, row)
    if (row.status !== 'signature_required' || row.prepared === null) throw fail('transaction_settled')
    requireLive(session, deps.now())
    requireSameShares(session, row)
    const publicKey = session.public_key as Buffer
    const signatures = [{ party: session.party_id, publicKey, signature }]
    try {
      const receipt = await ledgerOf(deps, session).submit(tx, session.tenant_id, row.prepared, signatures, deps.now())
      const done = await writeCompleted(tx, deps, session, row, receipt, { cause: call, submitted: true })
      return answerOf(deps, session, done)
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error
      const refusal = ledgerFailure(error)
      if (error.code === 'signature_invalid') {
        await recordWrongSignature(tx, deps, session, call)
        const detail = { field: 'signature', code: 'signature_invalid', message: error.message }
        throw fail('signature_invalid', [detail]).commitOnThrow()
      }
      const { status, code, message, details } = refusal
      await recordFailed(
        tx,
        deps,
        session,
        row,
        { status, code, message, details: [...details] },
        { cause: call, reserved: true },
      )
      throw refusal.commitOnThrow()
    }
  })
}
