import { generateKeyPairSync } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { publish } from '../../platform/events/events.ts'
import { existing, notFoundField } from '../../platform/http/errors.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'
import { seal } from '../../platform/security/crypto.ts'
import { nodeSigner } from '../../platform/security/node-keys.ts'
import { createAdminKey } from '../api-keys/service.ts'
import { createFirstApp, defaultApp, forgetApps, lockAppForShare } from '../apps/service.ts'
import type { Tenant, UpdateTenant } from './schema.ts'
import * as store from './store.ts'

export { listTenants, lockPlan, setPlan } from './store.ts'

const NAMESPACES_MAX = 10_000
const RAW_KEY_BYTES = 32

/** The caller's own tenant. */
export async function getTenant(deps: Deps, caller: Caller): Promise<Tenant> {
  return store.toTenant(existing(await store.findTenant(deps.db, caller.tenantId)))
}

/** Changes the given fields. Emits no event if nothing changed. @throws not_found (names `settings.defaultAppId`) */
export async function updateTenant(deps: Deps, { caller, origin }: Call, input: UpdateTenant): Promise<Tenant> {
  return deps.db.tx(async (tx) => {
    const before = existing(await store.lockTenant(tx, caller.tenantId))
    const row = {
      ...before,
      name: input.name?.trim().normalize('NFC') ?? before.name,
      default_app_id: (input.settings?.defaultAppId ?? before.default_app_id) as Id<'app'>,
    }
    const changed = [
      ...(row.name !== before.name ? ['name'] : []),
      ...(row.default_app_id !== before.default_app_id ? ['settings.defaultAppId'] : []),
    ]
    if (changed.length === 0) return store.toTenant(before)
    if (
      row.default_app_id !== before.default_app_id &&
      !(await lockAppForShare(tx, caller.tenantId, row.default_app_id))
    ) {
      throw notFoundField('settings.defaultAppId')
    }
    row.updated_at = deps.now()
    await store.updateTenant(tx, row)
    await publish(tx, deps, {
      tenantId: caller.tenantId,
      appId: null,
      type: 'tenant.updated',
      data: { tenantId: caller.tenantId, changed },
      cause: { caller, origin },
    })
    tx.afterCommit(() => forgetApps(deps))
    return store.toTenant(row)
  })
}

/** A new tenant with its app and its admin key. `key` is returned only here. */
export interface NewTenant {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  key: string
}

/** `adminKey` sets the key's value. `actor` is for the audit log. */
export interface CreateTenant {
  name: string
  adminKey?: string | null
  actor?: 'cli' | 'first start'
}

/** A new Ed25519 key for a ledger node: the public key raw, the private key as PKCS #8, sealed. */
async function newNodeKey(deps: Deps, tenantId: Id<'ten'>) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const node_key_sealed = await seal(deps.keys, pkcs8, ['node key', tenantId])
  pkcs8.fill(0)
  // RFC 8410, section 4: the key is the last part of its SubjectPublicKeyInfo.
  const node_public_key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)
  return { node_public_key, node_key_sealed }
}

/**
 * Creates a tenant with its ledger node's key, its app `Default` and its `*` secret key `Admin`, in one transaction.
 * @throws Error if `adminKey` is already in use
 */
export async function createTenant(deps: Deps, input: CreateTenant): Promise<NewTenant> {
  const tenantId = newId('ten')
  const appId = newId('app')
  const actor = input.actor ?? 'first start'
  const nodeKey = await newNodeKey(deps, tenantId)
  return deps.db.tx(async (tx) => {
    const name = input.name.trim().normalize('NFC')
    const now = deps.now()
    const row = { id: tenantId, name, default_app_id: appId, ...nodeKey, created_at: now, updated_at: now }
    await store.insertTenant(tx, row)
    const cause = { actor }
    await recordAuditOnly(tx, deps, { tenantId, appId: null, action: 'tenant.created', target: tenantId, cause })
    await createFirstApp(tx, deps, { tenantId, id: appId, name: 'Default', actor })
    const { key } = await createAdminKey(tx, deps, { tenantId, key: input.adminKey ?? undefined, actor })
    return { tenantId, appId, key }
  })
}

/** Whether there is no tenant yet. */
export async function isEmptyInstallation(db: Db): Promise<boolean> {
  return (await store.listTenants(db, 1)).length === 0
}

/** Whether a tenant with this id exists. */
export async function isTenant(db: Db, id: string): Promise<boolean> {
  return isId('ten', id) && (await store.findTenant(db, id)) !== undefined
}

/** The data of a tenant that creating a user needs. */
export interface TenantContext {
  defaultAppId: Id<'app'>
  /** Fingerprint of its ledger node's key: the suffix of its users' parties. */
  namespace: string
}

const namespacesByProcess = new WeakMap<Authenticator, LRUCache<Id<'ten'>, string>>()

async function namespaceOf(deps: Deps, tenantId: Id<'ten'>): Promise<string> {
  // It never changes, so it is cached without expiry. One cache per process, like the authenticator.
  const known = namespacesByProcess.get(deps.auth) ?? new LRUCache<Id<'ten'>, string>({ max: NAMESPACES_MAX })
  namespacesByProcess.set(deps.auth, known)
  const remembered = known.get(tenantId)
  if (remembered !== undefined) return remembered
  const namespace = keyFingerprint(await nodePublicKey(deps, tenantId))
  known.set(tenantId, namespace)
  return namespace
}

/** The raw public key of the tenant's ledger node, derived from its private key. It never changes. */
export async function nodePublicKey(deps: Deps, tenantId: Id<'ten'>): Promise<Buffer> {
  return (await nodeSigner(deps.db, deps.keys, tenantId)).publicKey
}

/** The default app, cached for at most a second, and the namespace of the tenant's parties, cached without expiry. */
export async function tenantContext(deps: Deps, tenantId: Id<'ten'>): Promise<TenantContext> {
  const namespace = await namespaceOf(deps, tenantId)
  return { defaultAppId: await defaultApp(deps, tenantId), namespace }
}
