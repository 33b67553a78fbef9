import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'

/** How long this process may miss another process's change. */
const TRUST_MS = 1_000
const ENTRIES_MAX = 10_000

/** A process's cache of one setting of apps, which saves a query for each call that depends on it. */
interface KnownSetting<Value> {
  /** The cached value, or what `read` finds. */
  of(tenantId: Id<'ten'>, appId: Id<'app'>, read: () => Promise<Value>): Promise<Value>
  /** Call it after the commit of a change. */
  forget(): void
}

function createKnownSetting<Value>(): KnownSetting<Value> {
  const entries = new LRUCache<string, { value: Value }>({ max: ENTRIES_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  let generation = 0
  return {
    async of(tenantId, appId, read) {
      const key = `${tenantId} ${appId}`
      const known = entries.get(key)
      if (known !== undefined) return known.value
      const [before, start] = [generation, performance.now()]
      const value = await read()
      // What was read before a change committed must not be cached after it.
      if (before === generation) entries.set(key, { value }, { start })
      return value
    },
    forget() {
      generation += 1
      entries.clear()
    },
  }
}

/**
 * The cache of a setting in each process, found by the authenticator, which stays the same object if `deps.db` is a transaction.
 */
export function knownSetting<Value>(): (deps: Pick<Deps, 'auth'>) => KnownSetting<Value> {
  const byProcess = new WeakMap<Authenticator, KnownSetting<Value>>()
  return ({ auth }) => {
    const known = byProcess.get(auth) ?? createKnownSetting<Value>()
    byProcess.set(auth, known)
    return known
  }
}
