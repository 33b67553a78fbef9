import { type Page, type PageQuery, paging } from '../http/route.ts'
import type { Id } from '../ids.ts'
import { type Db, type Sql, sql } from './db.ts'

/** Records of a tenant, or with `appId` of that app only: what a key sees. */
export interface AppScope {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
}

/** The condition that a row with `tenant_id` and `app_id` is in a scope. */
export const inScope = ({ tenantId, appId }: AppScope): Sql =>
  sql`tenant_id = ${tenantId} and (${appId}::text is null or app_id = ${appId})`

/** One page of the rows that `from …` (a table and a condition) gives, newest first, as items; `total` is exact. */
export async function readPage<Row extends object, T>(
  db: Db,
  from: Sql,
  query: PageQuery,
  toItem: (row: Row) => T,
): Promise<Page<T>> {
  const { page, pageSize, offset } = paging(query)
  const total = await db.count(sql`select count(*) as n ${from}`)
  const rows = await db.query<Row>(sql`select * ${from} order by id desc offset ${offset} limit ${pageSize}`)
  return { items: rows.map(toItem), total, page, pageSize }
}
