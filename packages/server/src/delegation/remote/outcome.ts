import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { HttpError } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import type { LedgerSignature, Receipt } from '../../platform/ports/ledger.ts'
import { isUntouched, lockTransaction, type TransactionRow } from '../../wallets/transactions/service.ts'
import { fail } from '../errors.ts'
import { ledgerCommandId, ledgerOf } from '../execute/execution.ts'
import { recordCompleted, recordFailed } from '../execute/record.ts'
import * as store from '../store.ts'

/** How far the ledger's clock or responses may lag behind our clock when a transaction expires. */
const MARGIN_MS = 60_000

/** Whether a transaction's outcome is not known yet. */
export const isOpen = ({ status }: TransactionRow) => status !== 'completed' && status !== 'failed'

/** A transaction and its session as they are now, locked: the session first. Undefined if their user was deleted. */
export async function lockSessionAndTransaction(
  tx: Db,
  deps: Deps,
  { tenant_id: tenantId, id, delegated_session_id: sessionId }: TransactionRow,
): Promise<{ session: store.LiveRow; row: TransactionRow } | undefined> {
  const session = await store.lockLive(tx, deps.now(), { tenantId, appId: null }, sessionId)
  const row = await lockTransaction(tx, tenantId, id)
  return session === undefined || row === undefined ? undefined : { session, row }
}

/** Submits a signed transaction. A ledger executes it once, however often it is submitted. @throws LedgerError */
export function submit(deps: Deps, row: TransactionRow): Promise<Receipt> {
  const ledger = ledgerOf(deps, row)
  const signatures: LedgerSignature[] = (row.signatures ?? []).map(({ party, publicKey, signature }) => ({
    party,
    publicKey: Buffer.from(publicKey, 'hex'),
    signature: Buffer.from(signature, 'hex'),
  }))
  return callLedger(ledger, () => ledger.submit(deps.db, row.tenant_id, row.prepared as Buffer, signatures, deps.now()))
}

/** Completes a transaction that the ledger has executed, unless that was done already. @returns its new row */
export async function resolveCompleted(
  deps: Deps,
  before: TransactionRow,
  receipt: Receipt,
  cause?: Call,
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const locked = await lockSessionAndTransaction(tx, deps, before)
    if (locked === undefined) return before
    const { session, row } = locked
    if (row.status === 'failed')
      // A reservation is released only after the ledger has said that it is too late. Here it contradicts itself.
      deps.log.error(
        { transactionId: row.id, ledger: row.ledger, receipt },
        'the ledger executed a transaction that was recorded as failed',
      )
    return isOpen(row) ? recordCompleted(tx, deps, session, row, receipt, cause) : row
  })
}

/**
 * Fails a transaction that certainly did not and will not happen, and releases what it had reserved; not if another
 * request has taken it or moved it on since `before` was read. @returns its new row
 */
export async function releaseFailed(
  deps: Deps,
  before: TransactionRow,
  error: HttpError,
  cause?: Call,
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const locked = await lockSessionAndTransaction(tx, deps, before)
    if (locked === undefined) return before
    const { session, row } = locked
    return isUntouched(row, before) ? recordFailed(tx, deps, session, row, error, cause) : row
  })
}

/**
 * Asks the ledger what became of a transaction, and resolves it if that is certain: there is a receipt, or there is none
 * and it is too late for one. @returns its new row. @throws LedgerError if the ledger does not say
 */
export async function resolveByLedger(deps: Deps, before: TransactionRow, cause?: Call): Promise<TransactionRow> {
  const { tenant_id: tenantId, party_id: party, expires_at: expiresAt } = before
  const ledger = ledgerOf(deps, before)
  // Read before the request: the transaction could expire before the ledger responds.
  const askedAt = deps.now()
  const receipt = await callLedger(ledger, () =>
    ledger.getTransaction(deps.db, tenantId, party, ledgerCommandId(before)),
  )
  if (receipt !== null) return resolveCompleted(deps, before, receipt, cause)
  const isTooLate = expiresAt !== null && askedAt.getTime() >= expiresAt.getTime() + MARGIN_MS
  return isTooLate ? releaseFailed(deps, before, fail('prepared_expired'), cause) : before
}
