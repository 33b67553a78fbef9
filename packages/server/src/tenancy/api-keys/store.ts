import { and, type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readRecordPage } from '../../platform/db/page.ts'
import { insertion, update, wire } from '../../platform/db/rows.ts'
import type { Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { KeyType } from '../../platform/security/api-key.ts'
import {
  isMarked,
  readRecord,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import { API_KEY_RECORD } from '../../platform/security/records/api-key-record.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import type { ApiKey, ListApiKeys } from './schema.ts'

/** A row of the table `api_keys`. */
export interface ApiKeyRow extends Versioned {
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
  created_by: string | null
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
    `id name type scopes app_id prefix last4 allowed_ips expires_at last_used_at status metadata created_by
    created_at updated_at`,
  )
}

/** Inserts a key. @throws the violation of api_keys_hash if the same key already exists */
export async function insertApiKey(tx: Db, row: ApiKeyRow): Promise<void> {
  await tx.run(insertion('api_keys', await sealed(tx, API_KEY_RECORD, row)))
}

const select = (scope: AppScope, id: Id<'key'>) => sql`select * from api_keys where ${inScope(scope)} and id = ${id}`

/** The key; in the scope of an app, undefined unless it is bound to that app. */
export function findApiKey(db: Db, scope: AppScope, id: Id<'key'>): Promise<ApiKeyRow | undefined> {
  return readRecord<ApiKeyRow>(db, API_KEY_RECORD, select(scope, id))
}

/** The same, locked until the transaction ends. */
export function lockApiKey(tx: Db, scope: AppScope, id: Id<'key'>): Promise<ApiKeyRow | undefined> {
  return readRecord<ApiKeyRow>(tx, API_KEY_RECORD, sql`${select(scope, id)} for no key update`)
}

/** The same to revoke it: it may have been changed by somebody else, see `readToEnd`. */
export async function lockApiKeyToEnd(tx: Db, scope: AppScope, id: Id<'key'>): Promise<ApiKeyRow | undefined> {
  const [row] = await readToEnd<ApiKeyRow>(tx, API_KEY_RECORD, sql`${select(scope, id)} for no key update`)
  return row
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
  return readRecordPage(db, API_KEY_RECORD, sql`from api_keys where ${found}`, query, (row: ApiKeyRow) =>
    toApiKey(row, now),
  )
}

/** Serialises revocations of a tenant's keys. Creating and using keys does not wait. */
export async function lockRevocations(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`select from tenants where id = ${tenantId} for no key update`)
}

/** How many keys are looked at for one that can administer the tenant. */
const ADMIN_KEYS_MAX = 100

const ADMIN = sql`type = 'secret' and app_id is null and expires_at is null and revoked_at is null and '*' = any (scopes)`

/**
 * Whether this is an admin key (active, tenant-wide, non-expiring, `*`) and the tenant has no other one that works from all
 * addresses. A key with `allowedIps` does not count, because nobody may be able to use its addresses.
 */
export async function isLastAdminKey(tx: Db, tenantId: Id<'ten'>, id: Id<'key'>): Promise<boolean> {
  const keys = await readToEnd<ApiKeyRow>(
    tx,
    API_KEY_RECORD,
    sql`
    select * from api_keys where tenant_id = ${tenantId} and ${ADMIN} and (id = ${id} or allowed_ips = '{}')
    order by id = ${id} desc, id limit ${ADMIN_KEYS_MAX}`,
  )
  const [key, ...others] = keys
  return key?.id === id && !isMarked(key) && !others.some((other) => !isMarked(other))
}

const noteVersion = (tx: Db, row: ApiKeyRow) =>
  tx.afterCommit(() => tx.records.committed(API_KEY_RECORD, row as object as RecordRow))

/** Stores a revocation, in the transaction that holds the key. */
export async function revokeApiKey(tx: Db, before: ApiKeyRow): Promise<void> {
  const row = await resealed(tx, API_KEY_RECORD, { ...before, previous_hash: null, previous_until: null })
  await tx.run(update('api_keys', row, 'revoked_at previous_hash previous_until updated_at version mac'))
  noteVersion(tx, row)
}

/** Stores the new and the old value, in the transaction that holds the key. */
export async function rotateApiKey(tx: Db, before: ApiKeyRow): Promise<void> {
  const row = await resealed(tx, API_KEY_RECORD, before)
  await tx.run(update('api_keys', row, 'hash prefix last4 previous_hash previous_until updated_at version mac'))
  noteVersion(tx, row)
}

/** Ends the values that rotations have replaced, of at most `limit` keys of all tenants. @returns how many there were */
export async function endPreviousValues(tx: Db, now: Date, limit: number): Promise<number> {
  const keys = await readToEnd<ApiKeyRow>(
    tx,
    API_KEY_RECORD,
    sql`
    select * from api_keys where previous_hash is not null order by tenant_id, id limit ${limit} for no key update`,
  )
  // A revoked key has none; what is ended like one stays as it was.
  for (const key of keys) await revokeApiKey(tx, { ...key, updated_at: now })
  return keys.length
}

/**
 * The active keys of all tenants by tenant and id, to end them: at most `limit`, and only those of `ids` unless it is null.
 * Keys that somebody else changed are among them.
 */
export function listActiveToEnd(
  db: Db,
  now: Date,
  { ids, limit }: { ids: readonly string[] | null; limit: number },
): Promise<ApiKeyRow[]> {
  const wanted = ids === null ? sql`true` : sql`id = any(${ids})`
  const locked = db.inTransaction ? sql`for no key update` : sql``
  return readToEnd<ApiKeyRow>(
    db,
    API_KEY_RECORD,
    sql`
    select * from api_keys where ${hasStatus('active', now)} and ${wanted} order by tenant_id, id limit ${limit} ${locked}`,
  )
}

/** How many active keys there are in all tenants. */
export function countActive(db: Db, now: Date): Promise<number> {
  return db.count(sql`select count(*) as n from api_keys where ${hasStatus('active', now)}`)
}

/** Revokes all keys of an app. */
export async function revokeKeysOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>, now: Date): Promise<void> {
  const keys = await readToEnd<ApiKeyRow>(
    tx,
    API_KEY_RECORD,
    sql`
    select * from api_keys where tenant_id = ${tenantId} and app_id = ${appId} and revoked_at is null
    order by id for no key update`,
  )
  for (const key of keys) await revokeApiKey(tx, { ...key, revoked_at: now, updated_at: now })
}
