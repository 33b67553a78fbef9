import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { insertion, json } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, resealed, sealed } from '../../platform/security/records/access.ts'
import { type RecordRow, recordColumns, recordIn } from '../../platform/security/records/kind.ts'
import { SPENDING_RECORD, type SpendingRow } from './spending-record.ts'

/** What a use of a session changes in its wallet's spending. */
export interface Counted {
  before: SpendingRow
  after: SpendingRow
}

/** The columns of a wallet's spending beside a session's, for `spendingIn`. */
export const SPENDING_COLUMNS: Sql = recordColumns(SPENDING_RECORD, 'b')

/** The part of a `from` that finds them. A wallet that nothing is counted for has none, which is known without looking. */
export const spendingBeside = (tenantId: Id<'ten'>): Sql => sql`
  left join lateral (
    select b.* from wallet_spending b
    where w.wallet__budgets is not null and b.tenant_id = ${tenantId} and b.wallet_id = s.wallet_id offset 0) b on true`

/** Parts of a `with` that lock them, after the session that the part `locked` holds: who counts locks in this order. */
export const lockedSpending = (tenantId: Id<'ten'>): Sql => sql`
  spending as materialized (
    select ${SPENDING_COLUMNS} from wallet_spending b
    where b.tenant_id = ${tenantId} and b.wallet_id = (select wallet_id from locked) for update)`

/** A wallet's spending in a row that was read with its columns; null if there is none. */
export const spendingIn = (row: object): SpendingRow | null => recordIn<RecordRow>(SPENDING_RECORD, row) as never

/** The same, verified. @throws record_tampered, also where a wallet's spending must be there and is not */
export async function checkedSpending(
  db: Db,
  row: { tenant_id: Id<'ten'>; wallet_id: Id<'wal'>; wallet__budgets: object | null },
  readAt: number,
): Promise<SpendingRow | null> {
  const spending = spendingIn(row)
  if (spending !== null) await db.records.check(SPENDING_RECORD, [asRecord(spending)], readAt, !db.inTransaction)
  else if (row.wallet__budgets !== null) refuseDeleted(db, row)
  return spending
}

/** The wallet's record says that there is a count of it, and there is none. @throws record_tampered */
export function refuseDeleted(db: Db, { tenant_id, wallet_id }: Pick<SpendingRow, 'tenant_id' | 'wallet_id'>): never {
  return db.records.refuse(SPENDING_RECORD, { tenant_id, wallet_id }, 'it was deleted')
}

/** A wallet's spending is not the newest that its transactions made: it was put back. @throws record_tampered */
export function refuseOlder(db: Db, spending: SpendingRow): never {
  return db.records.refuse(SPENDING_RECORD, asRecord(spending), 'it is older than its transactions')
}

const asRecord = (row: SpendingRow) => row as object as RecordRow

/** The condition that the part `spending` is what was decided on. */
export const isStill = ({ version, mac }: SpendingRow): Sql => sql`
  exists (select from spending where wallet_spending__version = ${version} and wallet_spending__mac is not distinct from ${mac}::bytea)`

/** The part of a `with` that stores it, on a condition. */
export const countIf = ({ after }: Pick<Counted, 'after'>, condition: Sql, now: Date): Sql => sql`
  counted as (
    update wallet_spending
    set spent = ${json(after.spent)}::json, version = ${after.version}, mac = ${after.mac}, updated_at = ${now}
    where tenant_id = ${after.tenant_id} and wallet_id = ${after.wallet_id} and ${condition})`

/** The next state of a wallet's spending, with its MAC. */
export const spendingAfter = (db: Db, before: SpendingRow, spent: SpendingRow['spent']): Promise<SpendingRow> =>
  resealed(db, SPENDING_RECORD, { ...before, spent })

/** Notes the state of a wallet's spending that was just written, once it is committed. */
export function noteSpending(db: Db, { after }: Pick<Counted, 'after'>): void {
  db.afterCommit(() => db.records.committed(SPENDING_RECORD, asRecord(after)))
}

/** A wallet's spending, in the transaction that holds its wallet. */
export function lockSpending(tx: Db, tenantId: Id<'ten'>, walletId: Id<'wal'>): Promise<SpendingRow | undefined> {
  return readRecord<SpendingRow>(
    tx,
    SPENDING_RECORD,
    sql`select * from wallet_spending where tenant_id = ${tenantId} and wallet_id = ${walletId} for update`,
  )
}

/** The same without a lock. */
export function findSpending(db: Db, tenantId: Id<'ten'>, walletId: Id<'wal'>): Promise<SpendingRow | undefined> {
  return readRecord<SpendingRow>(
    db,
    SPENDING_RECORD,
    sql`select * from wallet_spending where tenant_id = ${tenantId} and wallet_id = ${walletId}`,
  )
}

/** Begins to count what is spent of a wallet. */
export async function insertSpending(
  tx: Db,
  of: Pick<SpendingRow, 'tenant_id' | 'wallet_id'>,
  now: Date,
): Promise<void> {
  const { tenant_id, wallet_id } = of
  const row = await sealed(tx, SPENDING_RECORD, { tenant_id, wallet_id, spent: {}, version: 0, mac: null })
  await tx.run(insertion('wallet_spending', { ...row, updated_at: now }))
}

/** Stores a wallet's spending, in the transaction that holds it. */
export async function storeSpending(
  tx: Db,
  before: SpendingRow,
  spent: SpendingRow['spent'],
  now: Date,
): Promise<void> {
  const after = await spendingAfter(tx, before, spent)
  await tx.run(sql`with ${countIf({ after }, sql`true`, now)} select`)
  noteSpending(tx, { after })
}
