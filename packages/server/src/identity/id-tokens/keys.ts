import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { fail } from '../../platform/http/errors.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { lockAppForShare } from '../../tenancy/apps/service.ts'
import { createKeyQueue } from './key-queue.ts'
import * as store from './store.ts'

/** How long an ID token is valid at most. */
export const ID_TOKEN_SECONDS = 600
/** How long verifiers may keep an app's key set. If they find an unknown `kid`, they read it again. */
export const JWKS_SECONDS = 300
/** A key is published until its last token has expired, and a margin for clocks that differ. */
const RETIRE_MS = (ID_TOKEN_SECONDS + 300) * 1000
/** RFC 7518, section 3.3: at least 2048 bits. */
const MODULUS_BITS = 2048
const OPENED_MAX = 1_000
const ROTATED_AT_ONCE = 200

/** An opened key. */
export interface IdTokenKey {
  /** The `kid`. */
  id: string
  privateKey: KeyObject
  /** The public half as a member of a JWK Set (RFC 7517). */
  jwk: JsonWebKey
}

const context = ({ tenantId, appId }: OfApp, id: string) => ['id token key', tenantId, appId, id]

/** The opened keys of a process, by what opens them. A row says whether its key still counts. */
const opened = new WeakMap<KeyProvider, LRUCache<string, IdTokenKey>>()

/** @throws KeyServiceError */
async function openKey({ keys }: Pick<Deps, 'keys'>, row: store.KeyRow): Promise<IdTokenKey> {
  const cache = opened.get(keys) ?? new LRUCache<string, IdTokenKey>({ max: OPENED_MAX })
  opened.set(keys, cache)
  const of = { tenantId: row.tenant_id, appId: row.app_id }
  const name = context(of, row.id).join(' ')
  const known = cache.get(name)
  if (known !== undefined) return known
  const pkcs8 = await open(keys, row.private_key_sealed, context(of, row.id))
  const privateKey = createPrivateKey({ key: pkcs8, type: 'pkcs8', format: 'der' })
  pkcs8.fill(0)
  const publicHalf = createPublicKey(privateKey).export({ format: 'jwk' })
  const key = { id: row.id, privateKey, jwk: { ...publicHalf, kid: row.id, alg: 'RS256', use: 'sig' } }
  cache.set(name, key)
  return key
}

/** In another thread, because it takes up to some hundred milliseconds. */
const generate = promisify(generateKeyPair)

async function newRow({ keys, now }: Pick<Deps, 'keys' | 'now'>, of: OfApp): Promise<store.KeyRow> {
  const id = randomBytes(12).toString('base64url')
  const { privateKey } = await generate('rsa', { modulusLength: MODULUS_BITS })
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'der' })
  const sealed = await seal(keys, pkcs8, context(of, id))
  pkcs8.fill(0)
  return {
    tenant_id: of.tenantId,
    id,
    app_id: of.appId,
    private_key_sealed: sealed,
    created_at: now(),
    retires_at: null,
    revoked_at: null,
    version: 0,
    mac: null,
  }
}

/** Of this process. */
const making = createKeyQueue()

/** Makes an app's current key, unless another process was faster. @throws not_found if there is no such app, KeyServiceError */
async function makeKey(deps: Deps, of: OfApp): Promise<void> {
  if ((await store.findCurrentKey(deps.db, of)) !== undefined) return
  const made = await newRow(deps, of)
  await deps.db.tx(async (tx) => {
    if (!(await lockAppForShare(tx, of.tenantId, of.appId))) throw fail('not_found')
    await store.insertKey(tx, made)
  })
}

const busy = () => fail('rate_limited', [], { 'retry-after': '1' })

/**
 * Sees to it that an app has a key, once for all that wait for it. Call it before any transaction.
 * @throws not_found, rate_limited (too many wait), KeyServiceError
 */
export async function ensureKey(deps: Deps, of: OfApp): Promise<void> {
  if ((await store.findCurrentKey(deps.db, of)) !== undefined) return
  if ((await making.run(of, () => makeKey(deps, of))) === null) throw busy()
}

/**
 * The key that signs an app's ID tokens, after `ensureKey`.
 * @throws rate_limited if it was rotated at this moment: the repeat makes another one; record_tampered, KeyServiceError
 */
export async function currentKey(deps: Deps, of: OfApp): Promise<IdTokenKey> {
  const row = await store.findCurrentKey(deps.db, of)
  if (row === undefined) throw busy()
  return openKey(deps, row)
}

/**
 * An app's public keys, a JWK Set (RFC 7517), and whether it is whole. It is not where a key cannot be made or opened now:
 * verifiers get what there is, because tokens by those keys count.
 * @throws not_found, rate_limited, record_tampered, KeyServiceError, if there is nothing
 */
export async function jwkSetOf(deps: Deps, of: OfApp): Promise<{ whole: boolean; keys: JsonWebKey[] }> {
  const [made] = await Promise.allSettled([ensureKey(deps, of)])
  const rows = await store.listPublishedKeys(deps.db, of, deps.now())
  const opened = await Promise.allSettled(rows.map((row) => openKey(deps, row)))
  const keys = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value.jwk] : []))
  const failed = [made, ...opened].find((one) => one.status === 'rejected')
  if (keys.length === 0 && failed !== undefined) throw failed.reason
  if (failed !== undefined)
    deps.log.warn({ err: failed.reason, appId: of.appId }, 'a key set of ID tokens is not whole')
  return { whole: failed === undefined, keys }
}

/**
 * Ends the current keys of all apps: each app gets another one when it needs it. The ones before stay published until their
 * tokens have expired; with `revoke`, no longer. @returns how many keys it ended
 */
export async function rotateIdTokenKeys(
  { db, now }: { db: Db; now(): Date },
  { revoke }: { revoke: boolean },
): Promise<number> {
  const at = now()
  const retiresAt = revoke ? at : new Date(at.getTime() + RETIRE_MS)
  const endNext = (after: readonly [string, string]) =>
    db.tx(async (tx) => {
      const rows = await store.lockKeysToEnd(tx, { after, all: revoke, limit: ROTATED_AT_ONCE })
      for (const row of rows)
        await store.storeEnd(tx, { ...row, retires_at: row.retires_at ?? retiresAt, revoked_at: revoke ? at : null })
      return rows
    })
  let ended = 0
  for (let after: readonly [string, string] = ['', '']; ; ) {
    const rows = await endNext(after)
    ended += rows.length
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROTATED_AT_ONCE) return ended
    after = [last.tenant_id, last.id]
  }
}
