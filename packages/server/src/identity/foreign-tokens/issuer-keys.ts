import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { Egress } from '../../platform/egress/egress.ts'
import type { Id } from '../../platform/ids.ts'
import type { IssuerRow } from '../../tenancy/apps/issuers/service.ts'
import { type IssuerKey, keyFor, readKeySet } from './key-set.ts'

const TIMEOUT_MS = 5_000
const BYTES_MAX = 64 * 1024
/** Between two fetches for one issuer at least, whatever tokens come: also after a failure. */
export const FLOOR_MS = 10_000
/** Keys older than this are fetched again, while the old ones go on. */
export const REFRESH_MS = 10 * 60_000
/** Keys older than this verify nothing: an issuer takes a stolen key out of its set. */
export const KEEP_MS = 60 * 60_000
/** Issuers whose keys are kept, of all tenants. */
const ISSUERS_MAX = 1_000

/** Whose keys, and where they are: at `jwks_uri`, or where the metadata at `discovery` says. `id` names the record. */
export type KeySource = Pick<IssuerRow, 'issuer' | 'jwks_uri' | 'discovery'> & { id: Id; app_id: Id<'app'> | null }

/** A token's header, as far as it names a key. */
export interface KeyName {
  alg: string
  kid: string | undefined
}

interface Entry {
  keys: readonly IssuerKey[]
  /** On the monotonic clock, milliseconds. Null: never. */
  fetchedAt: number | null
  attemptedAt: number | null
  /** At most one fetch at a time. */
  fetching: Promise<void> | null
}

type Fetched = { value: unknown } | { problem: string }

/** What a fetch needs of the process. */
type Fetcher = Pick<Deps, 'egress' | 'config' | 'log'>

async function fetchJson({ egress, config }: Fetcher, url: string): Promise<Fetched> {
  const headers = { accept: 'application/json' }
  const timeoutMs = Math.min(TIMEOUT_MS, config.webhookTimeoutMs)
  const { ok, error, answer } = await egress.get({ url, headers, timeoutMs, keepsAnswer: true })
  if (!ok) return { problem: error ?? 'failed' }
  // What is longer is cut, and may still be JSON.
  if (answer === undefined || answer.length > BYTES_MAX) return { problem: `more than ${BYTES_MAX} bytes` }
  try {
    return { value: JSON.parse(answer.toString()) }
  } catch {
    return { problem: 'not JSON' }
  }
}

/** Where the keys are, according to the issuer's metadata (RFC 8414, section 3.3: it must name this very issuer). */
async function discover(deps: Fetcher, url: string, issuer: string): Promise<Fetched> {
  const fetched = await fetchJson(deps, url)
  if ('problem' in fetched) return fetched
  const metadata = (fetched.value ?? {}) as { issuer?: unknown; jwks_uri?: unknown }
  if (metadata.issuer !== issuer) return { problem: 'the metadata names another issuer' }
  if (typeof metadata.jwks_uri !== 'string') return { problem: 'the metadata has no jwks_uri' }
  return fetchJson(deps, metadata.jwks_uri)
}

async function fetchKeys(deps: Fetcher, row: KeySource): Promise<readonly IssuerKey[] | string> {
  const fetched =
    row.discovery === null ? await fetchJson(deps, row.jwks_uri ?? '') : await discover(deps, row.discovery, row.issuer)
  if ('problem' in fetched) return fetched.problem
  return readKeySet(fetched.value) ?? 'not a JWK Set with a key for signatures'
}

const isOlder = (at: number | null, ms: number) => at === null || performance.now() - at >= ms

/** Public keys of trusted issuers, in this process. */
export interface IssuerKeys {
  /**
   * Gets the key that a token names, if it is not there: with one request for any number of tokens and, counted from the
   * last one, not before the floor. Never throws. Waits only if it is needed. Call it outside a transaction.
   */
  prepare(deps: Fetcher, row: KeySource, name: KeyName): Promise<void>
  /** The key among those that are there. `unavailable`: there are none, or only ones that are too old. */
  find(row: KeySource, name: KeyName): ReturnType<typeof keyFor> | 'unavailable'
}

function createIssuerKeys(): IssuerKeys {
  const entries = new LRUCache<string, Entry>({ max: ISSUERS_MAX })
  // Another address of the keys means other keys.
  const keyOf = (row: KeySource) => `${row.id} ${row.jwks_uri ?? ''} ${row.discovery ?? ''}`

  function entryOf(row: KeySource): Entry {
    const known = entries.get(keyOf(row))
    if (known !== undefined) return known
    const entry: Entry = { keys: [], fetchedAt: null, attemptedAt: null, fetching: null }
    entries.set(keyOf(row), entry)
    return entry
  }

  async function fetchInto(entry: Entry, deps: Fetcher, row: KeySource) {
    try {
      const keys = await fetchKeys(deps, row)
      if (typeof keys === 'string') {
        deps.log.warn(
          { issuerId: row.id, appId: row.app_id, problem: keys },
          'the keys of an issuer could not be fetched',
        )
        return
      }
      entry.keys = keys
      entry.fetchedAt = performance.now()
    } finally {
      entry.fetching = null
    }
  }

  return {
    async prepare(deps, row, name) {
      const entry = entryOf(row)
      const isUsable = !isOlder(entry.fetchedAt, KEEP_MS) && keyFor(entry.keys, name) !== undefined
      if (isUsable && !isOlder(entry.fetchedAt, REFRESH_MS)) return
      if (entry.fetching === null && isOlder(entry.attemptedAt, FLOOR_MS)) {
        entry.attemptedAt = performance.now()
        entry.fetching = fetchInto(entry, deps, row)
      }
      if (!isUsable) await entry.fetching
    },
    find(row, name) {
      const { keys, fetchedAt } = entryOf(row)
      return isOlder(fetchedAt, KEEP_MS) ? 'unavailable' : keyFor(keys, name)
    },
  }
}

const byProcess = new WeakMap<Egress, IssuerKeys>()

/** The keys that this process knows. */
export function issuerKeys({ egress }: Pick<Deps, 'egress'>): IssuerKeys {
  let known = byProcess.get(egress)
  if (known === undefined) {
    known = createIssuerKeys()
    byProcess.set(egress, known)
  }
  return known
}
