import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'
import { type EventTypeRow, findByName } from './store.ts'

/** How long this process may miss another process's change. */
const TRUST_MS = 1_000
/** Of the schemas' text, and a little for each type. */
const CACHE_CHARS_MAX = 32 * 1024 * 1024
const TYPE_CHARS = 500

/** A type, as an event of it needs it. */
interface KnownType {
  id: Id<'ety'>
  status: EventTypeRow['status']
  /** As JSON; null where any object is valid. */
  schema: string | null
}

/** A type's name in its app. */
interface TypeRef {
  appId: Id<'app'>
  name: string
}

/** This process's cache of event types, which saves a query for every event. */
interface KnownTypes {
  /** The types, in this order; undefined for one that does not exist. One query for all that are not cached. */
  find(deps: Deps, tenantId: Id<'ten'>, refs: readonly TypeRef[]): Promise<(KnownType | undefined)[]>
  /** Call it after the commit of a change. */
  forget(): void
}

const keyOf = (tenantId: string, appId: string, name: string) => `${tenantId} ${appId} ${name}`

function createKnownTypes(): KnownTypes {
  const entries = new LRUCache<string, KnownType>({
    maxSize: CACHE_CHARS_MAX,
    sizeCalculation: ({ schema }) => TYPE_CHARS + (schema?.length ?? 0),
    ttl: TRUST_MS,
    ttlResolution: 0,
  })
  let generation = 0
  return {
    async find(deps, tenantId, refs) {
      const keys = refs.map(({ appId, name }) => keyOf(tenantId, appId, name))
      const found = new Map(keys.map((key) => [key, entries.get(key)]))
      const missing = refs.filter((_, at) => found.get(keys[at] as string) === undefined)
      if (missing.length > 0) {
        const [before, start] = [generation, performance.now()]
        for (const { app_id, name, ...type } of await findByName(deps.db, tenantId, missing)) {
          const key = keyOf(tenantId, app_id, name)
          found.set(key, type)
          // A row that was read before a change committed must not be cached after it.
          if (before === generation) entries.set(key, type, { start })
        }
      }
      return keys.map((key) => found.get(key))
    },
    forget() {
      generation += 1
      entries.clear()
    },
  }
}

const byProcess = new WeakMap<Authenticator, KnownTypes>()

/** The cache of this process, found by the authenticator, which stays the same object if `deps.db` is a transaction. */
export function knownTypes(deps: Pick<Deps, 'auth'>): KnownTypes {
  const known = byProcess.get(deps.auth) ?? createKnownTypes()
  byProcess.set(deps.auth, known)
  return known
}
