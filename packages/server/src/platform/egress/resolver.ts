// Names to addresses by c-ares. Never getaddrinfo: it runs on the thread pool, where four customers with name servers
// that hang would stop every other lookup, and file access with them.

import { Resolver } from 'node:dns/promises'
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import { DnsFailure } from './failure.ts'

const LOOKUP_TIMEOUT_MS = 5_000
/** How long the second family may hold up the first one's addresses. */
const SECOND_FAMILY_GRACE_MS = 1_000
const CACHE_MS_MAX = 5_000
const CACHE_ENTRIES_MAX = 4_096
/** More are a mistake or an attack; all that are kept are checked and one is used. */
const ADDRESSES_MAX = 64
const HOSTS_FILE_BYTES_MAX = 1024 * 1024

/** The addresses of `localhost` and the names below it. */
export const LOOPBACK = ['127.0.0.1', '::1']

/** The addresses of a name, IPv4 first, never empty. Frozen in time: a new answer is a new object. */
export interface Resolution {
  addresses: string[]
  /** on the monotonic clock, milliseconds */
  expiresAt: number
}

interface FamilyAnswer {
  addresses: string[]
  ttlSeconds: number
  failure: string | null
}

/** Resolves names of customers' hosts, with a cache of at most 5 s. */
export class HostResolver {
  readonly #resolver = new Resolver({ timeout: 1_500, tries: 3 })
  readonly #cache = new LRUCache<string, Resolution>({ max: CACHE_ENTRIES_MAX })
  readonly #flying = new Map<string, Promise<Resolution>>()
  readonly #hostsFile: HostsFile | null

  /** `servers` such as `127.0.0.1:5353`; none = the system's, and then /etc/hosts is read as well. */
  constructor(servers: string[]) {
    if (servers.length > 0) this.#resolver.setServers(servers)
    this.#hostsFile = servers.length > 0 ? null : new HostsFile('/etc/hosts')
  }

  get cachedNames(): number {
    return this.#cache.size
  }

  /** What is known now, without waiting. Null = ask `resolve`. */
  cached(name: string): Resolution | null {
    const hit = this.#cache.get(name)
    return hit && hit.expiresAt > performance.now() ? hit : null
  }

  /** Asks for both families, at most 5 s. @throws DnsFailure */
  resolve(name: string): Promise<Resolution> {
    const flying = this.#flying.get(name)
    if (flying) return flying
    const lookup = this.#lookup(name).finally(() => this.#flying.delete(name))
    this.#flying.set(name, lookup)
    return lookup
  }

  async #lookup(name: string): Promise<Resolution> {
    const local = isLocalhost(name) ? LOOPBACK : this.#hostsFile?.addressesOf(name)
    if (local && local.length > 0) return this.#remember(name, local, CACHE_MS_MAX)

    // c-ares backs off between its tries, so its own limit lies well past ours.
    const v4 = within(this.#ask(name, 4), LOOKUP_TIMEOUT_MS)
    const v6 = within(this.#ask(name, 6), LOOKUP_TIMEOUT_MS)
    const first = await Promise.race([v4, v6])
    // A name server that drops AAAA questions must not cost five seconds at each send.
    const patienceMs = first.addresses.length > 0 ? SECOND_FAMILY_GRACE_MS : LOOKUP_TIMEOUT_MS
    const answers = await Promise.all([within(v4, patienceMs), within(v6, patienceMs)])

    const addresses = answers.flatMap((answer) => answer.addresses)
    if (addresses.length === 0) {
      throw new DnsFailure(answers.find((answer) => answer.failure !== null)?.failure ?? 'dns: not found')
    }
    const answered = answers.filter((answer) => answer.addresses.length > 0)
    return this.#remember(name, addresses, Math.min(...answered.map((answer) => answer.ttlSeconds * 1_000)))
  }

  async #ask(name: string, family: 4 | 6): Promise<FamilyAnswer> {
    try {
      const query =
        family === 4 ? this.#resolver.resolve4.bind(this.#resolver) : this.#resolver.resolve6.bind(this.#resolver)
      const records = await query(name, { ttl: true })
      return {
        addresses: records.map((record) => record.address),
        ttlSeconds: Math.min(...records.map((record) => record.ttl)),
        failure: null,
      }
    } catch (error) {
      return { addresses: [], ttlSeconds: 0, failure: failureOf(error) }
    }
  }

  #remember(name: string, addresses: string[], lifetimeMs: number): Resolution {
    // Refuse rather than cut: an address that is not looked at could be the private one.
    if (addresses.length > ADDRESSES_MAX) throw new DnsFailure('dns: too many addresses')
    const resolution = { addresses, expiresAt: performance.now() + Math.min(lifetimeMs, CACHE_MS_MAX) }
    this.#cache.set(name, resolution)
    return resolution
  }
}

/** /etc/hosts, read again when it changed. */
class HostsFile {
  readonly #path: string
  #readAtMtimeMs = -1
  #addresses = new Map<string, string[]>()

  constructor(path: string) {
    this.#path = path
  }

  addressesOf(name: string): string[] | undefined {
    const stat = statSync(this.#path, { throwIfNoEntry: false })
    if (!stat || stat.size > HOSTS_FILE_BYTES_MAX) return undefined
    if (stat.mtimeMs !== this.#readAtMtimeMs) {
      this.#addresses = parseHosts(readFileSync(this.#path, 'utf8'))
      this.#readAtMtimeMs = stat.mtimeMs
    }
    return this.#addresses.get(name)
  }
}

function parseHosts(text: string): Map<string, string[]> {
  const addresses = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address, ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/)
    if (!address || isIP(address) === 0) continue
    for (const name of names) {
      const known = addresses.get(name) ?? []
      // IPv4 first, as everywhere.
      addresses.set(name, isIP(address) === 4 ? [address, ...known] : [...known, address])
    }
  }
  return addresses
}

/** RFC 6761, section 6.3: these names are loopback and are never asked for. */
export function isLocalhost(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost')
}

/** Null = the name has no address of this family, which is not a failure of the lookup. */
function failureOf(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code === 'ENOTFOUND' || code === 'ENODATA') return null
  return code === 'ETIMEOUT' ? 'dns: timeout' : 'dns: server failure'
}

async function within(answer: Promise<FamilyAnswer>, timeoutMs: number): Promise<FamilyAnswer> {
  const { promise, resolve } = Promise.withResolvers<FamilyAnswer>()
  const timer = setTimeout(resolve, timeoutMs, { addresses: [], ttlSeconds: 0, failure: 'dns: timeout' })
  try {
    return await Promise.race([answer, promise])
  } finally {
    clearTimeout(timer)
  }
}
