import type { Db, Sql } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Caller, Origin } from '../../platform/http/route.ts'
import type { Receipt } from '../../platform/ports/ledger.ts'
import {
  type Failure,
  type TransactionRow,
  transactionChange,
  transactionEvent,
  transactionInsertion,
} from '../../wallets/transactions/service.ts'
import { addCharges, removeCharges } from '../policy/spend.ts'
import { remainingIn, sessionEvent } from '../service.ts'
import * as store from '../store.ts'

/** Who settles it; undefined where nobody asked for it. */
type Cause = { caller: Caller; origin: Origin }

/** What a settled transaction no longer needs. */
const CLOSED = {
  commands: null,
  prepared: null,
  signatures: null,
  cosigned: null,
  expires_at: null,
  check_at: null,
} as const

const insertionOf = (row: TransactionRow) => (condition: Sql) => transactionInsertion(row, condition)

/** The session with a transaction's part of its caps taken. */
function taken(session: store.LiveRow, transaction: TransactionRow, now: Date): store.LiveRow {
  return {
    ...session,
    uses: session.uses + 1,
    spent: addCharges(session.spent, transaction.spends),
    last_used_at: now,
    updated_at: now,
  }
}

/**
 * Takes a transaction's part of its session's caps and writes it as it is: open, and new. Null where session, wallet or
 * user is no longer what it was when `before` was read: then nothing is written.
 */
export async function reserveNew(
  db: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
): Promise<TransactionRow | null> {
  const now = deps.now()
  const after = taken(before, row, now)
  const transaction = { ...row, remaining: remainingIn(after, now) }
  const use = { before, after, ledger: null, transaction: insertionOf(transaction), events: [], now }
  return (await store.writeUse(db, use)) ? transaction : null
}

/** The same for one that was written before it was known what it takes. In the transaction that holds the session's row. */
export async function reserve(tx: Db, deps: Deps, before: store.LiveRow, row: TransactionRow): Promise<TransactionRow> {
  const now = deps.now()
  const session = taken(before, row, now)
  const transaction = { ...row, remaining: remainingIn(session, now) }
  await store.recordUse(tx, session, transactionChange(transaction), [])
  return transaction
}

/** One more completed transaction, and the session's end if it was the last that it may make. */
function completed(session: store.LiveRow, now: Date, cause: Cause | undefined) {
  const done = session.completed + 1
  const isLast = session.status === 'active' && session.max_uses !== null && done >= session.max_uses
  const after: store.LiveRow = { ...session, completed: done, status: isLast ? 'exhausted' : session.status }
  return { after, events: isLast ? [sessionEvent(now, after, 'delegated_session.exhausted', cause)] : [] }
}

function completedRow(row: TransactionRow, receipt: Receipt, now: Date): TransactionRow {
  return {
    ...row,
    ...CLOSED,
    status: 'completed',
    update_id: receipt.updateId,
    ledger_offset: receipt.offset,
    updated_at: now,
    completed_at: receipt.recordedAt,
  }
}

/**
 * Writes a transaction that was checked and signed, and what it does on a ledger that joins, in one statement: its part of
 * the caps, the ledger's rows, the transaction and its events. Null where anything of what it was decided on has changed:
 * then nothing is written, nothing has happened, and the signature goes nowhere.
 */
export async function recordCompleted(
  db: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  { receipt, writes }: { receipt: Receipt; writes: Sql },
  cause: Cause,
): Promise<TransactionRow | null> {
  const now = deps.now()
  const { after, events: ending } = completed(taken(before, row, now), now, cause)
  const transaction = { ...completedRow(row, receipt, now), remaining: remainingIn(after, now) }
  const events = [
    transactionEvent(now, 'tx.submitted', transaction, cause),
    transactionEvent(now, 'tx.completed', transaction, cause),
    ...ending,
  ]
  const use = { before, after, ledger: writes, transaction: insertionOf(transaction), events, now }
  if (!(await store.writeUse(db, use))) return null
  db.afterCommit(deps.wake.outbox)
  return transaction
}

/**
 * Settles an open transaction that happened. In the transaction that holds the session's row and the transaction's.
 * `submitted` says whether `tx.submitted` is still to be told.
 */
export async function writeCompleted(
  tx: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  receipt: Receipt,
  options: { cause?: Cause; submitted: boolean },
): Promise<TransactionRow> {
  const now = deps.now()
  const { after, events } = completed({ ...before, updated_at: now }, now, options.cause)
  const transaction = completedRow(row, receipt, now)
  await store.recordUse(tx, after, transactionChange(transaction), [
    ...(options.submitted ? [transactionEvent(now, 'tx.submitted', transaction, options.cause)] : []),
    transactionEvent(now, 'tx.completed', transaction, options.cause),
    ...events,
  ])
  tx.afterCommit(deps.wake.outbox)
  return transaction
}

/**
 * Settles an open transaction that certainly did not and will not happen: what it had reserved is the session's again.
 * In the transaction that holds the session's row and the transaction's.
 */
export async function recordFailed(
  tx: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  failure: Failure,
  options: { cause?: Cause; reserved: boolean },
): Promise<TransactionRow> {
  const now = deps.now()
  const session: store.LiveRow = options.reserved
    ? { ...before, uses: before.uses - 1, spent: removeCharges(before.spent, row.spends), updated_at: now }
    : before
  const transaction: TransactionRow = {
    ...row,
    ...CLOSED,
    status: 'failed',
    effects: [],
    spends: [],
    error: failure,
    updated_at: now,
  }
  await store.recordUse(tx, session, transactionChange(transaction), [
    transactionEvent(now, 'tx.failed', transaction, options.cause),
  ])
  tx.afterCommit(deps.wake.outbox)
  return transaction
}
