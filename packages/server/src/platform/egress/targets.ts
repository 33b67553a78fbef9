// From a customer's URL to the checked addresses it may be sent to, at every send.
import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import type { Route } from './connections.ts'
import { type AddressPolicy, EgressRefused, isHostName, isMetadataHost, type Verdict } from './policy.ts'
import { type HostResolver, isLocalhost, LOOPBACK, type Resolution } from './resolver.ts'

const TARGETS_MAX = 4_096
/** Addresses tried in one send. */
const ROUTES_MAX = 4

const URL_LENGTH_MAX = 2048

// WHATWG fetch, section 2.9 "port blocking": ports where a POST would be read as another protocol.
const BAD_PORTS = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
])

/** A URL that passed every check that needs no name resolution. */
interface Target {
  https: boolean
  /** scheme, host and port as undici wants them; the Host header follows from it */
  origin: string
  /** path and query; a fragment is never sent */
  path: string
  /** lower case, no brackets, no trailing dot */
  host: string
  /** `host` is an address, canonical as the WHATWG parser writes it, whatever notation the customer used */
  isLiteral: boolean
  /** the operator's list holds this very host */
  hostListed: boolean
}

/** Reads and checks a customer's URL. @throws EgressRefused */
function parseTarget(text: string, policy: AddressPolicy): Target {
  if (text.length > URL_LENGTH_MAX) throw new EgressRefused(`the URL is longer than ${URL_LENGTH_MAX} characters`)
  const url = URL.parse(text)
  if (!url) throw new EgressRefused('not a valid URL')
  const https = url.protocol === 'https:'
  if (!https && url.protocol !== 'http:') throw new EgressRefused('the URL must use https')
  if (url.username !== '' || url.password !== '')
    throw new EgressRefused('the URL must not contain a user name or password')
  if (url.port !== '' && BAD_PORTS.has(Number(url.port))) throw new EgressRefused(`port ${url.port} is not allowed`)

  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  const isLiteral = isIP(host) !== 0
  if (!isLiteral && !isHostName(host)) throw new EgressRefused('not a valid host name')
  if (isMetadataHost(host)) throw new EgressRefused('the host is not allowed')
  const hostListed = policy.listsHost(host)
  if (!https && !hostListed && !policy.opensPlaintext) throw new EgressRefused('the URL must use https')
  return { https, origin: url.origin, path: url.pathname + url.search, host, isLiteral, hostListed }
}

/** Lets the addresses of a target's host pass only if each of them may be reached. @throws EgressRefused */
function assertReachable(target: Target, addresses: string[], policy: AddressPolicy): void {
  const verdicts = addresses.map((address): Verdict => policy.judge(address, target.hostListed))
  // One refused address refuses the name: otherwise a rebinding name gets a fresh draw at each send.
  if (verdicts.includes('refused')) throw new EgressRefused('the host is not on the public internet')
  if (!target.https && verdicts.includes('https')) throw new EgressRefused('the URL must use https')
}

/** Where the proxy resolves names, its own list decides about addresses. @throws EgressRefused */
function assertNameAllowed(target: Target, policy: AddressPolicy): void {
  if (isLocalhost(target.host)) assertReachable(target, LOOPBACK, policy)
  else if (!target.https && !target.hostListed) throw new EgressRefused('the URL must use https')
}

/** Where one send may go: the path, and the checked addresses in the order to try them. */
export interface Plan {
  path: string
  routes: Route[]
}

interface KnownTarget {
  target: Target
  /** the plan for `resolution`, or for the literal address or the unresolved name when that is null */
  plan: Plan | null
  resolution: Resolution | null
}

/** Parsing and judging a URL is pure, so its outcome is cached; the addresses of a name are resolved each time. */
export class Router {
  readonly #policy: AddressPolicy
  readonly #resolver: HostResolver
  readonly #known = new LRUCache<string, KnownTarget>({
    max: TARGETS_MAX,
    memoMethod: (url) => ({ target: parseTarget(url, this.#policy), plan: null, resolution: null }),
  })

  readonly #proxyResolves: boolean

  /** `proxyResolves`: names are not resolved here but by the forward proxy. */
  constructor(policy: AddressPolicy, resolver: HostResolver, proxyResolves = false) {
    this.#policy = policy
    this.#resolver = resolver
    this.#proxyResolves = proxyResolves
  }

  /** Answers at once for literal addresses and names in the cache. @throws EgressRefused, DnsFailure (or rejects with) */
  plan(url: string): Plan | Promise<Plan> {
    const known = this.#known.memo(url)
    if (known.target.isLiteral || this.#proxyResolves) return known.plan ?? this.#planFor(known, null)
    const resolution = this.#resolver.cached(known.target.host)
    if (!resolution) return this.#resolver.resolve(known.target.host).then((fresh) => this.#planFor(known, fresh))
    return known.plan && known.resolution === resolution ? known.plan : this.#planFor(known, resolution)
  }

  #planFor(known: KnownTarget, resolution: Resolution | null): Plan {
    const { target } = known
    const addresses = resolution ? resolution.addresses : [target.host]
    if (resolution === null && !target.isLiteral) assertNameAllowed(target, this.#policy)
    else assertReachable(target, addresses, this.#policy)
    const servername = target.https && !target.isLiteral ? target.host : null
    known.plan = {
      path: target.path,
      routes: addresses.slice(0, ROUTES_MAX).map((address) => ({
        key: `${target.origin} ${address}`,
        origin: target.origin,
        address,
        servername,
      })),
    }
    known.resolution = resolution
    return known.plan
  }
}
