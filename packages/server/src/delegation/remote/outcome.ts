import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { HttpError } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import type { Outcome, Receipt } from '../../platform/ports/ledger.ts'
import { readSignature } from '../../platform/ports/signature.ts'
import { isUntouched, lockTransaction, type TransactionRow } from '../../wallets/transactions/service.ts'
import { fail } from '../errors.ts'
import { ledgerCommandId, ledgerOf } from '../execute/execution.ts'
import { recordCompleted, recordFailed, recordLate } from '../execute/record.ts'
import * as store from '../store.ts'

/** How far the ledger's clock or responses may lag behind our clock when a transaction expires. */
const MARGIN_MS = 60_000

/** Whether a transaction's outcome is not known yet. */
export const isOpen = ({ status }: TransactionRow) => status !== 'completed' && status !== 'failed'

/**
 * A transaction and its session as they are now, locked: the session first. Undefined if their user was deleted. `look` also
 * locks what is spent of the wallet, for who charges or releases.
 */
export async function lockSessionAndTransaction(
  tx: Db,
  deps: Deps,
  { tenant_id: tenantId, id, delegated_session_id: sessionId }: TransactionRow,
  look = store.lockLive,
): Promise<{ session: store.LiveRow; row: TransactionRow } | undefined> {
  const session = await look(tx, deps.now(), { tenantId, appId: null }, sessionId)
  const row = await lockTransaction(tx, tenantId, id)
  return session === undefined || row === undefined ? undefined : { session, row }
}

/** Submits a signed transaction. A ledger executes it once, however often it is submitted. @throws LedgerError */
export function submit(deps: Deps, row: TransactionRow): Promise<Receipt> {
  const ledger = ledgerOf(deps, row)
  const signatures = (row.signatures ?? []).map(readSignature)
  return callLedger(ledger, () => ledger.submit(deps.db, row.tenant_id, row.prepared as Buffer, signatures, deps.now()))
}

/**
 * Completes a transaction that the ledger has executed, unless that was done already. One that was recorded as failed is
 * charged again: a reservation is released only once the ledger has said that nothing will happen, and here it contradicts
 * itself. @returns its new row
 */
export async function resolveCompleted(
  deps: Deps,
  before: TransactionRow,
  receipt: Receipt,
  cause?: Call,
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const locked = await lockSessionAndTransaction(tx, deps, before, store.lockLiveToCount)
    if (locked === undefined) return before
    const { session, row } = locked
    if (row.status === 'failed') return completeLate(tx, deps, session, row, receipt)
    return isOpen(row) ? recordCompleted(tx, deps, session, row, receipt, cause) : row
  })
}

function completeLate(tx: Db, deps: Deps, session: store.LiveRow, row: TransactionRow, receipt: Receipt) {
  const { tenant_id: tenantId, id: transactionId, ledger, prepared } = row
  tx.afterCommit(() => {
    deps.metrics.transactionsLate.inc()
    deps.log.error({ tenantId, transactionId, ledger, receipt }, 'a transaction recorded as failed was executed')
  })
  const effects = prepared === null ? [] : ledgerOf(deps, row).decode(prepared).effects
  return recordLate(tx, deps, session, { ...row, effects }, receipt)
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
    const locked = await lockSessionAndTransaction(tx, deps, before, store.lockLiveToCount)
    if (locked === undefined) return before
    const { session, row } = locked
    // What has failed has released its part already.
    return isOpen(row) && isUntouched(row, before) ? recordFailed(tx, deps, session, row, error, cause) : row
  })
}

/** What the ledger says became of a transaction. @throws LedgerError if it does not say */
export function askLedger(deps: Deps, row: TransactionRow): Promise<Outcome> {
  const { tenant_id: tenantId, party_id: actAs, prepared } = row
  const ledger = ledgerOf(deps, row)
  const command = { actAs, commandId: ledgerCommandId(row), prepared }
  return callLedger(ledger, () => ledger.getTransaction(deps.db, tenantId, command))
}

/**
 * Asks the ledger what became of a transaction, and resolves it if that is certain: there is a receipt, it cannot happen any
 * more, or it is too late. One that happened and may be undone stays open. @returns its new row, and what the ledger said
 * @throws LedgerError if the ledger does not say
 */
export async function resolveByLedger(
  deps: Deps,
  before: TransactionRow,
  cause?: Call,
): Promise<{ row: TransactionRow; outcome: Outcome }> {
  const { expires_at: expiresAt } = before
  // Read before the request: the transaction could expire before the ledger responds.
  const isTooLate = expiresAt !== null && deps.now().getTime() >= expiresAt.getTime() + MARGIN_MS
  const outcome = await askLedger(deps, before)
  switch (outcome.state) {
    case 'final':
      return { row: await resolveCompleted(deps, before, outcome.receipt, cause), outcome }
    case 'included':
      return { row: before, outcome }
    case 'replaced':
    case 'never':
      return { row: await releaseFailed(deps, before, neverHappened(outcome), cause), outcome }
    case 'pending':
      return { row: isTooLate ? await releaseFailed(deps, before, fail('prepared_expired'), cause) : before, outcome }
  }
}

const neverHappened = (outcome: Extract<Outcome, { state: 'replaced' | 'never' }>): HttpError =>
  fail('transaction_failed', [
    {
      field: 'commands',
      code: outcome.state,
      message:
        outcome.state === 'replaced'
          ? 'Another transaction took its place on the ledger. Execute again with another commandId.'
          : 'The ledger did not execute it and will not any more. Execute again with another commandId.',
    },
  ])
