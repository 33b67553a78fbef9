import { LRUCache } from 'lru-cache'
import type { Deps } from '../../../platform/deps.ts'
import type { Authenticator } from '../../../platform/security/authenticator.ts'
import * as store from './store.ts'

/** How long this process may miss another process's change. */
const TRUST_MS = 1_000
const APPS_MAX = 5_000

/** This process's cache of the issuers that apps trust, which saves a query for every exchange of a token. */
export interface KnownIssuers {
  of(deps: Deps, app: store.OfApp): Promise<readonly store.IssuerRow[]>
  /** Call it after the commit of a change of issuers. */
  forget(): void
}

function createKnownIssuers(): KnownIssuers {
  const entries = new LRUCache<string, readonly store.IssuerRow[]>({ max: APPS_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  let generation = 0
  return {
    async of(deps, app) {
      const key = `${app.tenantId} ${app.appId}`
      const known = entries.get(key)
      if (known !== undefined) return known
      const [before, start] = [generation, performance.now()]
      const rows = await store.issuersOf(deps.db, app)
      // Rows that were read before a change committed must not be cached after it.
      if (before === generation) entries.set(key, rows, { start })
      return rows
    },
    forget() {
      generation += 1
      entries.clear()
    },
  }
}

const byProcess = new WeakMap<Authenticator, KnownIssuers>()

/** The cache of this process, found by the authenticator, which stays the same object if `deps.db` is a transaction. */
export function knownIssuers(deps: Pick<Deps, 'auth'>): KnownIssuers {
  let known = byProcess.get(deps.auth)
  if (known === undefined) {
    known = createKnownIssuers()
    byProcess.set(deps.auth, known)
  }
  return known
}
