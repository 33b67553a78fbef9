import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'

/** How long this process may miss another process's change. */
const TRUST_MS = 1_000
const ENTRIES_MAX = 10_000

/** This process's cache of apps, which saves a query for every creation of a user. */
export interface KnownApps {
  has(tenantId: Id<'ten'>, appId: string): boolean
  defaultOf(tenantId: Id<'ten'>): Id<'app'> | undefined
  /** Reads, and caches the result unless something changed meanwhile. Undefined is not cached. */
  learn(
    tenantId: Id<'ten'>,
    read: () => Promise<Id<'app'> | undefined>,
    as: 'app' | 'default',
  ): Promise<Id<'app'> | undefined>
  /** Call it after the commit of a change of apps or of the default app. */
  forget(): void
}

function createKnownApps(): KnownApps {
  const entries = new LRUCache<string, Id<'app'>>({ max: ENTRIES_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  let generation = 0
  return {
    has: (tenantId, appId) => entries.has(`${tenantId} ${appId}`),
    defaultOf: (tenantId) => entries.get(tenantId),
    async learn(tenantId, read, as) {
      const [before, start] = [generation, performance.now()]
      const appId = await read()
      // A value that was read before a change committed must not be cached after it.
      if (appId === undefined || before !== generation) return appId
      entries.set(as === 'default' ? tenantId : `${tenantId} ${appId}`, appId, { start })
      return appId
    },
    forget() {
      generation += 1
      entries.clear()
    },
  }
}

const byProcess = new WeakMap<Authenticator, KnownApps>()

/** The cache of this process, found by the authenticator, which stays the same object if `deps.db` is a transaction. */
export function knownApps(deps: Pick<Deps, 'auth'>): KnownApps {
  let known = byProcess.get(deps.auth)
  if (known === undefined) {
    known = createKnownApps()
    byProcess.set(deps.auth, known)
  }
  return known
}
