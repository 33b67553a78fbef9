import { realpathSync } from 'node:fs'
import pg from 'pg'
import { type Credentials, readSystemIdentifier } from './cluster.ts'
import { errorCode } from './errors.ts'

const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 30_000

// Advisory locks live in the database `postgres`: the service's own, in `halfkey`, cannot collide with them.
const LOCK_SPACE = 0x48414c46
const ATTACHED_LOCK = 1
const OWNER_LOCK = 2
const SETUP_LOCK = 3

/** Where a server listens: a Unix socket's folder or an address, and the port (which is part of the socket's name). */
export interface Endpoint {
  host: string
  port: number
}

/** What a server says of itself. */
export interface Identity {
  systemIdentifier: string
  dataDirectory: string
  startedAtSeconds: number
}

/** `starting`: up, but not (or no longer) taking connections; `foreign`: not this folder's server; `absent`: nobody answers. */
export type ConnectResult =
  | { kind: 'connected'; client: pg.Client; identity: Identity }
  | { kind: 'starting' | 'absent' | 'foreign'; reason: string }

/** Connects as the launcher's superuser, and only to the server of this very folder: a copy of it elsewhere is `foreign`. */
export async function connect(endpoint: Endpoint, credentials: Credentials, cluster: string): Promise<ConnectResult> {
  const client = new pg.Client({
    ...endpoint,
    user: 'postgres',
    database: 'postgres',
    password: credentials.adminPassword,
    application_name: 'halfkey embedded',
    ssl: false,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  })
  // Without a listener a server that goes away would end our process.
  client.on('error', () => {})
  try {
    await client.connect()
    const identity = await readIdentity(client)
    if (identity.systemIdentifier === readSystemIdentifier(cluster) && identity.dataDirectory === realPath(cluster)) {
      return { kind: 'connected', client, identity }
    }
    await close(client)
    return { kind: 'foreign', reason: `the server there belongs to ${identity.dataDirectory}` }
  } catch (error) {
    await close(client)
    return { kind: kindOfFailure(error), reason: error instanceof Error ? error.message : String(error) }
  }
}

function kindOfFailure(error: unknown): 'starting' | 'absent' | 'foreign' {
  const code = errorCode(error)
  if (['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'].includes(code)) return 'absent'
  // 57P03: starting, recovering or shutting down; class 53: no free connection. It lives, so waiting is right.
  if (code.startsWith('57') || code.startsWith('53')) return 'starting'
  // Wrong password, silence, another protocol: perhaps someone else's. To try a start is safe, as PostgreSQL locks its folder.
  return 'foreign'
}

async function readIdentity(client: pg.Client): Promise<Identity> {
  const { rows } = await client.query<{ id: string; folder: string; started: string }>(
    `select system_identifier::text as id, current_setting('data_directory') as folder,
            floor(extract(epoch from pg_postmaster_start_time()))::text as started
       from pg_control_system()`,
  )
  const row = rows[0]
  if (!row) throw new Error('pg_control_system() returned no row')
  return { systemIdentifier: row.id, dataDirectory: realPath(row.folder), startedAtSeconds: Number(row.started) }
}

/** The folder of another server may be unreadable. Its name is then used as it is. */
function realPath(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}

/** Whether an open connection keeps this process alive; pg has both functions, its types have not. */
export function keepAlive(client: pg.Client, isKept: boolean): void {
  const socket = client as pg.Client & { ref(): void; unref(): void }
  if (isKept) socket.ref()
  else socket.unref()
}

/** Ends a connection without ever rejecting; a server that is gone ends it as well. */
export async function close(client: pg.Client): Promise<void> {
  await client.end().catch(() => {})
}

/** Registers this session as attached. False: the last attached process is stopping the server right now. */
export async function takeAttachedLock(client: pg.Client): Promise<boolean> {
  return lock(client, 'pg_try_advisory_lock_shared', ATTACHED_LOCK)
}

/** Takes the place of the one `all` process. */
export async function takeOwnerLock(client: pg.Client): Promise<boolean> {
  return lock(client, 'pg_try_advisory_lock', OWNER_LOCK)
}

/** Releases both locks, then requests exclusive access. If true, nobody is attached, and nobody can attach during this session. */
export async function releaseAndTakeAll(client: pg.Client): Promise<boolean> {
  await client.query('select pg_advisory_unlock_all()')
  return lock(client, 'pg_try_advisory_lock', ATTACHED_LOCK)
}

async function lock(client: pg.Client, attempt: string, key: number): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>(`select ${attempt}($1, $2) as taken`, [LOCK_SPACE, key])
  return rows[0]?.taken === true
}

/** How many other sessions are attached now. */
export async function countOtherAttached(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ others: number }>(
    `select count(*)::int as others from pg_locks
      where locktype = 'advisory' and granted and classid = $1 and objid = $2 and objsubid = 2 and pid <> pg_backend_pid()`,
    [LOCK_SPACE, ATTACHED_LOCK],
  )
  return rows[0]?.others ?? 0
}

/** Creates the service's role and database where they are missing; one process at a time, so that a race is harmless. */
export async function ensureDatabase(client: pg.Client, password: string): Promise<void> {
  if ((await findMissing(client)).length === 0) return
  await client.query('select pg_advisory_lock($1, $2)', [LOCK_SPACE, SETUP_LOCK])
  try {
    const missing = await findMissing(client)
    if (missing.includes('role')) {
      await client.query(`create role halfkey login password ${pg.escapeLiteral(password)}`)
    }
    if (missing.includes('database')) {
      // An error message can quote a value a caller sent. The service logs its own errors, redacted; PostgreSQL's log stays free of them.
      await client.query(`alter role halfkey set log_min_messages = 'log'`)
      await client.query('create database halfkey owner halfkey')
    }
  } finally {
    await client.query('select pg_advisory_unlock($1, $2)', [LOCK_SPACE, SETUP_LOCK])
  }
}

async function findMissing(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ missing: string[] }>(
    `select array_remove(array[
       case when not exists (select from pg_roles where rolname = 'halfkey') then 'role' end,
       case when not exists (select from pg_database where datname = 'halfkey') then 'database' end], null) as missing`,
  )
  return rows[0]?.missing ?? []
}
