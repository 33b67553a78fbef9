import { type Db, sql } from '../../platform/db/db.ts'
import { REWRAP_LOCK } from '../../platform/security/sealed-values.ts'
import { composed, quoted, type Table } from './table.ts'
import { tenantColumn } from './tables.ts'

/** One row: its values as a JSON array of texts, and those that are sealed apart. */
export interface ReadRow {
  /** With null where a value is sealed. */
  row: string
  sealed: (Buffer | null)[]
}

/** About how much one reading holds in memory. */
const BATCH_CHARS = 1_048_576
const BATCH_ROWS_MAX = 2_000
/** Until it is known how large a table's rows are. */
const BATCH_ROWS_FIRST = 10

/** From here on everything is read as it was at one moment, however long that takes, and texts have one form. */
export async function beginSnapshot(tx: Db, idleMs: number): Promise<void> {
  await tx.run(sql`set transaction isolation level repeatable read, read only`)
  await patience(tx, idleMs)
  await exactTexts(tx)
}

/** Lets a transaction wait between two statements: for a disk, where others wait for nothing. */
export async function patience(tx: Db, idleMs: number): Promise<void> {
  await tx.run(composed(`set local idle_in_transaction_session_timeout = ${idleMs}`))
}

/** Texts of values that give exactly the same values again, whatever the database's settings are. */
export async function exactTexts(tx: Db): Promise<void> {
  for (const setting of ["datestyle = 'ISO'", "timezone = 'UTC'", 'extra_float_digits = 1', "bytea_output = 'hex'"])
    await tx.run(composed(`set local ${setting}`))
}

/** Keeps rotations of the key-encryption key out until the transaction ends; false where one is at work. */
export async function keepWrappingKey(tx: Db): Promise<boolean> {
  const row = await tx.one<{ held: boolean }>(
    sql`select pg_try_advisory_xact_lock_shared(${REWRAP_LOCK}::bigint) as held`,
  )
  return row?.held === true
}

/** Does not wait for the disk: what a crash of the database undoes is undone whole, and done again. */
export async function asyncCommit(tx: Db): Promise<void> {
  await tx.run(sql`set local synchronous_commit = off`)
}

/** How many rows a tenant has in a table. */
export async function countRows(tx: Db, table: string, tenantId: string): Promise<number> {
  const row = await tx.one<{ n: number }>(
    composed(`select count(*) as n from ${quoted(table)} where ${quoted(tenantColumn(table))} = $1`, [tenantId]),
  )
  return row?.n ?? 0
}

/** Whether a column's values are sealed: named so everywhere. */
export const isSealed = (column: { name: string; type: string }): boolean =>
  column.type === 'bytea' && column.name.endsWith('_sealed')

/** A tenant's rows of a table in their order, a bounded number at a time. In a transaction. */
export async function* readRows(tx: Db, table: Table, tenantId: string): AsyncGenerator<ReadRow[]> {
  const sealed = table.columns.filter(isSealed).map((column) => quoted(column.name))
  const texts = table.columns.map((column) => (isSealed(column) ? 'null' : `${quoted(column.name)}::text`))
  // Without a key by their whole text, so that two exports of the same are the same.
  const order = table.order.length > 0 ? table.order.map(quoted).join(', ') : '1'
  await tx.run(
    composed(
      `declare halfkey_rows no scroll cursor for
        select array_to_json(array[${texts.join(', ')}]::text[])::text as row, array[${sealed.join(', ')}]::bytea[] as sealed
        from ${quoted(table.name)} where ${quoted(tenantColumn(table.name))} = $1 order by ${order}`,
      [tenantId],
    ),
  )
  for (let rows = BATCH_ROWS_FIRST; ; ) {
    const batch = await tx.query<ReadRow>(composed(`fetch ${rows} from halfkey_rows`))
    if (batch.length > 0) yield batch
    if (batch.length < rows) break
    const chars = batch.reduce((sum, { row }) => sum + row.length, 0) / batch.length
    rows = Math.max(1, Math.min(BATCH_ROWS_MAX, rows * 10, Math.floor(BATCH_CHARS / chars)))
  }
  await tx.run(sql`close halfkey_rows`)
}
