import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import { isSignedFor } from '../../platform/ports/signature.ts'
import {
  findTransaction,
  insertTransaction,
  postpone,
  type TransactionRow,
} from '../../wallets/transactions/service.ts'
import { recordWrongSignature, requireCommitments, requireSameShares } from '../execute/cosign.ts'
import { deny, evaluateCommands } from '../execute/evaluate.ts'
import { answerOf, type ExecuteCall, findRepeat, ledgerOf, requestedCommands, requireUse } from '../execute/execute.ts'
import { newTransaction } from '../execute/execution.ts'
import type { RequestedCommands, RequestedSignature } from '../execute/request.ts'
import { findLive, requireLive } from '../manage/access.ts'
import type { Execution } from '../schema.ts'
import { DELEGATED_SESSION_ERRORS, policyOf } from '../service.ts'
import * as store from '../store.ts'
import { isOpen, resolveByLedger } from './outcome.ts'
import { advanceToReserved, later, RECEIVED_MS, readAgain, type Sign, STEP_MS, signAndSend } from './remote-steps.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** How long a repeat waits for the request that is at the same transaction. */
const OTHERS_MS = 2_000
const POLL_MIN_MS = 25
const POLL_MAX_MS = 250

/** Where a call goes on after its first database transaction. */
export interface Received {
  transactionId: string
  /** False for a repeat: another request is at it, or was. */
  isNew: boolean
}

/** Takes commands for a ledger that is a network away: checked as they were asked for, and stored. Nothing is reserved yet. */
export async function receiveRemote(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  asked: RequestedCommands,
): Promise<Received> {
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLive, tx, deps, call, id)
    const before = await findRepeat(tx, session, asked)
    if (before !== undefined) return { transactionId: before.id, isNew: false }
    const now = deps.now()
    requireLive(session, now)
    requireUse(session)
    await deps.quotas.require(tx, session.tenant_id, 'transactions')
    requireCommitments(session, asked.commitments)
    const { commands } = asked
    const denial = evaluateCommands(policyOf(session), commands)
    if (denial !== null) return deny(tx, deps, call, session, denial)
    const row = { ...newTransaction(session, asked, now), commands, check_at: later(now, RECEIVED_MS) }
    await insertTransaction(tx, row)
    return { transactionId: row.id, isNew: true }
  })
}

/** Gives a request that is at a transaction some time to finish it. */
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

const signByNode =
  (deps: Deps): Sign =>
  (tx, session, digest) =>
    ledgerOf(deps, session).sign(tx, session.tenant_id, session.party_id, digest)

async function answer(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<Execution> {
  return answerOf(deps, await findLive(store.findLive, deps.db, deps, call, row.delegated_session_id), row)
}

/** What became of what was signed; as it is known so far where the ledger does not say. */
async function outcomeOf(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  try {
    return await resolveByLedger(deps, row, call)
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    deps.log.warn({ err: error, transactionId: row.id, ledger: row.ledger }, 'the ledger does not say')
    return row
  }
}

/** A repeat: waits for who is at it, and takes up what nobody is at any more. */
async function resume(deps: Deps, before: TransactionRow): Promise<{ row: TransactionRow; isOurs: boolean }> {
  const isUnsigned = (row: TransactionRow) => row.status === 'received' || row.status === 'reserved'
  const row = isUnsigned(before) ? await awaitOthers(deps, before) : before
  if (!isUnsigned(row)) return { row, isOurs: true }
  const ms = row.status === 'received' ? RECEIVED_MS : STEP_MS
  const taken = await postpone(deps.db, row, later(deps.now(), ms))
  return { row: taken ?? (await readAgain(deps, row)), isOurs: taken !== undefined }
}

/**
 * Goes on from what was received, outside any transaction: prepare, reserve, sign, send, settle. Who asks again goes on
 * from wherever it is, so that it is done once, whatever dies in between; what is still open then is answered as it is.
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

/** Takes a signature by the wallet's own key. @throws signature_invalid (names `signature`) */
const signByOwner =
  (signature: Buffer): Sign =>
  async (_, session, digest) => {
    const signed = { party: session.party_id, publicKey: session.public_key ?? Buffer.alloc(0), signature }
    if (isSignedFor(session.party_id, digest, signed)) return [signed]
    const message = "Is not the wallet key's signature over the digest."
    throw fail('signature_invalid', [{ field: 'signature', code: 'signature_invalid', message }])
  }

/**
 * What the first half of a call can say of an owner's signature: that it is one, over what this session asked for. Nothing
 * changes. @throws not_found (names `signingRequestId`), signature_invalid, transaction_settled
 */
export async function checkSigned(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: RequestedSignature,
): Promise<void> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  const row = await requestedCommands(findTransaction, deps.db, session, signingRequestId)
  if (row.status !== 'signature_required' || row.prepared === null) return
  requireSameShares(session, row)
  const { digest } = ledgerOf(deps, session).decode(row.prepared)
  try {
    await signByOwner(signature)(deps.db, session, digest)
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    await deps.db.tx(async (tx) => {
      await recordWrongSignature(tx, deps, await findLive(store.lockLive, tx, deps, call, id), call)
    })
    throw error.commitOnThrow()
  }
}

/** Sends what the wallet's owner has signed, on a ledger that is a network away; a repeat answers what became of it. */
export async function continueSigned(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  { signingRequestId, signature }: RequestedSignature,
): Promise<Execution> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  const row = await requestedCommands(findTransaction, deps.db, session, signingRequestId)
  if (!isOpen(row)) return answerOf(deps, session, row)
  if (row.status === 'submitted') return answer(deps, call, await outcomeOf(deps, call, row))
  if (row.status !== 'signature_required') throw fail('transaction_settled')
  return answer(deps, call, await signAndSend(deps, call, row, signByOwner(signature)))
}
