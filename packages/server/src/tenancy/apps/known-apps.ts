import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'

/** How long another process's change may go unseen. */
const TRUST_MS = 1_000
const ENTRIES_MAX = 10_000

interface Entry<T> {
  value: T
  untilMs: number
}

/** What this process knows of apps without asking the database: spares every creation of a user a query. */
export interface KnownApps {
  has(tenantId: Id<'ten'>, appId: string): boolean
  defaultOf(tenantId: Id<'ten'>): Id<'app'> | undefined
  /** Reads, and remembers what was found unless something changed meanwhile. Undefined is not remembered. */
  learn(
    tenantId: Id<'ten'>,
    read: () => Promise<Id<'app'> | undefined>,
    as: 'app' | 'default',
  ): Promise<Id<'app'> | undefined>
  /** To be called once a change of apps or of the default app has committed. */
  forget(): void
}

function createKnownApps(): KnownApps {
  const entries = new Map<string, Entry<Id<'app'>>>()
  let generation = 0
  const recall = (key: string) => {
    const entry = entries.get(key)
    return entry !== undefined && performance.now() < entry.untilMs ? entry.value : undefined
  }
  return {
    has: (tenantId, appId) => recall(`${tenantId} ${appId}`) !== undefined,
    defaultOf: (tenantId) => recall(tenantId),
    async learn(tenantId, read, as) {
      const [before, startedAtMs] = [generation, performance.now()]
      const appId = await read()
      // What was read before a change committed must not be remembered after it.
      if (appId === undefined || before !== generation) return appId
      const key = as === 'default' ? tenantId : `${tenantId} ${appId}`
      entries.delete(key)
      if (entries.size >= ENTRIES_MAX) entries.delete(entries.keys().next().value as string)
      entries.set(key, { value: appId, untilMs: startedAtMs + TRUST_MS })
      return appId
    },
    forget() {
      generation += 1
      entries.clear()
    },
  }
}

const byProcess = new WeakMap<Authenticator, KnownApps>()

/** The process's own. Found by the authenticator, which stays the same object where `deps.db` is a transaction. */
export function knownApps(deps: Pick<Deps, 'auth'>): KnownApps {
  let known = byProcess.get(deps.auth)
  if (known === undefined) {
    known = createKnownApps()
    byProcess.set(deps.auth, known)
  }
  return known
}
