import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { domainOrigins } from '../../platform/security/domain-origins.ts'
import { RECORD_LABEL } from './domain-name.ts'
import type { CustomDomain } from './schema.ts'

/** A row of the table `custom_domains`. */
export interface DomainRow {
  tenant_id: Id<'ten'>
  id: Id<'dom'>
  app_id: Id<'app'>
  domain: string
  status: CustomDomain['status']
  token: string
  error: CustomDomain['error']
  last_checked_at: Date | null
  next_check_at: Date | null
  missing_since: Date | null
  verified_at: Date | null
  created_at: Date
  updated_at: Date
}

/** The name of the record that proves a domain. */
export const recordName = (row: Pick<DomainRow, 'domain'>): string => `${RECORD_LABEL}.${row.domain}`

/** A row in its API form. `target` is the host that domains must point at. */
export function toCustomDomain(row: DomainRow, target: string): CustomDomain {
  return {
    ...wire(row, 'id domain app_id status'),
    verification: { type: 'TXT', name: recordName(row), value: row.token },
    target: { type: 'CNAME', name: row.domain, value: target },
    ...wire(row, 'last_checked_at missing_since error created_at updated_at'),
  }
}

/** The values of a new domain, which is pending. */
export type NewDomain = Pick<
  DomainRow,
  'tenant_id' | 'id' | 'app_id' | 'domain' | 'token' | 'next_check_at' | 'created_at'
>

/** Inserts a domain. @throws the violation of custom_domains_domain, or of custom_domains_app_fk */
export async function insertDomain(tx: Db, row: NewDomain): Promise<DomainRow> {
  const pending = insertion('custom_domains', { ...row, status: 'pending', updated_at: row.created_at })
  return (await tx.one<DomainRow>(sql`${pending} returning *`)) as DomainRow
}

/** The domain, or undefined. */
export function findDomain(db: Db, scope: AppScope, id: Id<'dom'>): Promise<DomainRow | undefined> {
  return db.one<DomainRow>(sql`select * from custom_domains where ${inScope(scope)} and id = ${id}`)
}

/** The same by its name. */
export function findDomainByName(db: Db, scope: AppScope, domain: string): Promise<DomainRow | undefined> {
  return db.one<DomainRow>(sql`select * from custom_domains where ${inScope(scope)} and domain = ${domain}`)
}

/** The domain, locked until the transaction ends. */
export function lockDomain(tx: Db, tenantId: Id<'ten'>, id: Id<'dom'>): Promise<DomainRow | undefined> {
  return tx.one<DomainRow>(
    sql`select * from custom_domains where tenant_id = ${tenantId} and id = ${id} for no key update`,
  )
}

/** How many domains a tenant has, counted up to `most`. */
export async function countUpTo(tx: Db, tenantId: Id<'ten'>, most: number): Promise<number> {
  return tx.run(sql`select from custom_domains where tenant_id = ${tenantId} limit ${most}`)
}

const SORT_COLUMNS = { createdAt: sql`id`, domain: sql`domain` }

/** A page of domains, by default newest first; null does not filter. `target` is the host that domains must point at. */
export function listDomains(
  db: Db,
  { status, ...scope }: AppScope & { status: CustomDomain['status'] | null },
  query: PageQuery,
  target: string,
): Promise<Page<CustomDomain>> {
  const from = sql`from custom_domains where ${inScope(scope)} and (${status}::text is null or status = ${status})`
  return readPage(db, from, query, (row: DomainRow) => toCustomDomain(row, target), SORT_COLUMNS)
}

/** Stores the result of a lookup. @throws the violation of custom_domains_verified if another tenant was first */
export async function updateChecked(tx: Db, row: DomainRow): Promise<void> {
  const columns = 'status error last_checked_at next_check_at missing_since verified_at updated_at'
  await tx.run(update('custom_domains', row, columns))
}

/** Deletes a domain by its name. @returns the deleted row, or undefined */
export function deleteDomain(tx: Db, scope: AppScope, domain: string): Promise<DomainRow | undefined> {
  return tx.one<DomainRow>(sql`delete from custom_domains where ${inScope(scope)} and domain = ${domain} returning *`)
}

/** Whether any tenant has verified this name; only one can. */
export async function isVerified(db: Db, domain: string): Promise<boolean> {
  return (await db.run(sql`select from custom_domains where domain = ${domain} and status = 'verified'`)) === 1
}

/**
 * Takes a portion of the domains that are due, of all tenants, the longest due first, and postpones them until `until`. So
 * other processes take other domains, and the domains of a process that dies are due again at `until`.
 */
export function takeDue(db: Db, now: Date, until: Date, limit: number): Promise<DomainRow[]> {
  return db.query<DomainRow>(sql`
    with due as materialized (
      select tenant_id, id from custom_domains where next_check_at <= ${now} order by next_check_at limit ${limit}
      for no key update skip locked)
    update custom_domains d set next_check_at = ${until} from due
    where d.tenant_id = due.tenant_id and d.id = due.id returning d.*`)
}

/**
 * The allowed origins and custom domains of the apps with this relying party. Only apps of one tenant count: the tenant that
 * has verified it as a domain, otherwise the tenant that used it first or, for the service's own host, the first tenant.
 * Browsers ask without a key, and a tenant must not decide for another tenant's passkeys.
 */
export async function listRelatedOrigins(
  db: Db,
  of: { rpId: string; isDefault: boolean; prefix: string; limit: number },
): Promise<string[]> {
  const rows = await db.query<{ origin: string }>(sql`
    with owner as (
      select case when ${of.isDefault}::boolean then (select id from tenants order by id limit 1)
        else coalesce((select tenant_id from custom_domains where domain = ${of.rpId} and status = 'verified'),
          (select tenant_id from relying_parties where rp_id = ${of.rpId})) end as tenant_id)
    select distinct o.origin from owner join apps a on a.tenant_id = owner.tenant_id,
      unnest(a.allowed_origins || ${domainOrigins(sql`a.tenant_id`, sql`a.id`)}) as o(origin)
    where (a.passkey->>'rpId' = ${of.rpId} or (${of.isDefault}::boolean and a.passkey->>'rpId' is null))
      and o.origin like ${`${of.prefix}%`}
    order by o.origin limit ${of.limit}`)
  return rows.map(({ origin }) => origin)
}

/** How many of an app's passkeys, counted up to `counted`, belong to each relying party. The largest count first. */
export function countByRelyingParty(
  db: Db,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  { counted, limit }: { counted: number; limit: number },
): Promise<{ rpId: string; count: number }[]> {
  return db.query<{ rpId: string; count: number }>(sql`
    select rp_id as "rpId", count(*) as count
    from (select rp_id from passkeys where tenant_id = ${tenantId} and app_id = ${appId} limit ${counted}) as looked_at
    group by rp_id order by count(*) desc, rp_id limit ${limit}`)
}
