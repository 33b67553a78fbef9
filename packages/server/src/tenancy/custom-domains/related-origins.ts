import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { type Config, publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import * as store from './store.ts'

/** Browsers look at a handful of sites at most (WebAuthn L3, section 5.11). */
const ORIGINS_MAX = 100
const TRUST_MS = 5_000
/** How long others may remember an answer: a domain that is no longer verified is to be gone within a second. */
const SHARED_SECONDS = 1
const HOSTS_MAX = 1_000

/** What this process knows without asking the database, by relying party: whoever knows the address may ask, often. */
const known = new WeakMap<Config, LRUCache<string, Entry>>()

interface Entry {
  origins: Promise<string[]>
  /** Before the change of an app or a domain that followed. */
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

/** Where else the passkeys of a relying party may be used, in the order in which browsers are told. */
export function relatedOrigins(deps: Deps, rpId: string): Promise<string[]> {
  const entries =
    known.get(deps.config) ?? new LRUCache<string, Entry>({ max: HOSTS_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  known.set(deps.config, entries)
  const entry = entries.get(rpId)
  const generation = deps.auth.generation()
  if (entry?.generation === generation) return entry.origins
  const origins = find(deps, rpId)
  entries.set(rpId, { origins, generation })
  // A failure is for whoever is waiting; the next one asks again.
  origins.catch(() => entries.delete(rpId))
  return origins
}

/** Where else the passkeys of the relying party that the host names may be used: `{"origins": […]}`. */
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

/** How many of them are counted. */
const COUNTED_MAX = 100_000
const RELYING_PARTIES_MAX = 20
/** A count of many takes a tenth of a second: together they get few connections, and who asks meanwhile gets the same answer. */
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

/** How many of an app's passkeys belong to which relying party, the most first. Of more than 100 000 some are left out. */
export function passkeysByRelyingParty(deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Counts {
  const count = counting.get(deps.config) ?? createCounts()
  counting.set(deps.config, count)
  return count(deps, tenantId, appId)
}
