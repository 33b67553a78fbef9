import pg from 'pg'
import { createServers, requireWritable, type Servers } from './servers.ts'

/** How to reach PostgreSQL: a URL, or the embedded server's parts. */
export type Connection = Readonly<
  ({ connectionString: string } | { host: string; port: number; user: string; password: string; database: string }) & {
    /** The servers of a URL that names several, of which one takes writes. */
    servers?: Servers
    /** Startup options that the URL has. */
    options?: string
    /** Whether a pooler stands in between: nothing that a session keeps may be relied on. */
    pooled?: boolean
  }
>

/** User and password, hosts, path, query. */
const FORM = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^@/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/
const HOSTS_MAX = 10

/** Hosts with their ports, from a URL's authority or libpq's parameters `host` and `port`. */
function readHosts(authority: string, query: URLSearchParams): string[] {
  if (authority !== '') return authority.split(',')
  const hosts = (query.get('host') ?? '').split(',')
  const ports = (query.get('port') ?? '').split(',')
  if (hosts.length > 1 || ports.length > 1) {
    if (ports.length > 1 && ports.length !== hosts.length) throw new Error('name as many ports as hosts')
    query.delete('host')
    query.delete('port')
    return hosts.map((host, at) => {
      const port = ports[at] ?? ports[0]
      return `${encodeURIComponent(host)}${port ? `:${port}` : ''}`
    })
  }
  return ['']
}

/**
 * Reads a URL as libpq does, several hosts included: `postgres://a:5432,b:5432/db?target_session_attrs=read-write`.
 * @throws Error whose message completes "… must"
 */
export function readConnection(url: string): Connection {
  const [, start, authority = '', path = '', text = ''] = FORM.exec(url) ?? []
  if (start === undefined) throw new Error('be a URL such as postgres://user:password@host:5432/database')
  const query = new URLSearchParams(text)
  const wanted = query.get('target_session_attrs')
  const options = query.get('options')
  const hosts = readHosts(authority, query)
  if (hosts.length > HOSTS_MAX) throw new Error(`name at most ${HOSTS_MAX} hosts`)
  if (hosts.length > 1 && hosts.includes('')) throw new Error('have no empty host in its list')
  if (wanted !== null && !['any', 'read-write', 'primary'].includes(wanted))
    throw new Error('ask for target_session_attrs=read-write: Halfkey writes to its database')
  if (wanted === null && options === null && hosts.length === 1) return { connectionString: url }
  query.delete('target_session_attrs')
  query.delete('options')
  const rest = query.size === 0 ? '' : `?${query}`
  const urls = hosts.map((host) => `${start}${host}${path}${rest}`)
  const shared = { connectionString: urls[0] as string, ...(options === null ? {} : { options }) }
  return hosts.length === 1 && (wanted ?? 'any') === 'any' ? shared : { ...shared, servers: createServers(urls) }
}

/** The place of a connection for people: hosts and database, without user and password. */
export function describeConnection(connection: Connection): string {
  if (!('connectionString' in connection)) return `${connection.host}:${connection.port}/${connection.database}`
  const urls = connection.servers?.urls ?? [connection.connectionString]
  const all = urls.map((url) => URL.parse(url))
  const hosts = all.map((url) => url?.host || 'a local socket').join(', ')
  return `${hosts}${all[0]?.pathname ?? ''}`
}

const CONNECT_MS = 10_000

/** Opens a single connection, apart from all pools; of several servers to the one that takes writes. */
export async function openConnection(connection: Connection, config: pg.ClientConfig): Promise<pg.Client> {
  const { servers, pooled: _, ...address } = connection
  const target = servers === undefined ? address : { ...address, connectionString: await servers.find() }
  const client = new pg.Client({ connectionTimeoutMillis: CONNECT_MS, ...target, ...config })
  // Without a listener, the process would end if the connection broke.
  client.on('error', () => {})
  try {
    await client.connect()
    if (servers !== undefined) await requireWritable(client)
    return client
  } catch (error) {
    client.end().catch(() => {})
    throw error
  }
}
