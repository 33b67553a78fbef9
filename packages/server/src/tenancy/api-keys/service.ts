import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { actorOf, type EventInput, eventOf, publish } from '../../platform/events/events.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { existing, failures, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { apiKeyHash, apiKeyHint, newApiKey } from '../../platform/security/api-key.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { lockAppForShare, resolveApp } from '../apps/service.ts'
import { type KeyLimits, readKey, type WantedKey, widerThan } from './limits.ts'
import type { ApiKey, ApiKeyWithKey, CreateApiKey, ListApiKeys, RotateApiKey } from './schema.ts'
import * as store from './store.ts'

export const API_KEY_ERRORS = {
  last_admin_key: [409, 'This is the last key that can administer the tenant. Create another one first.'],
  api_key_not_active: [409, 'This API key has been revoked or has expired. Create a new one.'],
} as const

const fail = failures(API_KEY_ERRORS)

/** Writes the event and drops cached keys: in this process after the commit, in others within a second. */
async function spread(
  tx: Db,
  deps: Deps,
  row: store.ApiKeyRow,
  type: 'api_key.created' | 'api_key.rotated' | 'api_key.revoked',
  cause: EventInput['cause'],
): Promise<void> {
  const data = { apiKeyId: row.id, name: row.name, type: row.type, scopes: row.scopes, appId: row.app_id }
  await publish(tx, deps, eventOf(row, type, data, cause))
  await raiseAuthEpoch(tx)
  tx.afterCommit(deps.auth.forget)
}

function refuseWider(caller: Caller, wanted: KeyLimits): void {
  const details = widerThan(caller, wanted)
  if (details.length > 0) throw fail('insufficient_scope', details)
}

/** Who makes a key, as the audit log names them. */
const makerIn = (cause: EventInput['cause']): string | null => {
  if (cause === undefined) return null
  return 'actor' in cause ? cause.actor : actorOf(cause.caller)
}

/** Writes a key and its event. Of the key's value, only the hash and a hint are stored. */
async function issue(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  wanted: WantedKey,
  options: { key?: string | undefined; cause: EventInput['cause'] },
): Promise<ApiKeyWithKey> {
  if (wanted.appId !== null && !(await lockAppForShare(tx, tenantId, wanted.appId))) throw notFoundField('appId')
  const key = options.key ?? newApiKey(wanted.type)
  const now = deps.now()
  const row: store.ApiKeyRow = {
    tenant_id: tenantId,
    id: newId('key'),
    name: wanted.name,
    type: wanted.type,
    scopes: [...wanted.scopes],
    app_id: wanted.appId,
    hash: apiKeyHash(key),
    previous_hash: null,
    previous_until: null,
    ...apiKeyHint(key),
    allowed_ips: [...wanted.allowedIps],
    metadata: wanted.metadata,
    expires_at: wanted.expiresAt,
    last_used_at: null,
    revoked_at: null,
    created_by: makerIn(options.cause),
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  await store.insertApiKey(tx, row)
  await spread(tx, deps, row, 'api_key.created', options.cause)
  return { ...store.toApiKey(row, now), key }
}

/**
 * Creates a key that is not wider than the caller's. `key` is returned only here.
 * @throws validation_failed, insufficient_scope (names what is wider), not_found (names `appId`)
 */
export async function createApiKey(deps: Deps, { caller, origin }: Call, input: CreateApiKey): Promise<ApiKeyWithKey> {
  const wanted = readKey(input, caller.appId, deps.now())
  refuseWider(caller, wanted)
  if (caller.appId !== null && wanted.appId !== caller.appId) throw notFoundField('appId')
  return deps.db.tx((tx) => issue(tx, deps, caller.tenantId, wanted, { cause: { caller, origin } }))
}

/** Creates a key for an operator on the command line. No other key limits it. @throws validation_failed, not_found */
export async function createApiKeyByOperator(
  deps: Deps,
  tenantId: Id<'ten'>,
  input: CreateApiKey,
): Promise<ApiKeyWithKey> {
  const wanted = readKey(input, null, deps.now())
  return deps.db.tx((tx) => issue(tx, deps, tenantId, wanted, { cause: { actor: 'cli' } }))
}

/**
 * Writes a new tenant's admin key, in the transaction that creates the tenant. `key` sets its value.
 * @throws Error if that value is already in use
 */
export async function createAdminKey(
  tx: Db,
  deps: Deps,
  options: { tenantId: Id<'ten'>; key?: string | undefined; actor: string },
): Promise<ApiKeyWithKey> {
  const wanted = readKey({ name: 'Admin', type: 'secret', scopes: ['*'] }, null, deps.now())
  return issue(tx, deps, options.tenantId, wanted, { key: options.key, cause: { actor: options.actor } }).catch(
    (error: unknown): never => {
      if (violatedConstraint(error) === 'api_keys_hash')
        throw new Error('This API key is already in use. Create another one with: halfkey keys generate')
      throw error
    },
  )
}

/** A page of the keys that the caller's key can see, including revoked ones, newest first. @throws not_found (names `app_id`) */
export async function listApiKeys(deps: Deps, caller: Caller, query: ListApiKeys): Promise<Page<ApiKey>> {
  if (query.app_id !== undefined) await resolveApp(deps, caller, query.app_id, 'app_id')
  return store.listApiKeys(deps.db, caller, query, deps.now())
}

/** @throws not_found, also for keys of another tenant or app */
export async function getApiKey(deps: Deps, caller: Caller, id: string): Promise<ApiKey> {
  return store.toApiKey(existing(await store.findApiKey(deps.db, caller, pathId('key', id))), deps.now())
}

/** Revokes a key: immediately in this process, within a second in others. Emits no event if it was already revoked. @throws not_found, last_admin_key */
export async function revokeApiKey(deps: Deps, { caller, origin }: Call, id: string): Promise<ApiKey> {
  return deps.db.tx(async (tx) => {
    // Of two concurrent revocations of the last two admin keys, the second waits here and then finds only one left.
    await store.lockRevocations(tx, caller.tenantId)
    const row = existing(await store.lockApiKeyToEnd(tx, caller, pathId('key', id)))
    const now = deps.now()
    if (row.revoked_at !== null) return store.toApiKey(row, now)
    if (await store.isLastAdminKey(tx, caller.tenantId, row.id)) throw fail('last_admin_key')
    row.revoked_at = now
    row.updated_at = now
    await store.revokeApiKey(tx, row)
    await spread(tx, deps, row, 'api_key.revoked', { caller, origin })
    return store.toApiKey(row, now)
  })
}

/**
 * Gives a key a new value. Everything else stays the same. The old value works for another `graceSeconds`, by default not at
 * all. Refused for a key wider than the caller's, because the response contains the value.
 * @throws not_found, insufficient_scope, api_key_not_active
 */
export async function rotateApiKey(
  deps: Deps,
  { caller, origin }: Call,
  id: string,
  input: RotateApiKey,
): Promise<ApiKeyWithKey> {
  return deps.db.tx(async (tx) => {
    const row = existing(await store.lockApiKey(tx, caller, pathId('key', id)))
    refuseWider(caller, {
      scopes: row.scopes,
      appId: row.app_id,
      allowedIps: row.allowed_ips,
      expiresAt: row.expires_at,
    })
    const now = deps.now()
    if (store.statusOf(row, now) !== 'active') throw fail('api_key_not_active')
    const graceMs = (input.graceSeconds ?? 0) * 1000
    const key = newApiKey(row.type)
    const rotated: store.ApiKeyRow = {
      ...row,
      ...apiKeyHint(key),
      hash: apiKeyHash(key),
      previous_hash: graceMs > 0 ? row.hash : null,
      previous_until: graceMs > 0 ? new Date(now.getTime() + graceMs) : null,
      updated_at: now,
    }
    await store.rotateApiKey(tx, rotated)
    await spread(tx, deps, rotated, 'api_key.rotated', { caller, origin })
    return { ...store.toApiKey(rotated, now), key }
  })
}

/** Revokes the keys of an app that is being deleted. */
export async function revokeKeysOfApp(tx: Db, deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store.revokeKeysOfApp(tx, tenantId, appId, deps.now())
}

const KEYS_A_TURN = 500

/** Ends, in all tenants, the values of keys that rotations have replaced. @returns how many there were */
export async function endPreviousKeys(deps: Deps): Promise<number> {
  let ended = 0
  for (let more = true; more; ) {
    const keys = await deps.db.tx(async (tx) => {
      await raiseAuthEpoch(tx)
      tx.afterCommit(deps.auth.forget)
      return store.endPreviousValues(tx, deps.now(), KEYS_A_TURN)
    })
    ended += keys
    more = keys === KEYS_A_TURN
  }
  return ended
}

/** An active key of any tenant, for an operator. */
export interface ActiveKey extends Pick<ApiKey, 'id' | 'name' | 'type' | 'last4' | 'lastUsedAt'> {
  tenantId: Id<'ten'>
}

/** The active keys of all tenants, or those of `ids`: the first ones, and how many there are in all. */
export async function listActiveKeys(
  deps: Deps,
  { ids, limit }: { ids: readonly string[] | null; limit: number },
): Promise<{ keys: ActiveKey[]; total: number }> {
  const now = deps.now()
  const rows = await store.listActiveToEnd(deps.db, now, { ids, limit })
  const keys = rows.map((row) => {
    const { id, name, type, last4, lastUsedAt } = store.toApiKey(row, now)
    return { tenantId: row.tenant_id, id, name, type, last4, lastUsedAt }
  })
  return { keys, total: await store.countActive(deps.db, now) }
}

/**
 * Revokes the active keys of all tenants, or those of `ids`, for an operator: also the last ones that can administer a tenant, because
 * `halfkey keys create` makes others. In portions that commit one by one. @returns how many there were
 */
export async function revokeActiveKeys(deps: Deps, ids: readonly string[] | null): Promise<number> {
  let revoked = 0
  for (let more = true; more; ) {
    const keys = await deps.db.tx(async (tx) => {
      const now = deps.now()
      const rows = await store.listActiveToEnd(tx, now, { ids, limit: KEYS_A_TURN })
      for (const row of rows) {
        const ended = { ...row, revoked_at: now, updated_at: now }
        await store.revokeApiKey(tx, ended)
        await spread(tx, deps, ended, 'api_key.revoked', { actor: 'cli' })
      }
      return rows.length
    })
    revoked += keys
    more = keys === KEYS_A_TURN
  }
  return revoked
}
