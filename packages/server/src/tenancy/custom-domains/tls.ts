import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import type { Deps } from '../../platform/deps.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import type { Authenticator } from '../../platform/security/authenticator.ts'
import { ownHosts } from './service.ts'
import * as store from './store.ts'

const TRUST_MS = 5_000
const ENTRIES_MAX = 10_000
/** A proxy asks for each TLS connection with an invented name: such queries get few connections and a bounded queue. */
const QUERIES_AT_ONCE = 2
const WAITING_MAX = 500
const NAME = /^[a-z0-9.-]{1,253}$/

/** The process's cache of verified names. */
function createKnown(auth: Authenticator) {
  const entries = new LRUCache<string, Promise<boolean>>({ max: ENTRIES_MAX, ttl: TRUST_MS, ttlResolution: 0 })
  const inSlot = pLimit(QUERIES_AT_ONCE)
  let generation = auth.generation()
  let waiting = 0

  async function ask(deps: Deps, domain: string): Promise<boolean> {
    waiting += 1
    try {
      return await inSlot(() => store.isVerified(deps.db, domain))
    } finally {
      waiting -= 1
    }
  }

  return (deps: Deps, domain: string): Promise<boolean> => {
    if (generation !== auth.generation()) {
      generation = auth.generation()
      entries.clear()
    }
    const known = entries.get(domain)
    if (known !== undefined) return known
    if (waiting >= WAITING_MAX) return Promise.resolve(false)
    const allowed = ask(deps, domain)
    entries.set(domain, allowed)
    // Errors are not cached.
    allowed.catch(() => entries.delete(domain))
    return allowed
  }
}

const byProcess = new WeakMap<Authenticator, ReturnType<typeof createKnown>>()

function isVerified(deps: Deps, domain: string): Promise<boolean> {
  let known = byProcess.get(deps.auth)
  if (known === undefined) {
    known = createKnown(deps.auth)
    byProcess.set(deps.auth, known)
  }
  return known(deps, domain)
}

const answer = (allowed: boolean): PlainAnswer => ({
  status: allowed ? 200 : 404,
  contentType: 'text/plain; charset=utf-8',
  headers: { 'cache-control': 'no-store' },
  body: allowed ? 'yes\n' : 'no\n',
})

/** Whether a TLS proxy may get a certificate for `?domain=`: 200 for a verified domain and the service's own host, else 404. */
export async function tlsAllowed(deps: Deps, { queryText }: PlainRequest): Promise<PlainAnswer> {
  const [given, ...others] = new URLSearchParams(queryText).getAll('domain')
  const domain = given?.toLowerCase().replace(/\.$/, '')
  if (domain === undefined || others.length > 0 || !NAME.test(domain)) return answer(false)
  return answer(ownHosts(deps).includes(domain) || (await isVerified(deps, domain)))
}
