import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import { isSignedFor, signatureOf } from '../../platform/ports/signature.ts'
import {
  findTransaction,
  insertTransaction,
  postpone,
  type TransactionRow,
} from '../../wallets/transactions/service.ts'
import { type ExecuteCall, findLive } from '../access.ts'
import { fail } from '../errors.ts'
import { recordWrongSignature, requireSameShares } from '../execute/cosign.ts'
import { acceptCommands, answerOf, findRepeat, findSigningRequest, ledgerOf } from '../execute/execution.ts'
import type { RequestedCommands, RequestedSignature } from '../execute/request.ts'
import type { Execution } from '../schema.ts'
import * as store from '../store.ts'
import { isOpen, resolveByLedger } from './outcome.ts'
import { advanceToReserved, later, RECEIVED_MS, readAgain, type Sign, STEP_MS, signAndSend } from './steps.ts'

/** How long a repeat waits for the request that works on the same transaction. */
const OTHERS_MS = 2_000
const POLL_MIN_MS = 25
const POLL_MAX_MS = 250

/** Where a call continues after its first database transaction. */
export interface Received {
  transactionId: string
  /** False for a repeat: another request works on it, or did. */
  isNew: boolean
}

/** Checks commands for a remote ledger as they were requested, and stores them. Nothing is reserved yet. */
export async function receiveRemote(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  requested: RequestedCommands,
): Promise<Received> {
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLive, tx, deps, call, id)
    const before = await findRepeat(tx, session, requested)
    if (before !== undefined) return { transactionId: before.id, isNew: false }
    const row = await acceptCommands(tx, deps, call, session, requested)
    const checkAt = later(row.created_at, RECEIVED_MS)
    await insertTransaction(tx, { ...row, commands: requested.commands, check_at: checkAt })
    return { transactionId: row.id, isNew: true }
  })
}

/**
 * Continues from what was received, outside any transaction: prepare, reserve, sign, send, resolve. A repeat continues
 * from wherever the transaction is, so that each step happens once even if a process dies in between. A transaction that is
 * still open at the end is returned as it is.
 */
export async function continueRemote(
  deps: Deps,
  call: ExecuteCall,
  { transactionId, isNew }: Received,
): Promise<Execution> {
  const found = await readAgain(deps, { tenant_id: call.caller.tenantId, id: transactionId as Id<'tx'> })
  const taken = isNew ? { row: found, isOurs: true } : await resume(deps, found)
  let { row } = taken
  if (taken.isOurs) {
    if (row.status === 'submitted') row = await outcomeOf(deps, call, row)
    if (row.status === 'received') row = await advanceToReserved(deps, call, row)
    if (row.status === 'reserved') row = await signAndSend(deps, call, row, signByNode(deps))
  }
  return answer(deps, call, row)
}

/** A repeat: waits for the request that works on the transaction, and takes it over if none does any more. */
async function resume(deps: Deps, before: TransactionRow): Promise<{ row: TransactionRow; isOurs: boolean }> {
  const isUnsigned = (row: TransactionRow) => row.status === 'received' || row.status === 'reserved'
  const row = isUnsigned(before) ? await awaitOthers(deps, before) : before
  if (!isUnsigned(row)) return { row, isOurs: true }
  const ms = row.status === 'received' ? RECEIVED_MS : STEP_MS
  const taken = await postpone(deps.db, row, later(deps.now(), ms))
  return { row: taken ?? (await readAgain(deps, row)), isOurs: taken !== undefined }
}

/** Gives the request that works on a transaction some time to finish. */
async function awaitOthers(deps: Deps, before: TransactionRow): Promise<TransactionRow> {
  const deadline = performance.now() + OTHERS_MS
  let row = before
  for (let pauseMs = POLL_MIN_MS; isOpen(row); pauseMs = Math.min(pauseMs * 1.5, POLL_MAX_MS)) {
    const leftMs = deadline - performance.now()
    if (leftMs <= 0 || row.check_at === null || row.check_at <= deps.now()) break
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, leftMs)))
    row = await readAgain(deps, row)
  }
  return row
}

/** The outcome of a signed transaction; the row as it is if the ledger does not say. */
async function outcomeOf(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  try {
    return (await resolveByLedger(deps, row, call)).row
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    deps.log.warn(
      { err: error, transactionId: row.id, ledger: row.ledger },
      'the ledger did not report the outcome of a transaction',
    )
    return row
  }
}

async function answer(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<Execution> {
  return answerOf(deps, await findLive(store.findLive, deps.db, deps, call, row.delegated_session_id), row)
}

const signByNode =
  (deps: Deps): Sign =>
  (tx, session, payload) =>
    ledgerOf(deps, session).sign(tx, session.tenant_id, session.party_id, payload)

/** Accepts a signature by the wallet's own key. @throws signature_invalid (names `signature`) */
const signByOwner =
  (signature: Buffer): Sign =>
  async (_, session, payload) => {
    const signed = session.public_key === null ? null : signatureOf(session.public_key, signature)
    if (signed !== null && isSignedFor(session.party_id, payload, signed)) return [signed]
    throw fail('signature_invalid').about('signature', "Must be a valid signature of the digest by the wallet's key.")
  }

/**
 * The check of a signature in the first half of a call: it is valid, over what this session requested. Counts wrong ones,
 * changes nothing else. @throws not_found (names `signingRequestId`), signature_invalid
 */
export async function checkSignature(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: RequestedSignature,
): Promise<void> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  const row = await findSigningRequest(findTransaction, deps.db, session, signingRequestId)
  if (row.status !== 'signature_required' || row.prepared === null) return
  requireSameShares(session, row)
  const { payload } = ledgerOf(deps, session).decode(row.prepared)
  try {
    await signByOwner(signature)(deps.db, session, payload)
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    await deps.db.tx(async (tx) => {
      await recordWrongSignature(tx, deps, await findLive(store.lockLive, tx, deps, call, id), call)
    })
    throw error.commitOnThrow()
  }
}

/** Sends a transaction that the delegate has signed to a remote ledger; a repeat returns its outcome. */
export async function continueSigned(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: RequestedSignature,
): Promise<Execution> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  const row = await findSigningRequest(findTransaction, deps.db, session, signingRequestId)
  if (!isOpen(row)) return answerOf(deps, session, row)
  if (row.status === 'submitted') return answer(deps, call, await outcomeOf(deps, call, row))
  if (row.status !== 'signature_required') throw fail('transaction_settled')
  return answer(deps, call, await signAndSend(deps, call, row, signByOwner(signature)))
}
