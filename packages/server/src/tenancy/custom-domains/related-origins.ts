import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { type Config, publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import * as store from './store.ts'

/** Browsers read only a few sites (WebAuthn L3, section 5.11). */
const ORIGINS_MAX = 100
const TRUST_MS = 5_000
/** How long others may cache a response: a domain that is no longer verified must be gone within a second. */
const SHARED_SECONDS = 1
const HOSTS_MAX = 1_000

/** This process's cache by relying party. The endpoint is public, so anybody can call it often. */
const known = new WeakMap<Config, LRUCache<string, Entry>>()

interface Entry {
  origins: Promise<string[]>
  /** The entry is stale after a change of an app or a domain, which raises the generation. */
  generation: number
}

const rpIdOf = (host: string | undefined) =>
  host === undefined ? null : (URL.parse(`http://${host}`)?.hostname ?? null)

function find(deps: Deps, rpId: string): Promise<string[]> {
  return store.listRelatedOrigins(deps.db, {
    rpId,
    isDefault: rpId === new URL(publicUrl(deps.config)).hostname,
    prefix: deps.config.env === 'development' ? 'http' : 'https://',
    limit: ORIGINS_MAX,
  })
}

/** The other origins where the passkeys of a relying party may be used, in the order of the response. */
export function relatedOrigins(deps: Deps, rpId: string): Promise<string[]> {
  const entries =
    known.get(deps.config) ?? new LRUCache<string, Entry>({ max: HOSTS_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  known.set(deps.config, entries)
  const entry = entries.get(rpId)
  const generation = deps.auth.generation()
  if (entry?.generation === generation) return entry.origins
  const origins = find(deps, rpId)
  entries.set(rpId, { origins, generation })
  // Errors are not cached.
  origins.catch(() => entries.delete(rpId))
  return origins
}

/** The other origins where passkeys of the host's relying party may be used: `{"origins": […]}`. */
export async function relatedOriginsOf(deps: Deps, { host }: PlainRequest): Promise<PlainAnswer> {
  const rpId = rpIdOf(host)
  const origins = rpId === null ? [] : await relatedOrigins(deps, rpId)
  return {
    status: 200,
    contentType: 'application/json',
    headers: { 'cache-control': `public, max-age=${SHARED_SECONDS}` },
    body: JSON.stringify({ origins }),
  }
}

/** The most passkeys that are counted. */
const COUNTED_MAX = 100_000
const RELYING_PARTIES_MAX = 20
/** Counting many passkeys takes a tenth of a second: counts get few connections, and concurrent calls share one count. */
const COUNTS_AT_ONCE = 2

type Counts = Promise<{ rpId: string; count: number }[]>

function createCounts() {
  const flying = new Map<Id<'app'>, Counts>()
  const inSlot = pLimit(COUNTS_AT_ONCE)
  return (deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Counts => {
    const known = flying.get(appId)
    if (known !== undefined) return known
    const bounds = { counted: COUNTED_MAX, limit: RELYING_PARTIES_MAX }
    const counts = inSlot(() => store.countByRelyingParty(deps.db, tenantId, appId, bounds)).finally(() =>
      flying.delete(appId),
    )
    flying.set(appId, counts)
    return counts
  }
}

const counting = new WeakMap<Config, ReturnType<typeof createCounts>>()

/** How many of an app's passkeys belong to each relying party, the largest count first. At most 100 000 are counted. */
export function passkeysByRelyingParty(deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Counts {
  const count = counting.get(deps.config) ?? createCounts()
  counting.set(deps.config, count)
  return count(deps, tenantId, appId)
}
