import type { Db, Sql } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import { LedgerError, type Prepared } from '../../platform/ports/ledger.ts'
import { signatureOf } from '../../platform/ports/signature.ts'
import { lockTransaction, type TransactionRow } from '../../wallets/transactions/service.ts'
import { type Acting, type ExecuteCall, findLive } from '../access.ts'
import { askOwner, refusedWithoutOwner } from '../approvals/ask.ts'
import { denialOfReserved } from '../approvals/still-allowed.ts'
import { canAsk } from '../approvals/verdict.ts'
import { beginCounting, isUncounted } from '../budgets/begin-counting.ts'
import type { Toll } from '../budgets/count.ts'
import type { Taken } from '../budgets/turn.ts'
import { fail } from '../errors.ts'
import type { Execution } from '../schema.ts'
import { requireLive } from '../session.ts'
import * as store from '../store.ts'
import { recordWrongSignature, requireSameShares, withCoSignature } from './cosign.ts'
import { asAnswer, costDenial, type Denial, deny, evaluateEffects, ledgerFailure } from './evaluate.ts'
import {
  acceptCommands,
  answerEnded,
  answerOf,
  findRepeat,
  findSigningRequest,
  ledgerOf,
  prepareRequest,
  withPrepared,
} from './execution.ts'
import { insertCompleted, insertReserved, recordCompleted, recordFailed } from './record.ts'
import type { RequestedCommands, RequestedSignature } from './request.ts'

const ATTEMPTS_MAX = 10

/**
 * Executes commands on a transactional ledger. Nothing is locked while they are checked, prepared and signed. Then one
 * statement locks session, wallet, user and contracts, checks that they are what the decision was made on, and writes
 * ledger, caps, transaction and events, or nothing. So no reservation can be left over, and no cap can be exceeded. Calls
 * of one session take turns within a process; a call that loses to another process tries again, with the session locked.
 */
export async function executeInTransaction(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  requested: RequestedCommands,
): Promise<Execution> {
  let answer = await repeatOrAttempt(deps.db, deps, call, id, requested)
  for (let attempts = 1; answer === null && attempts < ATTEMPTS_MAX; attempts += 1)
    answer = await deps.db.tx(async (tx) => {
      await findLive(store.lockLive, tx, deps, call, id)
      return repeatOrAttempt(tx, deps, call, id, requested)
    })
  if (answer === null) throw fail('ledger_unavailable')
  await deps.failpoint('settled')
  return answer
}

/** The response to a call; null if the state that it was decided on has changed meanwhile. */
async function repeatOrAttempt(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  id: string,
  requested: RequestedCommands,
): Promise<Execution | null> {
  const { commandId, commands } = requested
  const snapshot = snapshotFor(deps, call, commands)
  const look = (on: Db, now: Date, reach: AppScope, of: string) =>
    store.findReady(on, now, reach, of, { commandId, snapshot, tokenHash: call.delegate?.tokenHash ?? null })
  const session = await findLive(look, db, deps, call, id)
  const before = session.known_transaction === null ? undefined : await findRepeat(db, session, requested)
  if (before !== undefined) return answerEnded(db, deps, session, before)
  try {
    const row = await attempt(db, deps, call, session, requested)
    return row && answerOf(deps, session, row)
  } catch (error) {
    // The first call under this command id may have finished meanwhile, and used up what this one needs.
    const meanwhile = error instanceof HttpError ? await findRepeat(db, session, requested) : undefined
    if (meanwhile === undefined) throw error
    return answerEnded(db, deps, session, meanwhile)
  }
}

/** What the transactional ledger reads for commands, as part of the statement that reads the session: one round trip. */
function snapshotFor(deps: Deps, { caller }: ExecuteCall, commands: RequestedCommands['commands']): Sql {
  const ledger = [...deps.ledgers.values()].find(({ snapshot }) => snapshot !== undefined)
  try {
    return ledger?.snapshot?.(caller.tenantId, commands) as Sql
  } catch (error) {
    throw asAnswer(error)
  }
}

/**
 * Checks, prepares, checks the prepared transaction, signs and writes. Null if the state has changed since it was read:
 * then nothing is written.
 */
async function attempt(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: Acting<store.ReadyRow>,
  requested: RequestedCommands,
): Promise<TransactionRow | null> {
  const row = await acceptCommands(db, deps, call, session, requested)
  if (isUncounted(session)) {
    await beginCounting(db, session, row.created_at)
    return null
  }
  const { commands } = requested
  const ledger = ledgerOf(deps, session)
  const request = prepareRequest(session, row, commands, row.created_at)
  const prepared = await ledger.prepare(db, request, session.snapshot).catch((error: unknown): never => {
    throw asAnswer(error)
  })
  const evaluated = await evaluateEffects(db, deps, ledger, session, commands, prepared)
  if ('denial' in evaluated) return deny(db, deps, call, session, evaluated.denial)
  const { charges, tolls, required } = evaluated
  if (required !== null) {
    if (!canAsk(deps, session)) return deny(db, deps, call, session, refusedWithoutOwner(required))
    const held = { ...withPrepared(row, prepared, charges), commands }
    const asked = await askOwner(db, deps, call, session, { row: held, tolls, prepared, required })
    return outcomeOf(db, deps, call, session, asked)
  }
  await deps.failpoint('reserved')
  const cosigned = await withCoSignature(db, deps, session, row, prepared)
  await deps.failpoint('cosigned')
  const ready = withPrepared(cosigned, prepared, charges)
  const taken =
    session.custody === 'embedded'
      ? await signAndInsert(db, deps, call, session, { row: ready, tolls }, prepared)
      : await insertReserved(db, deps, session, { ...ready, ...waiting(prepared) }, tolls)
  return outcomeOf(db, deps, call, session, taken)
}

/** The transaction that was written; null if nothing was, because the state has changed. @throws budget_exceeded */
async function outcomeOf(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: Acting,
  taken: Taken<TransactionRow>,
): Promise<TransactionRow | null> {
  if (taken === 'changed') return null
  return 'written' in taken ? taken.written : deny(db, deps, call, session, costDenial(taken.denied))
}

/** A transaction that waits for a signature of its owner. */
const waiting = ({ bytes, expiresAt }: Prepared) => ({
  status: 'signature_required' as const,
  prepared: bytes,
  expires_at: expiresAt,
  check_at: expiresAt,
})

/** Signs with the ledger node's key and writes the completed transaction. */
async function signAndInsert(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: Acting,
  ready: { row: TransactionRow; tolls: readonly Toll[] },
  prepared: Prepared,
): Promise<Taken<TransactionRow>> {
  const ledger = ledgerOf(deps, session)
  const signatures = await ledger.sign(db, session.tenant_id, session.party_id, prepared.payload)
  await deps.failpoint('signed')
  const submission = ledger.submission?.(prepared, signatures, deps.now())
  if (submission === undefined) throw new Error(`the ledger ${ledger.name} is transactional and has no submission`)
  return insertCompleted(db, deps, session, ready, submission, call)
}

/** Refuses what was reserved and waited for its signature: it fails, and gives back what it held. */
async function failDenied(
  tx: Db,
  deps: Deps,
  call: ExecuteCall,
  { session, row, denial }: { session: Acting; row: TransactionRow; denial: Denial },
): Promise<never> {
  try {
    return await deny(tx, deps, call, session, denial)
  } catch (error) {
    if (error instanceof HttpError) await recordFailed(tx, deps, session, row, error, call)
    throw error
  }
}

/**
 * Executes a transaction that the delegate has signed, on a transactional ledger. A wrong signature changes nothing; a
 * transaction that can no longer happen fails, and so does one that the policy does not allow any more. A repeat needs a right
 * signature, too, before it is answered as completed.
 * @throws signature_invalid, transaction_settled, prepared_expired, contract_archived; policy_denied, spend_limit_exceeded,
 * budget_exceeded
 */
export async function executeSigned(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: RequestedSignature,
): Promise<Execution> {
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLiveToCount, tx, deps, call, id)
    const row = await findSigningRequest(lockTransaction, tx, session, signingRequestId)
    if (row.status === 'completed' || row.status === 'failed') return answerEnded(tx, deps, session, row, signature)
    if (row.status !== 'signature_required' || row.prepared === null) throw fail('transaction_settled')
    requireLive(session, deps.now())
    requireSameShares(session, row)
    const denial = await denialOfReserved(tx, deps, session, { ...row, prepared: row.prepared })
    if (denial !== null) return failDenied(tx, deps, call, { session, row, denial })
    const signatures = [signatureOf(session.public_key as Buffer, signature)]
    try {
      const receipt = await ledgerOf(deps, session).submit(tx, session.tenant_id, row.prepared, signatures, deps.now())
      return answerOf(deps, session, await recordCompleted(tx, deps, session, row, receipt, call))
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error
      if (error.code === 'signature_invalid') {
        await recordWrongSignature(tx, deps, session, call)
        throw fail('signature_invalid').about('signature', error.message).commitOnThrow()
      }
      const refusal = ledgerFailure(error)
      await recordFailed(tx, deps, session, row, refusal, call)
      throw refusal.commitOnThrow()
    }
  })
}
