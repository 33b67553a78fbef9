import { type Db, type Sql, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'

/** More are of no use in one answer, and a tenant cannot have more domains. */
const ORIGINS_MAX = 1_000

/**
 * The origins of an app's verified custom domains, as an expression of type text[]; none for null. `tenantId` and `appId`
 * are columns or values.
 */
export function domainOrigins(tenantId: Sql, appId: Sql): Sql {
  return sql`array(
    select 'https://' || d.domain from custom_domains d
    where d.tenant_id = ${tenantId} and d.app_id = ${appId} and d.status = 'verified' order by d.domain limit ${ORIGINS_MAX})`
}

/** The same of one app, read by itself. */
export async function listDomainOrigins(db: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<string[]> {
  const row = await db.one<{ origins: string[] }>(
    sql`select ${domainOrigins(sql`${tenantId}`, sql`${appId}`)} as origins`,
  )
  return row?.origins ?? []
}

/** Whether a host is a verified custom domain, but not this app's. Across tenants: it can be one's alone. */
export async function isDomainOfOther(db: Db, host: string, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<boolean> {
  const others = await db.run(sql`
    select from custom_domains where domain = ${host} and status = 'verified'
      and (tenant_id <> ${tenantId} or app_id <> ${appId})`)
  return others === 1
}
