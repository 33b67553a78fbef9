import { and, type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, update, wire } from '../../platform/db/rows.ts'
import type { Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { KeyType } from '../../platform/security/api-key.ts'
import type { ApiKey, ListApiKeys } from './schema.ts'

/** A row of the table `api_keys`. */
export interface ApiKeyRow {
  tenant_id: Id<'ten'>
  id: Id<'key'>
  name: string
  type: KeyType
  scopes: string[]
  app_id: Id<'app'> | null
  hash: Buffer
  previous_hash: Buffer | null
  previous_until: Date | null
  prefix: string
  last4: string
  allowed_ips: string[]
  metadata: Record<string, string>
  expires_at: Date | null
  last_used_at: Date | null
  revoked_at: Date | null
  created_at: Date
  updated_at: Date
}

/** A key's status at a time. A revoked key stays revoked after it expires. */
export function statusOf(row: Pick<ApiKeyRow, 'revoked_at' | 'expires_at'>, now: Date): ApiKey['status'] {
  if (row.revoked_at !== null) return 'revoked'
  return row.expires_at !== null && row.expires_at <= now ? 'expired' : 'active'
}

/** A row in its API form at a time. */
export function toApiKey(row: ApiKeyRow, now: Date): ApiKey {
  return wire(
    { ...row, status: statusOf(row, now) },
    `id name type scopes app_id prefix last4 allowed_ips expires_at last_used_at status metadata created_at
    updated_at`,
  )
}

/** Inserts a key. @throws the violation of api_keys_hash if the same key already exists */
export async function insertApiKey(tx: Db, row: ApiKeyRow): Promise<void> {
  await tx.run(insertion('api_keys', row))
}

const select = (scope: AppScope, id: Id<'key'>) => sql`select * from api_keys where ${inScope(scope)} and id = ${id}`

/** The key; in the scope of an app, undefined unless it is bound to that app. */
export function findApiKey(db: Db, scope: AppScope, id: Id<'key'>): Promise<ApiKeyRow | undefined> {
  return db.one<ApiKeyRow>(select(scope, id))
}

/** The same, locked until the transaction ends. */
export function lockApiKey(tx: Db, scope: AppScope, id: Id<'key'>): Promise<ApiKeyRow | undefined> {
  return tx.one<ApiKeyRow>(sql`${select(scope, id)} for no key update`)
}

/** The condition that a key has a status at a time: see `statusOf`. */
function hasStatus(status: ApiKey['status'], now: Date): Sql {
  if (status === 'revoked') return sql`revoked_at is not null`
  const over = sql`coalesce(expires_at <= ${now}, false)`
  return status === 'expired' ? sql`revoked_at is null and ${over}` : sql`revoked_at is null and not ${over}`
}

/** A page of the keys that a query finds, newest first, in their API form at a time. */
export function listApiKeys(db: Db, scope: AppScope, query: ListApiKeys, now: Date): Promise<Page<ApiKey>> {
  const { type, status, app_id: appId } = query
  const found = and([
    inScope(scope),
    ...(type === undefined ? [] : [sql`type = ${type}`]),
    ...(status === undefined ? [] : [hasStatus(status, now)]),
    ...(appId === undefined ? [] : [sql`app_id = ${appId}`]),
  ])
  return readPage(db, sql`from api_keys where ${found}`, query, (row: ApiKeyRow) => toApiKey(row, now))
}

/** Serialises revocations of a tenant's keys. Creating and using keys does not wait. */
export async function lockRevocations(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`select from tenants where id = ${tenantId} for no key update`)
}

const ADMIN = sql`type = 'secret' and app_id is null and expires_at is null and revoked_at is null and '*' = any (scopes)`

/**
 * Whether this is an admin key (active, tenant-wide, non-expiring, `*`) and the tenant has no other one that works from all
 * addresses. A key with `allowedIps` does not count, because nobody may be able to use its addresses.
 */
export async function isLastAdminKey(tx: Db, tenantId: Id<'ten'>, id: Id<'key'>): Promise<boolean> {
  const row = await tx.one(sql`
    select 1 from api_keys where tenant_id = ${tenantId} and id = ${id} and ${ADMIN}
      and not exists (select from api_keys where tenant_id = ${tenantId} and id <> ${id} and ${ADMIN} and allowed_ips = '{}')`)
  return row !== undefined
}

/** Stores a revocation. */
export async function revokeApiKey(tx: Db, row: ApiKeyRow): Promise<void> {
  await tx.run(sql`
    update api_keys set revoked_at = ${row.revoked_at}, previous_hash = null, previous_until = null, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Stores the new and the old value. */
export async function rotateApiKey(tx: Db, row: ApiKeyRow): Promise<void> {
  await tx.run(update('api_keys', row, 'hash prefix last4 previous_hash previous_until updated_at'))
}

/** Revokes all keys of an app. */
export async function revokeKeysOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>, now: Date): Promise<void> {
  await tx.run(sql`
    with mine as (
      select id from api_keys where tenant_id = ${tenantId} and app_id = ${appId} and revoked_at is null order by id for no key update)
    update api_keys k set revoked_at = ${now}, updated_at = ${now}, previous_hash = null, previous_until = null
    from mine where k.tenant_id = ${tenantId} and k.id = mine.id`)
}
