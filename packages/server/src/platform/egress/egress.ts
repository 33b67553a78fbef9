// The guard: the one module for every outbound call whose address a customer chose (docs: webhook delivery, "The guard").
import { Connections } from './connections.ts'
import { DnsFailure, OVERLOADED, SHUTTING_DOWN } from './failure.ts'
import { AddressPolicy } from './policy.ts'
import type { ForwardProxy } from './proxy.ts'
import { HostResolver } from './resolver.ts'
import { type Method, Send, type SendRequest, type SendResult } from './send.ts'
import { Router } from './targets.ts'

export { isOwnFailure } from './failure.ts'
export { EgressRefused } from './policy.ts'
export type { SendRequest, SendResult }

/** The caller's slots bound the sends; this only keeps a caller that has none from exhausting file descriptors. */
const SENDS_MAX = 8_192

/** The operator's side of the guard. */
export interface EgressOptions {
  /**
   * What lies open besides the public internet by https: a CIDR (`10.0.0.0/8`) opens its addresses to https: and http:,
   * a host name (`hooks.internal`) opens private addresses and http: for that exact host. Neither opens metadata services.
   */
  allow: string[]
  /** development: loopback receivers, and http: to them */
  allowLoopback: boolean
  /** such as `127.0.0.1:5353`; empty = the system's, with /etc/hosts */
  dnsServers: string[]
  /** PEM certificates of authorities trusted besides the system's */
  ca?: string
  /** what every send goes through; none without */
  proxy?: ForwardProxy | null
  /** the proxy resolves names, and decides by a list of its own which addresses it reaches */
  proxyResolves?: boolean
}

/** The guard's current usage, for metrics and for tests of its limits. */
interface EgressStats {
  sendsInFlight: number
  connectionsOpen: number
  connectionsIdle: number
  namesCached: number
}

/**
 * Sends to addresses that customers chose, but never to internal ones. With `publicOnly`, the operator's list opens nothing:
 * for addresses that the customers of a tenant chose.
 */
export interface Egress {
  /** The check when a URL is stored. A name that does not resolve passes: each send checks again. @throws EgressRefused */
  assertAllowed(url: string, publicOnly?: boolean): Promise<void>
  /** Sends one POST, after checking the URL again. Follows no redirects and never throws. Settles within `timeoutMs` and a little slack. */
  post(request: SendRequest): Promise<SendResult>
  /** The same with PUT. */
  put(request: SendRequest): Promise<SendResult>
  /** The same with GET. */
  get(request: Omit<SendRequest, 'body'>): Promise<SendResult>
  stats(): EgressStats
  /** Refuses further sends, ends those in flight with error `shutting down`, and closes all connections. */
  close(): Promise<void>
}

/** Builds the guard. It reads no proxy from the environment. @throws Error for an entry of `allow` that can't be read */
export function createEgress(options: EgressOptions): Egress {
  const resolver = new HostResolver(options.dnsServers)
  const routerFor = (allow: string[]) =>
    new Router(new AddressPolicy(allow, options.allowLoopback), resolver, options.proxyResolves)
  const [listed, unlisted] = [routerFor(options.allow), routerFor([])]
  const connections = new Connections(options.ca, options.proxy)
  const sends = new Set<Send>()
  let isClosed = false

  function send(method: Method, request: SendRequest): Promise<SendResult> {
    if (isClosed) return Promise.resolve(notSent(SHUTTING_DOWN))
    if (sends.size >= SENDS_MAX) return Promise.resolve(notSent(OVERLOADED))
    return new Promise((resolve) => {
      const router = request.publicOnly === true ? unlisted : listed
      const begun = new Send(connections, router, method, request, (result, settled) => {
        sends.delete(settled)
        resolve(result)
      })
      sends.add(begun)
      begun.start()
    })
  }

  return {
    async assertAllowed(url, publicOnly = false) {
      try {
        await (publicOnly ? unlisted : listed).plan(url)
      } catch (error) {
        if (!(error instanceof DnsFailure)) throw error
      }
    },

    post: (request) => send('POST', request),
    put: (request) => send('PUT', request),
    get: (request) => send('GET', { ...request, body: '' }),

    stats: () => ({
      sendsInFlight: sends.size,
      connectionsOpen: connections.open,
      connectionsIdle: connections.idle,
      namesCached: resolver.cachedNames,
    }),

    async close() {
      isClosed = true
      for (const send of sends) send.cut(SHUTTING_DOWN)
      await connections.close()
    },
  }
}

function notSent(error: string): SendResult {
  return { ok: false, statusCode: null, error, responseSnippet: null, durationMs: 0 }
}
