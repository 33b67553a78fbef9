/** PostgreSQL on three servers, of which Patroni makes one the primary, with synchronous standbys. Debian's packages. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { chooseAccount } from '../../../src/platform/db/embedded/account.ts'
import { debianPrograms } from '../../harness/debian-postgres.ts'
import { eventually } from '../../harness/harness.ts'
import { freePort, query } from '../../harness/service-process.ts'

const PATRONI = '/usr/bin/patroni'
const ETCD = '/usr/bin/etcd'
const PASSWORD = 'a-password'
const SERVERS = 3
const START_MS = 120_000
/** After this without a sign of life, Patroni takes the primary for dead. It looks each second. */
const TTL_SECONDS = 6

/** The folder of PostgreSQL's programs, or what is missing. */
export function patroniPrograms(): { programs: string } | { missing: string } {
  const programs = debianPrograms()
  const packages = [
    ...(existsSync(PATRONI) ? [] : ['patroni']),
    ...(existsSync(ETCD) ? [] : ['etcd-server']),
    ...(programs === null ? ['postgresql'] : []),
  ]
  if (programs === null || packages.length > 0)
    return { missing: `not installed: ${packages.join(', ')} (Debian packages)` }
  return { programs }
}

const account = chooseAccount([])
const SPAWN = {
  cwd: '/',
  stdio: 'ignore' as const,
  env: { LC_ALL: 'C.UTF-8', PATH: '/usr/bin:/bin' },
  ...(account === null ? {} : { uid: account.uid, gid: account.gid }),
}

const own = (path: string) => account !== null && chownSync(path, account.uid, account.gid)

async function end(child: ChildProcess | null, signal: NodeJS.Signals): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill(signal)
  await gone
}

/** One of the servers: PostgreSQL with the Patroni that started it. */
class Server {
  readonly name: string
  readonly port: number
  readonly #restPort: number
  readonly #data: string
  readonly #configFile: string
  #patroni: ChildProcess | null = null

  constructor(name: string, folder: string, ports: { postgres: number; rest: number; etcd: number }, programs: string) {
    this.name = name
    this.port = ports.postgres
    this.#restPort = ports.rest
    this.#data = join(folder, name)
    this.#configFile = join(folder, `${name}.yml`)
    // JSON is YAML.
    const config = patroniConfig(name, this.#data, ports, programs)
    writeFileSync(this.#configFile, JSON.stringify(config), { mode: 0o600 })
    own(this.#configFile)
  }

  start(): void {
    this.#patroni = spawn(PATRONI, [this.#configFile], SPAWN)
  }

  admin<Row extends pg.QueryResultRow>(text: string, values: unknown[] = [], database = 'postgres'): Promise<Row[]> {
    const admin = { host: '127.0.0.1', port: this.port, user: 'postgres', password: PASSWORD, database }
    return query<Row>(admin, text, values)
  }

  async call(method: 'GET' | 'POST', path: string, body?: object): Promise<{ status: number; text: string }> {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const response = await fetch(`http://127.0.0.1:${this.#restPort}${path}`, init)
    return { status: response.status, text: await response.text() }
  }

  /** Whether Patroni says that it is the primary, the standby that commits wait for, or any running standby. */
  is(role: 'primary' | 'sync' | 'replica'): Promise<boolean> {
    return this.call('GET', `/${role}`).then(
      ({ status }) => status === 200,
      () => false,
    )
  }

  #postmaster(): number | null {
    const file = join(this.#data, 'postmaster.pid')
    const pid = existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : Number.NaN
    // A stale file's number may be anyone's by now.
    const command = `/proc/${pid}/cmdline`
    return existsSync(command) && readFileSync(command, 'utf8').includes(this.#data) ? pid : null
  }

  /** `kill -9` of PostgreSQL with all its backends; Patroni goes on. */
  killPostgres(): void {
    const pid = this.#postmaster()
    if (pid === null) return
    process.kill(pid, 'SIGSTOP')
    const backends = execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
      .split('\n')
      .filter(Boolean)
    for (const each of [pid, ...backends.map(Number)]) process.kill(each, 'SIGKILL')
  }

  /** `kill -9` of everything, as if the machine were gone. */
  async killMachine(): Promise<void> {
    const gone = end(this.#patroni, 'SIGKILL')
    this.killPostgres()
    await gone
  }
}

function patroniConfig(
  name: string,
  data: string,
  { postgres, rest, etcd }: { postgres: number; rest: number; etcd: number },
  programs: string,
) {
  const credentials = (username: string) => ({ username, password: PASSWORD })
  return {
    scope: 'halfkey',
    name,
    restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${rest}` },
    etcd3: { hosts: [`127.0.0.1:${etcd}`] },
    bootstrap: {
      dcs: {
        ttl: TTL_SECONDS,
        loop_wait: 1,
        retry_timeout: 2,
        maximum_lag_on_failover: 16 * 1024 * 1024,
        // A primary whose PostgreSQL ended hands over at once instead of recovering.
        primary_start_timeout: 0,
        synchronous_mode: true,
        // Without a standby, commits wait: what was acknowledged is never on one server only.
        synchronous_mode_strict: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 200, hot_standby: 'on', wal_log_hints: 'on' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }],
    },
    postgresql: {
      listen: `127.0.0.1:${postgres}`,
      connect_address: `127.0.0.1:${postgres}`,
      data_dir: data,
      bin_dir: programs,
      pgpass: `${data}.pgpass`,
      authentication: { superuser: credentials('postgres'), replication: credentials('replicator') },
      pg_hba: ['host all all 127.0.0.1/32 scram-sha-256', 'host replication replicator 127.0.0.1/32 scram-sha-256'],
      // A socket in the data folder would stop pg_rewind.
      parameters: { unix_socket_directories: '' },
      remove_data_directory_on_diverged_timelines: true,
      remove_data_directory_on_rewind_failure: true,
    },
  }
}

/** The servers, with the etcd in which Patroni keeps who is the primary. */
export class PatroniCluster {
  readonly servers: readonly Server[]
  readonly #folder: string
  readonly #etcd: ChildProcess

  private constructor(folder: string, etcd: ChildProcess, servers: readonly Server[]) {
    this.#folder = folder
    this.#etcd = etcd
    this.servers = servers
  }

  /** Starts everything and makes an empty database `halfkey` of the role `halfkey`. */
  static async start(programs: string): Promise<PatroniCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'hk-patroni-'))
    chmodSync(folder, 0o755)
    own(folder)
    const [client, peer] = [await freePort(), await freePort()]
    const data = join(folder, 'etcd')
    mkdirSync(data, { mode: 0o700 })
    own(data)
    const url = (port: number) => `http://127.0.0.1:${port}`
    const settings = {
      name: 'etcd',
      'data-dir': data,
      'listen-client-urls': url(client),
      'advertise-client-urls': url(client),
      'listen-peer-urls': url(peer),
      'initial-advertise-peer-urls': url(peer),
      'initial-cluster': `etcd=${url(peer)}`,
    }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
    const etcd = spawn(ETCD, args, SPAWN)
    const servers: Server[] = []
    for (let n = 0; n < SERVERS; n++) {
      const ports = { postgres: await freePort(), rest: await freePort(), etcd: client }
      servers.push(new Server(`server-${n}`, folder, ports, programs))
    }
    const cluster = new PatroniCluster(folder, etcd, servers)
    try {
      await eventually('etcd', () =>
        fetch(`${url(client)}/health`).then(
          (answer) => answer.ok,
          () => false,
        ),
      )
      for (const server of servers) server.start()
      const primary = await cluster.whole()
      await primary.admin(`create role halfkey login password '${PASSWORD}'`)
      await primary.admin('create database halfkey owner halfkey')
      return cluster
    } catch (error) {
      await cluster.remove()
      throw error
    }
  }

  /** The address for the service, with all servers. */
  get url(): string {
    const hosts = this.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')
    return `postgres://halfkey:${PASSWORD}@${hosts}/halfkey?target_session_attrs=read-write`
  }

  /** Waits until there is a primary, and every other server follows it. @returns the primary */
  whole(): Promise<Server> {
    return eventually(
      'a whole cluster',
      async () => {
        const primaries = await Promise.all(this.servers.map((server) => server.is('primary')))
        const primary = this.servers[primaries.indexOf(true)]
        if (primary === undefined) return null
        const [row] = await primary.admin<{ all: number; sync: number }>(
          `select count(*)::int as all, count(*) filter (where sync_state = 'sync')::int as sync
           from pg_stat_replication where state = 'streaming'`,
        )
        const others = this.servers.filter((server) => server !== primary)
        const sync = await Promise.all(others.map((server) => server.is('sync')))
        return row?.all === SERVERS - 1 && row.sync === 1 && sync.includes(true) && primary
      },
      START_MS,
    )
  }

  /** Waits until another server than `left` stores a write, a standby included. */
  async answers(left: Server): Promise<void> {
    const others = this.servers.filter((server) => server !== left)
    const isDone = Promise.withResolvers<void>()
    let over = false
    const probe = async (server: Server) => {
      while (!over) {
        const write = "select pg_logical_emit_message(true, 'probe', '') where not pg_is_in_recovery()"
        const rows = await server.admin(write).catch(() => [])
        if (rows.length > 0) isDone.resolve()
        else await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    const probes = others.map(probe)
    try {
      await eventually(
        'PostgreSQL takes writes',
        () => Promise.race([isDone.promise.then(() => true), tick()]),
        START_MS,
      )
    } finally {
      over = true
      await Promise.all(probes)
    }
  }

  /** Rows of the service's database, from the primary. */
  async sql<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.whole()).admin<Row>(text, values, 'halfkey')
  }

  /** Makes a standby the primary. */
  async switchOver(leader: Server): Promise<void> {
    const { status, text } = await leader.call('POST', '/switchover', { leader: leader.name })
    if (status !== 200) throw new Error(`no switchover: ${status} ${text}`)
  }

  async remove(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.killMachine()))
    await end(this.#etcd, 'SIGKILL')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const tick = () => new Promise<false>((resolve) => setTimeout(resolve, 1, false))
