import { type Db, sql } from '../../platform/db/db.ts'
import { composed, quoted, REWRAP_LOCK } from '../../platform/security/sealed-values.ts'
import { TransferError } from './errors.ts'
import { type Table, tenantColumn } from './tables.ts'

/** Roughly the memory of one fetch. */
const BATCH_CHARS = 1_048_576
const BATCH_ROWS_MAX = 2_000
/** Until it is known how large a table's rows are. */
const BATCH_ROWS_FIRST = 10

/** Makes texts of values exact and the same everywhere, whatever the database's settings are. */
export async function exactTexts(tx: Db): Promise<void> {
  await tx.run(sql`
    select set_config('datestyle', 'ISO', true), set_config('timezone', 'UTC', true),
      set_config('extra_float_digits', '1', true), set_config('bytea_output', 'hex', true)`)
}

/** Keeps rotations of the key-encryption key out until the transaction ends. @throws TransferError where one is running */
export async function keepWrappingKey(tx: Db): Promise<void> {
  const row = await tx.one<{ held: boolean }>(
    sql`select pg_try_advisory_xact_lock_shared(${REWRAP_LOCK}::bigint) as held`,
  )
  if (row?.held !== true)
    throw new TransferError('The key-encryption key is being rotated. Run this again when the rotation has ended.')
}

/** How many rows a tenant has in each table, in the order of the tables. */
export async function countRows(tx: Db, tables: readonly Table[], tenantId: string): Promise<number[]> {
  const counts = tables.map(
    ({ name }) => `(select count(*) from ${quoted(name)} where ${quoted(tenantColumn(name))} = $1)`,
  )
  const row = await tx.one<{ counts: string[] }>(
    composed(`select array[${counts.join(', ')}]::text[] as counts`, [tenantId]),
  )
  return row?.counts.map(Number) ?? []
}

/** A tenant's rows of a table in their order, each a JSON array of texts; a bounded number at a time. In a transaction. */
export async function* readRows(tx: Db, table: Table, tenantId: string): AsyncGenerator<string[]> {
  const texts = table.columns.map((column) => `${quoted(column.name)}::text`)
  // Without a key, rows are ordered by their text, so that exports are reproducible.
  const order = table.order.length > 0 ? table.order.map(quoted).join(', ') : '1'
  await tx.run(
    composed(
      `declare halfkey_rows no scroll cursor for select array_to_json(array[${texts.join(', ')}]::text[])::text as row
        from ${quoted(table.name)} where ${quoted(tenantColumn(table.name))} = $1 order by ${order}`,
      [tenantId],
    ),
  )
  for (let rows = BATCH_ROWS_FIRST; ; ) {
    const batch = (await tx.query<{ row: string }>(composed(`fetch ${rows} from halfkey_rows`))).map(({ row }) => row)
    if (batch.length > 0) yield batch
    if (batch.length < rows) break
    const chars = batch.reduce((sum, row) => sum + row.length, 0) / batch.length
    rows = Math.max(1, Math.min(BATCH_ROWS_MAX, rows * 10, Math.floor(BATCH_CHARS / chars)))
  }
  await tx.run(sql`close halfkey_rows`)
}
