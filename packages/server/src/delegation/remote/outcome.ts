import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, type HttpError } from '../../platform/http/errors.ts'
import type { Caller, Origin } from '../../platform/http/route.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import type { LedgerSignature, Receipt } from '../../platform/ports/ledger.ts'
import {
  isUntouched,
  type KeptSignature,
  lockTransaction,
  type TransactionRow,
} from '../../wallets/transactions/service.ts'
import { ledgerOf } from '../execute/execute.ts'
import { ledgerCommandId } from '../execute/execution.ts'
import { recordFailed, writeCompleted } from '../execute/record.ts'
import { DELEGATED_SESSION_ERRORS } from '../service.ts'
import * as store from '../store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** For so long past a transaction's expiry the ledger's clock, or its word, may be behind ours. */
const MARGIN_MS = 60_000

/** Who asks, where somebody does. */
export type Cause = { caller: Caller; origin: Origin } | undefined

/** Whether a transaction's outcome is yet to be known. */
export const isOpen = ({ status }: TransactionRow) => status !== 'completed' && status !== 'failed'

/** A transaction as it is now and its session, locked in this order; undefined where its user is gone. */
export async function lockSessionAndTransaction(
  tx: Db,
  deps: Deps,
  { tenant_id: tenantId, id, delegated_session_id: sessionId }: TransactionRow,
): Promise<{ session: store.LiveRow; row: TransactionRow } | undefined> {
  const session = await store.lockLive(tx, deps.now(), { tenantId, appId: null }, sessionId)
  const row = await lockTransaction(tx, tenantId, id)
  return session === undefined || row === undefined ? undefined : { session, row }
}

/** Why a transaction failed, as it is kept: what the call is answered, and every repeat of it. */
export const failureOf = ({ status, code, message, details }: HttpError) => ({
  status,
  code,
  message,
  details: [...details],
})

/** What is answered for a transaction that can't happen any more. */
export const expired = () => fail('prepared_expired')

/** Signatures as they are stored beside what they are for. */
export const storedSignatures = (signatures: readonly LedgerSignature[]): KeptSignature[] =>
  signatures.map(({ party, publicKey, signature }) => ({
    party,
    publicKey: publicKey.toString('hex'),
    signature: signature.toString('hex'),
  }))

/** The same as the ledger takes them. */
export const signaturesOf = ({ signatures }: TransactionRow): LedgerSignature[] =>
  (signatures ?? []).map(({ party, publicKey, signature }) => ({
    party,
    publicKey: Buffer.from(publicKey, 'hex'),
    signature: Buffer.from(signature, 'hex'),
  }))

/** Settles what the ledger says has happened, once, whoever else has found it out. @returns the transaction as it is then */
export async function recordHappened(
  deps: Deps,
  before: TransactionRow,
  receipt: Receipt,
  cause?: Cause,
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const held = await lockSessionAndTransaction(tx, deps, before)
    if (held === undefined) return before
    const { session, row } = held
    if (row.status === 'failed')
      // Nothing is released before the ledger's own word that it is too late: it has taken that back.
      deps.log.error({ transactionId: row.id, ledger: row.ledger, receipt }, 'a failed transaction has happened')
    if (!isOpen(row)) return row
    const submitted = row.status === 'signature_required'
    return writeCompleted(tx, deps, session, row, receipt, { ...(cause && { cause }), submitted })
  })
}

/**
 * Settles what certainly did not and will not happen, and releases what it had reserved; unless somebody has taken it or
 * moved it on since `before` was read. @returns the transaction as it is then
 */
export async function releaseNever(
  deps: Deps,
  before: TransactionRow,
  error: HttpError,
  cause?: Cause,
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const held = await lockSessionAndTransaction(tx, deps, before)
    if (held === undefined) return before
    const { session, row } = held
    if (!isUntouched(row, before)) return row
    const reserved = row.status !== 'received'
    return recordFailed(tx, deps, session, row, failureOf(error), { ...(cause && { cause }), reserved })
  })
}

/**
 * Asks the ledger what became of a transaction, and settles it where that is certain: a receipt is, and that there is none
 * once it is too late for one. @returns the transaction as it is then. @throws LedgerError where the ledger does not say
 */
export async function resolveByLedger(deps: Deps, before: TransactionRow, cause?: Cause): Promise<TransactionRow> {
  const { tenant_id: tenantId, party_id: party, expires_at: expiresAt } = before
  const ledger = ledgerOf(deps, before)
  // Read before the question: until the answer comes it may have got too late.
  const askedAt = deps.now()
  const receipt = await callLedger(ledger, () =>
    ledger.getTransaction(deps.db, tenantId, party, ledgerCommandId(before)),
  )
  if (receipt !== null) return recordHappened(deps, before, receipt, cause)
  const isTooLate = expiresAt !== null && askedAt.getTime() >= expiresAt.getTime() + MARGIN_MS
  return isTooLate ? releaseNever(deps, before, expired(), cause) : before
}
