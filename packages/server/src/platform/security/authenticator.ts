import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createPoller } from '../concurrency/poll.ts'
import { type Db, sql } from '../db/db.ts'
import type { Caller } from '../http/route.ts'
import type { Logger } from '../observability/log.ts'
import { apiKeyHash, apiKeyType } from './api-key.ts'
import { domainOrigins } from './domain-origins.ts'
import { readJoined, withoutRecords } from './records/access.ts'
import { API_KEY_RECORD } from './records/api-key-record.ts'
import { APP_RECORD } from './records/app-record.ts'
import { recordColumns } from './records/kind.ts'

const POLL_MS = 250
/** How long a cached key is trusted after the start of the last poll of the epoch. A revocation thus takes at most 1 s. */
const TRUST_MS = 900
const CACHED_KEYS_MAX = 10_000
const TOUCH_MS = 10_000

/** A caller, and the origins that its browser calls are checked against. */
export interface KeyHolder extends Caller {
  /** The bound app's, for a publishable key. */
  allowedOrigins: readonly string[]
  /** The origins of the app's verified custom domains, which are allowed too. */
  domainOrigins?: readonly string[]
  name: string
}

/** Resolves API keys, from memory if that is as fresh as the database. */
export interface Authenticator {
  /**
   * Who holds this key; null for anything but an active key.
   * @throws Error when the key is not known here and the database is away
   */
  authenticate(key: string): Promise<KeyHolder | null>
  /** The same from memory: undefined when the database has to be asked. */
  authenticateNow(key: string): KeyHolder | null | undefined
  /** The same for the probes, which use the last known result if the database is unreachable. */
  authenticateProbe(key: string): Promise<KeyHolder | null>
  /** Clears the cache. Call it after a change of keys, apps or verified domains has committed. */
  forget(): void
  /** Changes with every `forget`, of this process or (within a second) another one. Other caches use it to clear themselves. */
  generation(): number
  /** Starts to follow the epoch that other processes raise. */
  start(): void
  stop(): Promise<void>
}

async function findKey(db: Db, hash: Buffer): Promise<KeyHolder | undefined> {
  const row = await readJoined<KeyHolder>(
    db,
    [API_KEY_RECORD, APP_RECORD],
    sql`
    select k.tenant_id as "tenantId", k.id as "keyId", k.name, k.type as "keyType", k.scopes, k.app_id as "appId",
      k.allowed_ips as "allowedIps", coalesce(a.allowed_origins, '{}') as "allowedOrigins",
      ${domainOrigins(sql`k.tenant_id`, sql`k.app_id`)} as "domainOrigins",
      floor(1000 * extract(epoch from
        case when k.hash = ${hash} then k.expires_at else least(k.expires_at, k.previous_until) end))::bigint as "expiresAtMs",
      ${recordColumns(API_KEY_RECORD, 'k')}, ${recordColumns(APP_RECORD, 'a')}
    from api_keys k left join apps a on a.tenant_id = k.tenant_id and a.id = k.app_id
    where (k.hash = ${hash} or k.previous_hash = ${hash}) and k.revoked_at is null`,
  )
  return row && withoutRecords(row)
}

/** Raises the epoch, in the transaction that changes keys, apps or verified domains: other processes drop what they cached. */
export async function raiseAuthEpoch(tx: Db): Promise<void> {
  await tx.run(sql`update auth_epoch set epoch = epoch + 1`)
}

/** Collects when keys were last used and stores it in the background: no request waits for it. */
function createUses(db: Db, log: Logger) {
  const used = new Map<string, { tenantId: string; atMs: number }>()
  return {
    record(key: Pick<Caller, 'tenantId' | 'keyId'>, atMs: number): void {
      used.set(key.keyId, { tenantId: key.tenantId, atMs })
    },
    async store(): Promise<void> {
      if (used.size === 0) return
      const rows = [...used].sort(([a], [b]) => (a < b ? -1 : 1))
      used.clear()
      // Locked rows are skipped: another process is writing an equally recent time, and waiting could deadlock.
      const touched = sql`
        with u as (
          select * from unnest(${rows.map(([, use]) => use.tenantId)}::text[], ${rows.map(([id]) => id)}::text[],
            ${rows.map(([, use]) => new Date(use.atMs))}::timestamptz[]) as u(tenant_id, id, at)),
        held as materialized (
          select k.tenant_id, k.id, u.at from api_keys k join u on u.tenant_id = k.tenant_id and u.id = k.id
          order by k.id for update of k skip locked)
        update api_keys k set last_used_at = held.at from held where k.tenant_id = held.tenant_id and k.id = held.id`
      await db.run(touched).catch((error: unknown) => log.warn({ err: error }, 'last use of API keys not stored'))
    },
  }
}

/** The keys that are known here. An app's origins are kept once for all its keys: both may be many. */
function createCache() {
  const keys = new LRUCache<string, KeyHolder>({ max: CACHED_KEYS_MAX })
  const origins = new Map<string, readonly string[]>()

  function shared(appId: string | null, list: readonly string[]): readonly string[] {
    if (appId === null || list.length === 0) return list
    const known = origins.get(appId)
    if (known?.length === list.length && known.every((one, at) => one === list[at])) return known
    origins.set(appId, list)
    return list
  }

  return {
    get: (key: string) => keys.get(key),
    set(key: string, found: KeyHolder): void {
      keys.set(key, Object.assign(found, { domainOrigins: shared(found.appId, found.domainOrigins ?? []) }))
    },
    clear(): void {
      keys.clear()
      origins.clear()
    },
  }
}

/** `now` is the wall clock, for expiry; trust in the cache is counted on the monotonic one. */
export function createAuthenticator(options: { db: Db; log: Logger; now(): Date }): Authenticator {
  const { db, log, now } = options
  const cache = createCache()
  const uses = createUses(db, log)
  let generation = 0
  let epoch = -1
  let trustedUntil = 0
  let touchTimer: NodeJS.Timeout | undefined

  const forget = () => {
    generation += 1
    cache.clear()
  }

  async function poll(): Promise<void> {
    const startedAt = performance.now()
    const row = await db.one<{ epoch: number }>(sql`select epoch from auth_epoch`)
    if (row !== undefined && row.epoch !== epoch) {
      epoch = row.epoch
      forget()
    }
    trustedUntil = startedAt + TRUST_MS
  }
  const poller = createPoller({ pauseMs: POLL_MS, work: poll, log, failure: 'API key epoch could not be read' })

  function live(found: KeyHolder): KeyHolder | null {
    const nowMs = now().getTime()
    if (found.expiresAtMs !== null && found.expiresAtMs <= nowMs) return null
    uses.record(found, nowMs)
    return found
  }

  async function lookUp(keyHash: Buffer, cacheKey: string): Promise<KeyHolder | null> {
    const before = generation
    const found = await findKey(db, keyHash)
    if (found === undefined) return null
    // A key read before a revocation committed must not be cached after it.
    if (before === generation) cache.set(cacheKey, found)
    return live(found)
  }

  function authenticateNow(key: string): KeyHolder | null | undefined {
    const cached = cache.get(hash('sha256', key, 'base64'))
    if (cached !== undefined && performance.now() < trustedUntil) return live(cached)
    return apiKeyType(key) === null ? null : undefined
  }

  async function resolve(key: string, trustStale: boolean): Promise<KeyHolder | null> {
    const now = authenticateNow(key)
    if (now !== undefined) return now
    const keyHash = apiKeyHash(key)
    const cacheKey = keyHash.toString('base64')
    const stale = cache.get(cacheKey)
    try {
      return await lookUp(keyHash, cacheKey)
    } catch (error) {
      if (trustStale && stale !== undefined) return live(stale)
      throw error
    }
  }

  return {
    authenticate: (key) => resolve(key, false),
    authenticateNow,
    authenticateProbe: (key) => resolve(key, true),
    forget,
    generation: () => generation,
    start() {
      poller.start()
      touchTimer = setInterval(() => void uses.store(), TOUCH_MS)
      touchTimer.unref()
    },
    async stop() {
      clearInterval(touchTimer)
      await poller.stop()
      await uses.store()
    },
  }
}
