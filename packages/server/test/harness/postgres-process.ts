/** A PostgreSQL of our own that a test may kill: nobody brings it back but the test. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  lchownSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { type Binaries, prepareBinaries } from '../../src/platform/db/embedded/binaries.ts'
import { createCluster, readCredentials } from '../../src/platform/db/embedded/cluster.ts'
import { type Location, locate } from '../../src/platform/db/embedded/location.ts'
import { ensureDatabase } from '../../src/platform/db/embedded/session.ts'
import { eventually } from './harness.ts'
import { freePort, query } from './service-process.ts'

/** A backend may have ended by itself. */
function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** A postmaster as our child, on a port that stays the same. */
export class PostgresProcess {
  readonly url: string
  readonly #admin: pg.ClientConfig
  readonly #folder: string
  readonly #binaries: Binaries
  readonly #location: Location
  readonly port: number
  #child: ChildProcess | null = null

  private constructor(folder: string, binaries: Binaries, location: Location, port: number) {
    this.#folder = folder
    this.#binaries = binaries
    this.#location = location
    this.port = port
    const { adminPassword, password } = readCredentials(location.cluster)
    this.#admin = { host: '127.0.0.1', port, user: 'postgres', password: adminPassword, database: 'postgres' }
    this.url = `postgres://halfkey:${encodeURIComponent(password)}@127.0.0.1:${port}/halfkey`
  }

  /** Makes a cluster and starts it. `within`: the folder to make it in, e.g. a small file system. */
  static async create(within = tmpdir()): Promise<PostgresProcess> {
    const folder = realpathSync(mkdtempSync(join(within, 'hk-pg-')))
    chmodSync(folder, 0o711)
    const location = locate(folder)
    const binaries = await prepareBinaries(location.account, folder)
    await createCluster(binaries, location)
    const made = new PostgresProcess(folder, binaries, location, await freePort())
    await made.start()
    const client = new pg.Client(made.#admin)
    await client.connect()
    await ensureDatabase(client, readCredentials(location.cluster).password)
    await client.end()
    return made
  }

  /** Makes a streaming standby out of a copy, for which this one is stopped and started again. */
  async makeStandby(name: string): Promise<PostgresProcess> {
    await this.kill('SIGINT')
    const { account, cluster } = this.#location
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'hk-pg-')))
    const copy = join(folder, 'postgres')
    cpSync(cluster, copy, { recursive: true, preserveTimestamps: true })
    const { adminPassword } = readCredentials(cluster)
    const from = `host=127.0.0.1 port=${this.port} user=postgres password=${adminPassword} application_name=${name}`
    appendFileSync(join(copy, 'postgresql.conf'), `primary_conninfo = '${from}'\n`)
    writeFileSync(join(copy, 'standby.signal'), '')
    if (account !== null) {
      const entries = readdirSync(copy, { recursive: true, encoding: 'utf8' }).map((entry) => join(copy, entry))
      for (const path of [folder, copy, ...entries]) lchownSync(path, account.uid, account.gid)
    }
    chmodSync(copy, 0o700)
    const location = { ...this.#location, dataDir: folder, cluster: copy }
    const made = new PostgresProcess(folder, this.#binaries, location, await freePort())
    await this.start()
    await made.start()
    return made
  }

  /** The process ids of the backends and of what else the postmaster has started. */
  #children(): number[] {
    const { pid } = this.#child ?? {}
    if (pid === undefined) return []
    const found = execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    return found.split('\n').filter(Boolean).map(Number)
  }

  /** The backends and the postmaster stop where they are, as if the machine were gone, or go on. */
  async freeze(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const { pid } = this.#child ?? {}
    if (pid === undefined) return
    // First the postmaster: it begins no others then.
    process.kill(pid, signal)
    for (const each of this.#children()) signalIfThere(each, signal)
  }

  /** Starts it and waits until it takes connections. */
  async start(): Promise<void> {
    const { cluster, account } = this.#location
    const args = ['-D', cluster, '-h', '127.0.0.1', '-p', String(this.port), '-k', '']
    await eventually('PostgreSQL', async () => {
      // A killed server's last backends may still be leaving: then it ends at once and is started again.
      if (this.#child === null || this.#child.exitCode !== null || this.#child.signalCode !== null) {
        this.#child = spawn(this.#binaries.postgres, args, {
          cwd: '/',
          env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
          stdio: 'ignore',
          ...(account ? { uid: account.uid, gid: account.gid } : {}),
        })
      }
      return this.admin('select 1').catch(() => null)
    })
  }

  /** As its superuser, in the service's database or the given one. */
  admin<Row extends pg.QueryResultRow>(text: string, values: unknown[] = [], database = 'postgres'): Promise<Row[]> {
    return query<Row>({ ...this.#admin, database }, text, values)
  }

  /** `kill -9` of the postmaster; its backends notice and leave by themselves. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }

  /** `kill -9` of all of it, as if its machine were gone: a backend that has not noticed yet would still commit. */
  async killWithBackends(): Promise<void> {
    await this.freeze('SIGSTOP')
    const children = this.#children()
    await this.kill()
    for (const pid of children) signalIfThere(pid, 'SIGKILL')
  }

  /** Ends one of the service's backends by the superuser's hand, chosen by chance. @returns how many were there */
  async terminateOne(): Promise<number> {
    const rows = await this.admin<{ n: number }>(
      `select count(*)::int as n, pg_terminate_backend((array_agg(pid order by random()))[1]) from pg_stat_activity where usename = 'halfkey'`,
    )
    return rows[0]?.n ?? 0
  }

  async remove(): Promise<void> {
    await this.kill('SIGQUIT')
    const { cluster } = this.#location
    rmSync(this.#folder, { recursive: true, force: true })
    if (!cluster.startsWith(this.#folder)) rmSync(dirname(cluster), { recursive: true, force: true })
  }
}
