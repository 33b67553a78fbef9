// From a customer's URL to the checked addresses it may be sent to, at every send.
import { LRUCache } from 'lru-cache'
import type { Route } from './connections.ts'
import type { AddressPolicy } from './policy.ts'
import type { HostResolver, Resolution } from './resolver.ts'
import { assertReachable, parseTarget, type Target } from './target.ts'

const TARGETS_MAX = 4_096
/** Addresses tried in one send. */
const ROUTES_MAX = 4

/** Where one send may go: the path, and the checked addresses in the order to try them. */
export interface Plan {
  path: string
  routes: Route[]
}

interface KnownTarget {
  target: Target
  /** the plan for `resolution`, or for the literal address when that is null */
  plan: Plan | null
  resolution: Resolution | null
}

/** Parsing and judging a URL is pure, so its outcome is kept; which addresses a name has now is asked anew each time. */
export class Router {
  readonly #policy: AddressPolicy
  readonly #resolver: HostResolver
  readonly #known = new LRUCache<string, KnownTarget>({
    max: TARGETS_MAX,
    memoMethod: (url) => ({ target: parseTarget(url, this.#policy), plan: null, resolution: null }),
  })

  constructor(policy: AddressPolicy, resolver: HostResolver) {
    this.#policy = policy
    this.#resolver = resolver
  }

  /** Answers at once for literal addresses and names in the cache. @throws EgressRefused, DnsFailure (or rejects with) */
  plan(url: string): Plan | Promise<Plan> {
    const known = this.#known.memo(url)
    if (known.target.isLiteral) return known.plan ?? this.#planFor(known, null)
    const resolution = this.#resolver.cached(known.target.host)
    if (!resolution) return this.#resolver.resolve(known.target.host).then((fresh) => this.#planFor(known, fresh))
    return known.plan && known.resolution === resolution ? known.plan : this.#planFor(known, resolution)
  }

  #planFor(known: KnownTarget, resolution: Resolution | null): Plan {
    const { target } = known
    const addresses = resolution ? resolution.addresses : [target.host]
    assertReachable(target, addresses, this.#policy)
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
