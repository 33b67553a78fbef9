import type { Db, Sql } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { HttpError } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Effect, Receipt } from '../../platform/ports/ledger.ts'
import {
  isUntouched,
  lockTransaction,
  sealedTransaction,
  setTransaction,
  type TransactionRow,
  transactionChange,
  transactionEvent,
  transactionInsertion,
} from '../../wallets/transactions/service.ts'
import type { Acting } from '../access.ts'
import { chargesIn, counted, partsIn, reservedOf, type Toll } from '../budgets/count.ts'
import { type Counted, spendingAfter } from '../budgets/spending-store.ts'
import { type Take, type Taken, takeFromBudgets } from '../budgets/turn.ts'
import { addCharges, type Charge, removeCharges } from '../policy/spend.ts'
import { addParts, type Part, removeParts } from '../policy/windows.ts'
import { remainingBeside, sessionEvent } from '../session.ts'
import * as store from '../store.ts'

// `insert…` writes a new transaction if session, wallet, user and contracts are still what the decision was made on.
// `record…` changes a stored, open transaction, in a transaction that holds its row and its session's.

/** What a transaction keeps only while it is open. */
const CLOSED = {
  commands: null,
  prepared: null,
  signatures: null,
  cosigned: null,
  expires_at: null,
  check_at: null,
} as const

const insertionOf = (row: TransactionRow) => (condition: Sql) => transactionInsertion(row, condition)

/** Which version of its session a transaction makes: the one after that on which it was decided. */
const by = ({ version }: store.LiveRow) => ({ session_version: version + 1 })

/** The session after a transaction has taken its part of the caps. */
function charged<Row extends store.LiveRow>(session: Row, transaction: TransactionRow, now: Date): Row {
  return {
    ...session,
    uses: session.uses + 1,
    spent: addCharges(session.spent, chargesIn(transaction.spends)),
    last_used_at: now,
    updated_at: now,
  }
}

/** The session after one more completed transaction: exhausted, if that was the last that it may make. */
function afterCompletion<Row extends store.LiveRow>(session: Row, now: Date, cause: Call | undefined) {
  const completed = session.completed + 1
  const isLast = session.status === 'active' && session.max_uses !== null && completed >= session.max_uses
  const after: Row = { ...session, completed, status: isLast ? 'exhausted' : session.status }
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

/** The transaction with what it takes of the wallet's budgets, and what is then left of everything. */
function withParts(row: TransactionRow, session: Acting, { parts, counted }: Take, now: Date): TransactionRow {
  const spent = (counted?.after ?? session.spending)?.spent ?? {}
  return {
    ...row,
    spends: [...row.spends, ...reservedOf([], parts)],
    remaining: remainingBeside(session, session.limits, spent, now),
    spending_version: counted?.after.version ?? null,
  }
}

const asked = ({ spending, limits }: Acting, tolls: readonly Toll[]) => ({ spending, limits, tolls })

/** Reserves a new transaction's part of the caps and budgets and writes it, open. */
export function insertReserved(
  db: Db,
  deps: Deps,
  before: Acting,
  row: TransactionRow,
  tolls: readonly Toll[],
): Promise<Taken<TransactionRow>> {
  return takeFromBudgets(db, deps, asked(before, tolls), async (take) => {
    const now = deps.now()
    const after = charged(before, row, now)
    const transaction = await sealedTransaction(db, { ...withParts(row, after, take, now), ...by(before) })
    const { counted } = take
    const use = { before, after, ledger: null, counted, transaction: insertionOf(transaction), events: [], now }
    return { outcome: await store.writeUse(db, use), row: transaction }
  })
}

/**
 * Writes a new transaction that was signed, and what it does on a transactional ledger, in one statement: its part of the
 * caps and budgets, the ledger's rows, the transaction and its events. If nothing was written, nothing has happened, and the
 * signature is thrown away.
 */
export async function insertCompleted(
  db: Db,
  deps: Deps,
  before: Acting,
  { row, tolls }: { row: TransactionRow; tolls: readonly Toll[] },
  { receipt, writes }: { receipt: Receipt; writes: Sql },
  cause: Call,
): Promise<Taken<TransactionRow>> {
  const taken = await takeFromBudgets(db, deps, asked(before, tolls), async (take) => {
    const now = deps.now()
    const { after, events: ending } = afterCompletion(charged(before, row, now), now, cause)
    const transaction = { ...completedRow(withParts(row, after, take, now), receipt, now), ...by(before) }
    const events = [
      transactionEvent(now, 'tx.submitted', transaction, cause),
      transactionEvent(now, 'tx.completed', transaction, cause),
      ...ending,
    ]
    const { counted } = take
    const use = { before, after, ledger: writes, counted, transaction: insertionOf(transaction), events, now }
    return { outcome: await store.writeUse(db, use), row: transaction }
  })
  if (taken !== 'changed' && 'written' in taken) db.afterCommit(deps.wake.outbox)
  return taken
}

/** Reserves a received transaction's part of the caps and budgets, with the session and the wallet's spending locked. */
export async function recordReserved(
  tx: Db,
  deps: Deps,
  before: Acting,
  row: TransactionRow,
  parts: readonly Part[],
): Promise<TransactionRow> {
  const now = deps.now()
  const session = charged(before, row, now)
  const take = { parts, counted: await countedParts(tx, before, parts) }
  const transaction = { ...withParts(row, session, take, now), ...by(before) }
  await store.recordUse(tx, session, await transactionChange(tx, transaction), [], take.counted)
  return transaction
}

/** What parts change in a wallet's spending; null for nothing. */
async function countedParts(tx: Db, { spending, limits }: Acting, parts: readonly Part[]): Promise<Counted | null> {
  if (parts.length === 0) return null
  if (spending === null) throw new Error('a budget cannot be counted: the spending of its wallet was not read')
  return { before: spending, after: await spendingAfter(tx, spending, counted(spending.spent, parts, limits)) }
}

/** The same for what is released. */
async function releasedParts(tx: Db, { spending }: store.LiveRow, parts: readonly Part[]): Promise<Counted | null> {
  if (parts.length === 0 || spending === null) return null
  return { before: spending, after: await spendingAfter(tx, spending, removeParts(spending.spent, parts)) }
}

/** The same for what is released and, in its place, counted. */
async function countedAnew(
  tx: Db,
  { spending, limits }: Acting,
  old: readonly Part[],
  parts: readonly Part[],
): Promise<Counted | null> {
  if (spending === null || (old.length === 0 && parts.length === 0)) return null
  const spent = counted(removeParts(spending.spent, old), parts, limits)
  return { before: spending, after: await spendingAfter(tx, spending, spent) }
}

/** The same for what is charged again, whatever the limits are now. */
async function chargedAgain(tx: Db, { spending }: store.LiveRow, parts: readonly Part[]): Promise<Counted | null> {
  if (parts.length === 0 || spending === null) return null
  return { before: spending, after: await spendingAfter(tx, spending, addParts(spending.spent, parts)) }
}

/** Completes a transaction that has happened. One that waited for a signature was never announced as submitted. */
export async function recordCompleted(
  tx: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  receipt: Receipt,
  cause?: Call,
): Promise<TransactionRow> {
  const now = deps.now()
  const { after, events } = afterCompletion({ ...before, updated_at: now }, now, cause)
  const transaction = { ...completedRow(row, receipt, now), ...by(before) }
  await store.recordUse(tx, after, await transactionChange(tx, transaction), [
    ...(row.status === 'signature_required' ? [transactionEvent(now, 'tx.submitted', transaction, cause)] : []),
    transactionEvent(now, 'tx.completed', transaction, cause),
    ...events,
  ])
  tx.afterCommit(deps.wake.outbox)
  return transaction
}

/** What executing an approved transaction takes and does, as it was decided when it was approved. */
interface Approved {
  charges: readonly Charge[]
  parts: readonly Part[]
  effects: Effect[]
  receipt: Receipt
}

/**
 * Completes a transaction that waited for its owner's approval and has happened now. What it held since it was asked for is
 * released, and what it takes now is counted instead: windows may have passed meanwhile. The transaction holds the session and
 * the wallet's spending.
 */
export async function recordApproved(
  tx: Db,
  deps: Deps,
  before: Acting,
  row: TransactionRow,
  { charges, parts, effects, receipt }: Approved,
  cause: Call,
): Promise<TransactionRow> {
  const now = deps.now()
  const spent = addCharges(removeCharges(before.spent, chargesIn(row.spends)), charges)
  const { after, events } = afterCompletion({ ...before, spent, last_used_at: now, updated_at: now }, now, cause)
  const take = { parts, counted: await countedAnew(tx, before, partsIn(row.spends), parts) }
  const done = completedRow({ ...row, effects, spends: [...charges] }, receipt, now)
  const transaction = { ...withParts(done, after, take, now), ...by(before) }
  await store.recordUse(
    tx,
    after,
    await transactionChange(tx, transaction),
    [
      transactionEvent(now, 'tx.submitted', transaction, cause),
      transactionEvent(now, 'tx.completed', transaction, cause),
      ...events,
    ],
    take.counted,
  )
  tx.afterCommit(deps.wake.outbox)
  return transaction
}

/** When a failed transaction that was signed is looked at for the first time. */
const WATCH_FIRST_MS = 60_000

/**
 * What a failed transaction keeps. If a signature of it may be somewhere, on a ledger that others can submit to: what it
 * needs to be found there, and to be charged again if it happened after all (`remote/late.ts`).
 */
function keptOfFailed(deps: Deps, row: TransactionRow, now: Date): Partial<TransactionRow> {
  const wasSigned = row.status === 'submitted' || row.status === 'signature_required'
  if (!wasSigned || deps.ledgers.get(row.ledger)?.transactional !== false) return { ...CLOSED, spends: [] }
  return { ...CLOSED, prepared: row.prepared, check_at: new Date(now.getTime() + WATCH_FIRST_MS) }
}

/**
 * Fails a transaction that certainly did not and will not happen, and releases what it had reserved. The transaction holds the
 * session and the wallet's spending.
 */
export async function recordFailed(
  tx: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  { status, code, message, details }: HttpError,
  cause?: Call,
): Promise<TransactionRow> {
  const now = deps.now()
  const hasReserved = row.status !== 'received'
  const session: store.LiveRow = hasReserved
    ? { ...before, uses: before.uses - 1, spent: removeCharges(before.spent, chargesIn(row.spends)), updated_at: now }
    : before
  const transaction: TransactionRow = {
    ...row,
    ...keptOfFailed(deps, row, now),
    ...by(before),
    status: 'failed',
    effects: [],
    error: { status, code, message, details: [...details] },
    updated_at: now,
  }
  const event = transactionEvent(now, 'tx.failed', transaction, cause)
  const released = hasReserved ? await releasedParts(tx, before, partsIn(row.spends)) : null
  await store.recordUse(tx, session, await transactionChange(tx, transaction), [event], released)
  tx.afterCommit(deps.wake.outbox)
  return transaction
}

/**
 * Completes a transaction that was recorded as failed: what it takes of the caps and budgets is charged again, even beyond them.
 * The transaction holds the session and the wallet's spending.
 */
export async function recordLate(
  tx: Db,
  deps: Deps,
  before: store.LiveRow,
  row: TransactionRow,
  receipt: Receipt,
): Promise<TransactionRow> {
  const now = deps.now()
  const { after, events: ending } = afterCompletion(charged(before, row, now), now, undefined)
  const again = await chargedAgain(tx, before, partsIn(row.spends))
  const spendingVersion = again?.after.version ?? row.spending_version
  const done = { ...completedRow(row, receipt, now), ...by(before), spending_version: spendingVersion }
  const transaction: TransactionRow = { ...done, error: null }
  const events = [
    transactionEvent(now, 'tx.completed', transaction),
    transactionEvent(now, 'tx.completed_late', transaction),
    ...ending,
  ]
  await store.recordUse(tx, after, await transactionChange(tx, transaction), events, again)
  tx.afterCommit(deps.wake.outbox)
  return transaction
}

/** Forgets what a failed transaction was watched by. It certainly did not happen. */
export async function endWatch(deps: Deps, before: TransactionRow): Promise<void> {
  await deps.db.tx(async (tx) => {
    const row = await lockTransaction(tx, before.tenant_id, before.id)
    if (row === undefined || !isUntouched(row, before)) return
    await setTransaction(tx, { ...row, ...CLOSED, spends: [] })
  })
}
