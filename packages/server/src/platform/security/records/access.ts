import type { Db, Sql } from '../../db/db.ts'
import type { RecordKind, RecordRow } from './kind.ts'
import { recordIn } from './kind.ts'
import { TAMPERED } from './records.ts'

const VERSION_MAX = 2 ** 31 - 1

/** What a table of records has beside its own columns. */
export interface Sealed {
  /** Null in a row from before MACs. */
  mac: Buffer | null
}

/** The same where rows change. */
export interface Versioned extends Sealed {
  version: number
}

const asRecord = (row: object) => row as RecordRow

/** The rows that a statement finds, each verified. @throws record_tampered */
export async function readRecords<Row extends object>(db: Db, kind: RecordKind, statement: Sql): Promise<Row[]> {
  const readAt = performance.now()
  const rows = await db.query<Row>(statement)
  await db.records.check(kind, rows.map(asRecord), readAt, !db.inTransaction)
  return rows
}

/** The first of them. @throws record_tampered */
export async function readRecord<Row extends object>(
  db: Db,
  kind: RecordKind,
  statement: Sql,
): Promise<Row | undefined> {
  const readAt = performance.now()
  const row = await db.one<Row>(statement)
  if (row !== undefined) await db.records.check(kind, [asRecord(row)], readAt, !db.inTransaction)
  return row
}

/**
 * The row that a statement finds whose records of these kinds were read with `recordColumns`, each verified.
 * @throws record_tampered
 */
export async function readJoined<Row extends object>(
  db: Db,
  kinds: readonly RecordKind[],
  statement: Sql,
): Promise<Row | undefined> {
  const readAt = performance.now()
  const row = await db.one<Row>(statement)
  if (row === undefined) return undefined
  for (const kind of kinds) {
    const record = recordIn(kind, row)
    if (record !== null) await db.records.check(kind, [record], readAt, !db.inTransaction)
  }
  return row
}

/** A row without the columns that were read for checks alone: for what is kept in memory or handed on. */
export function withoutRecords<Row extends object>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !name.includes('__'))) as Row
}

/**
 * The rows that a statement finds, for an act that ends them and must always take effect. One that does not verify is
 * reported, and marked in `mac`, so that what `resealed` makes of it verifies no more than before.
 */
export async function readToEnd<Row extends Sealed>(db: Db, kind: RecordKind, statement: Sql): Promise<Row[]> {
  const rows = await db.query<Row>(statement)
  return Promise.all(
    rows.map(async (row) => ((await db.records.verifies(kind, asRecord(row))) ? row : { ...row, mac: TAMPERED })),
  )
}

/** Whether `readToEnd` marked a row as one that does not verify. */
export const isMarked = ({ mac }: Sealed): boolean => mac?.equals(TAMPERED) === true

/** A new row with its MAC. */
export async function sealed<Row extends Sealed>(db: Db, kind: RecordKind, row: Row): Promise<Row> {
  return { ...row, mac: await db.records.mac(kind, asRecord(row)) }
}

/** A changed row with its next version and MAC. What did not verify when it was read gets no MAC. */
export async function resealed<Row extends Versioned>(db: Db, kind: RecordKind, row: Row): Promise<Row> {
  // A row that somebody else changed may have the greatest version that there is.
  if (isMarked(row)) return { ...row, version: Math.min(row.version + 1, VERSION_MAX) }
  const next = { ...row, version: row.version + 1 }
  return sealed(db, kind, next)
}
