// Keep-alive connections, keyed by origin AND checked address: a connection is found again only by a send whose own
// check has just allowed that address, so keep-alive can't outlive a changed DNS answer.
//
// One undici Client holds one connection. No Pool: its queue lets hanging sends of one endpoint hold up another
// endpoint on the same host, and it hides whether a send went out on a used connection, which decides about a retry.
import { createHash } from 'node:crypto'
import { Socket } from 'node:net'
import { createSecureContext, getCACertificates } from 'node:tls'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { buildConnector, Client } from 'undici'
import { EgressRefused } from './policy.ts'
import { authorityOf, type ForwardProxy, openTunnel } from './proxy.ts'

/** Client certificates whose connectors are kept. */
const CLIENTS_MAX = 1_000
const IDLE_MAX = 512
const IDLE_PER_ROUTE_MAX = 64
const IDLE_LIFETIME_MS = 10_000
const RESPONSE_HEADERS_BYTES_MAX = 64 * 1024
/** Every send has its own, shorter deadline; this only ends a connect whose send forgot it. */
const CONNECT_BACKSTOP_MS = 120_000

/** One checked way to a target. */
export interface Route {
  key: string
  origin: string
  /** a checked address; a name where the proxy resolves names */
  address: string
  /** for SNI and the certificate check; null for literal addresses and http: */
  servername: string | null
  /** who Halfkey is on this connection, if the server asks; part of `key` */
  identity?: ClientIdentity
}

/** A certificate, PEM with its chain, and its key. */
export interface ClientIdentity {
  certificate: string
  privateKey: string
}

/** Equal ones share connections and TLS sessions. It includes the chain, which can be corrected for the same certificate. */
export function identityKey({ certificate, privateKey }: ClientIdentity): string {
  return createHash('sha256').update(certificate).update(privateKey).digest('base64')
}

/** One keep-alive connection, or the attempt at one. In use by at most one send at a time. */
export class Connection {
  readonly route: Route
  readonly client: Client
  isIdle = false
  /** requests begun on the socket that is open now; more than one = the socket was reused */
  sends = 0
  readonly #proxy: ForwardProxy | null
  #connecting: { destroy(error: Error): unknown } | null = null

  constructor(route: Route, connect: buildConnector.connector, proxy: ForwardProxy | null) {
    this.route = route
    this.#proxy = proxy
    this.client = new Client(route.origin, {
      allowH2: false,
      useMilo: false,
      pipelining: 1,
      // Each send's own deadline covers all phases; undici's timers are half a second coarse and per phase.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: RESPONSE_HEADERS_BYTES_MAX,
      keepAliveTimeout: IDLE_LIFETIME_MS,
      keepAliveMaxTimeout: IDLE_LIFETIME_MS,
      connect: (options, callback) => this.#connect(connect, options, callback),
    })
  }

  #connect(
    connect: buildConnector.connector,
    options: buildConnector.Options,
    callback: buildConnector.Callback,
  ): void {
    this.sends = 0
    if (this.#proxy === null) this.#connectBy(connect, options, callback)
    else this.#connectThrough(this.#proxy, connect, options, callback)
  }

  #connectThrough(
    proxy: ForwardProxy,
    connect: buildConnector.connector,
    options: buildConnector.Options,
    callback: buildConnector.Callback,
  ): void {
    const { origin, address } = this.route
    this.#connecting = openTunnel(proxy, authorityOf(origin, address), (error, socket) => {
      this.#connecting = null
      if (socket === null) callback(error ?? new Error('no tunnel'), null)
      else if (options.protocol === 'https:') this.#connectBy(connect, { ...options, httpSocket: socket }, callback)
      else callback(null, socket)
    })
  }

  /** Connects to the checked address, or makes a tunnel to it secure. */
  #connectBy(
    connect: buildConnector.connector,
    { servername: _, ...options }: buildConnector.Options,
    callback: buildConnector.Callback,
  ): void {
    const { address, servername } = this.route
    const socket: unknown = connect(
      { ...options, hostname: address, ...(servername === null ? {} : { servername }) },
      (error, connected) => {
        this.#connecting = null
        if (error) return callback(error, null)
        // Of a tunnel, the peer is the proxy.
        if (this.#proxy === null && !isSameAddress(connected.remoteAddress, address)) {
          connected.destroy()
          return callback(new EgressRefused('the connection reached another address'), null)
        }
        callback(null, connected)
      },
    )
    // buildConnector returns the socket without saying so in its types. Without it an abandoned connect would hold a
    // file descriptor until the backstop.
    this.#connecting = socket instanceof Socket ? socket : null
  }

  /** Cuts the connection, in whatever phase. Its send hears of it through undici, and is expected not to care. */
  destroy(): Promise<void> {
    // With an error, so that undici's connect callback runs and the client does not wait for ever.
    this.#connecting?.destroy(new Error('abandoned'))
    return this.client.destroy()
  }
}

/** All connections of one guard: at most 512 idle ones, 64 per route, 10 s each; those in use are bounded by the sends. */
export class Connections {
  readonly #ca: string | undefined
  readonly #connect: buildConnector.connector
  /** A connector holds the TLS sessions of its client, so each client has one of its own. */
  readonly #connectAs = new LRUCache<string, buildConnector.connector>({ max: CLIENTS_MAX })
  readonly #idle = new Map<string, Connection[]>()
  /** the same idle connections, longest idle first */
  readonly #idleByAge = new Set<Connection>()
  readonly #open = new Set<Connection>()

  readonly #proxy: ForwardProxy | null

  /** `ca`: PEM certificates trusted besides the system's. `proxy`: what all connections go through; null for none. */
  constructor(ca: string | undefined, proxy: ForwardProxy | null = null) {
    this.#proxy = proxy
    this.#ca = ca
    this.#connect = this.#buildConnector(undefined)
  }

  get open(): number {
    return this.#open.size
  }

  get idle(): number {
    return this.#idleByAge.size
  }

  hasIdle(route: Route): boolean {
    return this.#idle.has(route.key)
  }

  /** The most recently used idle connection, or a new one. */
  acquire(route: Route): Connection {
    const connection = this.#idle.get(route.key)?.at(-1)
    if (!connection) return this.create(route)
    this.#removeIdle(connection)
    return connection
  }

  /** A new connection, never a used one. Connecting begins with the first request. */
  create(route: Route): Connection {
    const connection = new Connection(route, this.#connectorOf(route), this.#proxy)
    this.#open.add(connection)
    connection.client.on('disconnect', () => {
      if (connection.isIdle) this.discard(connection)
    })
    return connection
  }

  /** Gives back a connection whose answer was read to its end. */
  release(connection: Connection): void {
    const siblings = this.#idle.get(connection.route.key)
    if (siblings && siblings.length >= IDLE_PER_ROUTE_MAX) {
      this.discard(connection)
      return
    }
    if (siblings) siblings.push(connection)
    else this.#idle.set(connection.route.key, [connection])
    connection.isIdle = true
    this.#idleByAge.add(connection)
    if (this.#idleByAge.size <= IDLE_MAX) return
    const oldest = this.#idleByAge.values().next().value
    if (oldest) this.discard(oldest)
  }

  /** Ends a connection. */
  discard(connection: Connection): void {
    if (connection.isIdle) this.#removeIdle(connection)
    this.#open.delete(connection)
    void connection.destroy()
  }

  /** Ends all connections, in use or not; resolves when their sockets are closed. */
  async close(): Promise<void> {
    const open = [...this.#open]
    this.#open.clear()
    this.#idle.clear()
    this.#idleByAge.clear()
    await Promise.all(open.map((connection) => connection.destroy()))
  }

  #connectorOf({ identity }: Route): buildConnector.connector {
    if (identity === undefined) return this.#connect
    const key = identityKey(identity)
    const known = this.#connectAs.get(key)
    if (known !== undefined) return known
    const built = this.#buildConnector(identity)
    this.#connectAs.set(key, built)
    return built
  }

  #buildConnector(identity: ClientIdentity | undefined): buildConnector.connector {
    return buildConnector({
      allowH2: false,
      timeout: CONNECT_BACKSTOP_MS,
      // Built once: per connection it would parse all authorities again.
      secureContext: createSecureContext({
        ...(this.#ca === undefined ? {} : { ca: [...getCACertificates('default'), this.#ca] }),
        ...(identity === undefined ? {} : { cert: identity.certificate, key: identity.privateKey }),
      }),
    })
  }

  #removeIdle(connection: Connection): void {
    const { key } = connection.route
    const siblings = this.#idle.get(key)
    connection.isIdle = false
    this.#idleByAge.delete(connection)
    if (!siblings) return
    if (siblings.length === 1) this.#idle.delete(key)
    else siblings.splice(siblings.lastIndexOf(connection), 1)
  }
}

/** The last look: whatever happened below, the peer must be the address that was checked. */
function isSameAddress(remote: string | undefined, checked: string): boolean {
  if (remote === checked) return true
  if (remote === undefined || !ipaddr.isValid(remote) || !ipaddr.isValid(checked)) return false
  return ipaddr.process(remote).toNormalizedString() === ipaddr.process(checked).toNormalizedString()
}
