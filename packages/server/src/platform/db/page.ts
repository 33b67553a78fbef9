import { type Page, type PageQuery, paging } from '../http/route.ts'
import type { Id } from '../ids.ts'
import type { RecordKind, RecordRow } from '../security/records/kind.ts'
import { type Db, type Sql, sql } from './db.ts'

/** Records of a tenant, or with `appId` of that app only: what a key sees. */
export interface AppScope {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
}

/** The condition that a row with `tenant_id` and `app_id` is in a scope. */
export const inScope = ({ tenantId, appId }: AppScope): Sql =>
  sql`tenant_id = ${tenantId} and (${appId}::text is null or app_id = ${appId})`

/** The columns that a list can be sorted by, by their fields in the API. */
export type SortColumns = Readonly<Record<string, Sql>>

const BY_CREATION: SortColumns = { createdAt: sql`id` }

/** The column and direction of a validated `sort`. Ids begin with the time, so they give the order of creation. */
export function ordering(sort = '-createdAt', columns = BY_CREATION): { column: Sql; direction: Sql } {
  const descending = sort.startsWith('-')
  const column = columns[descending ? sort.slice(1) : sort]
  if (column === undefined) throw new Error(`"${sort}" has no column to sort by`)
  return { column, direction: descending ? sql`desc` : sql`asc` }
}

/** The same for records, each verified. @throws record_tampered */
export async function readRecordPage<Row extends object, T>(
  db: Db,
  kind: RecordKind,
  from: Sql,
  query: PageQuery,
  toItem: (row: Row) => T,
): Promise<Page<T>> {
  const readAt = performance.now()
  const { items, ...page } = await readPage(db, from, query, (row: Row) => row)
  await db.records.check(kind, items as RecordRow[], readAt, !db.inTransaction)
  return { ...page, items: items.map(toItem) }
}

/** One page of the rows that `from …` (a table and a condition) gives, by default newest first, as items; `total` is exact. */
export async function readPage<Row extends object, T>(
  db: Db,
  from: Sql,
  query: PageQuery,
  toItem: (row: Row) => T,
  columns?: SortColumns,
): Promise<Page<T>> {
  const { page, pageSize, offset } = paging(query)
  const total = await db.count(sql`select count(*) as n ${from}`)
  const { column, direction } = ordering(query.sort, columns)
  const rows = await db.query<Row>(
    sql`select * ${from} order by ${column} ${direction} offset ${offset} limit ${pageSize}`,
  )
  return { items: rows.map(toItem), total, page, pageSize }
}
