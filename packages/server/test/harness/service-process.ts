/** The real service as child processes, for what only whole processes can show: kills, freezes, stops, first starts. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { processExists, readPostmasterFile } from '../../src/platform/db/embedded/cluster.ts'
import { readRecord } from '../../src/platform/db/embedded/record.ts'
import { childEnvironment, withDirectUrl } from './environment.ts'
import { type Answer, type CallOptions, call, eventually } from './harness.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const READY_MS = 120_000

/** How a process ended. */
export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface ProcessOptions {
  /** The folder it runs in. */
  cwd: string
  /** Its whole environment but for `childEnvironment`. */
  env?: Record<string, string>
  /** The service's own arguments. */
  args?: readonly string[]
  /** Node's arguments, or another program altogether. */
  nodeArgs?: readonly string[]
  program?: readonly string[]
  /** Signals go to the process and all its children, as a terminal's do. */
  ownGroup?: boolean
}

const living = new Set<ServiceProcess>()
/** Of each process. */
const FAILURES_TOLD_MAX = 3

/** One process of the service. */
export class ServiceProcess {
  readonly child: ChildProcess
  readonly exited: Promise<Exit>
  readonly cwd: string
  readonly startedAt = performance.now()
  stdout = ''
  stderr = ''
  exit: Exit | null = null
  readonly #ownGroup: boolean
  #watchers = new Set<() => void>()
  #told = 0

  constructor({ cwd, env = {}, args = ['serve'], nodeArgs = [], program, ownGroup = false }: ProcessOptions) {
    this.cwd = cwd
    this.#ownGroup = ownGroup
    const [command = '', ...rest] = program ?? [process.execPath, ...nodeArgs, MAIN]
    this.child = spawn(command, [...rest, ...args], {
      cwd,
      env: { ...childEnvironment(), ...withDirectUrl(env) },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: ownGroup,
    })
    living.add(this)
    this.child.stdout?.on('data', (chunk: Buffer) => {
      this.stdout += chunk.toString('utf8')
      for (const look of this.#watchers) look()
    })
    this.child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString('utf8')
      this.#tellFailures()
    })
    this.exited = new Promise((resolve, reject) => {
      this.child.once('error', reject)
      this.child.once('close', (code, signal) => {
        this.exit = { code, signal }
        living.delete(this)
        for (const look of this.#watchers) look()
        resolve(this.exit)
      })
    })
  }

  /** Shows why requests were answered with 500: a test that did not expect it says no more than the status. */
  #tellFailures(): void {
    const lines = this.stderr.split('\n').slice(0, -1)
    const failures = lines.filter((line) => line.includes('"msg":"request failed"'))
    for (const line of failures.slice(this.#told, FAILURES_TOLD_MAX)) process.stderr.write(`${line}\n`)
    this.#told = failures.length
  }

  get pid(): number {
    return this.child.pid as number
  }

  /** The key that a first start shows. */
  get key(): string {
    const found = /export HALFKEY_KEY=(hk_sk_\w+)/.exec(this.stdout)?.[1]
    if (found === undefined) throw new Error(`no key was shown:\n${this.stdout}`)
    return found
  }

  /** What its clients pin it by, as a start shows it. */
  get pin(): string {
    const found = /^Service pin +(hk_pin_\S+)$/m.exec(this.stdout)?.[1]
    if (found === undefined) throw new Error(`no pin was shown:\n${this.stdout}`)
    return found
  }

  /** Where it listens, as it says itself. */
  get url(): string {
    const found = /^(?:API|Ready\. Probes:) +(http:\/\/[^\s/]+)/m.exec(this.stdout)?.[1]
    if (found === undefined) throw new Error(`no address was shown:\n${this.stdout}`)
    return found
  }

  /** Resolves once standard output holds what is looked for. Fails when the process ends before. */
  until(what: string, pattern: RegExp, timeoutMs = READY_MS): Promise<this> {
    return new Promise((resolve, reject) => {
      const end = (error?: Error) => {
        clearTimeout(timer)
        this.#watchers.delete(look)
        if (error) reject(error)
        else resolve(this)
      }
      const told = () => `\n${this.stdout.slice(-2_000)}\n${this.stderr.slice(-4_000)}`
      const timer = setTimeout(() => end(new Error(`${what}: not within ${timeoutMs} ms${told()}`)), timeoutMs)
      const look = () => {
        if (pattern.test(this.stdout)) end()
        else if (this.exit !== null) end(new Error(`${what}: ended with ${JSON.stringify(this.exit)}${told()}`))
      }
      this.#watchers.add(look)
      look()
    })
  }

  ready(timeoutMs = READY_MS): Promise<this> {
    return this.until('readiness', /^Ready\./m, timeoutMs)
  }

  /** A call under `/v1`. */
  call(key: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return call(this.url, method, `/v1${path}`, { key, ...options })
  }

  /** The status of the keyless readiness probe; null when nobody answers. */
  async readyz(): Promise<number | null> {
    try {
      const response = await fetch(`${this.url}/readyz`, { headers: { connection: 'close' } })
      await response.arrayBuffer()
      return response.status
    } catch {
      return null
    }
  }

  signal(name: NodeJS.Signals): void {
    if (this.exit !== null) return
    if (this.#ownGroup) process.kill(-this.pid, name)
    else this.child.kill(name)
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.exited
  }

  async stop(): Promise<Exit> {
    this.signal('SIGTERM')
    return this.exited
  }
}

/** Starts the service and waits until it is ready. */
export function startProcess(options: ProcessOptions): Promise<ServiceProcess> {
  return new ServiceProcess(options).ready()
}

/** For `afterAll`: a failed test file leaves no process behind. */
export async function killAll(): Promise<void> {
  await Promise.all([...living].map((each) => each.kill()))
}

/** A temporary folder to run in. */
export class DataFolder {
  readonly path: string
  readonly dataDir: string

  /** `dataDir`: the data folder's name in it. */
  constructor(dataDir = 'data') {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'hk-')))
    // Root's PostgreSQL runs as another user, who must pass.
    chmodSync(this.path, 0o711)
    this.dataDir = join(this.path, dataDir)
  }

  /** The settings of a service in this folder. */
  env(settings: Record<string, string> = {}): Record<string, string> {
    return withDirectUrl({
      PORT: '0',
      HALFKEY_DATA_DIR: this.dataDir,
      HALFKEY_RATE_LIMITS: 'off',
      HALFKEY_LOG_LEVEL: 'warn',
      HALFKEY_DATABASE_CONNECTIONS: '15',
      HALFKEY_DRAIN: '0',
      ...settings,
    })
  }

  /** The embedded database's rows. */
  async sql<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    const record = readRecord(this.dataDir)
    if (record === null) throw new Error(`no database in ${this.dataDir}`)
    return query(record, text, values)
  }

  get #cluster(): string {
    const near = join(this.dataDir, 'postgres')
    return existsSync(near) ? realpathSync(near) : near
  }

  /** The process id of the embedded PostgreSQL, null when none runs. */
  postmaster(): number | null {
    const pid = readPostmasterFile(this.#cluster)?.pid
    return pid !== undefined && processExists(pid) && isOurs(pid, this.#cluster) ? pid : null
  }

  /** Kills what still runs here, ends its PostgreSQL, and clears the folder away. */
  async remove(): Promise<void> {
    await Promise.all([...living].filter(({ cwd }) => cwd === this.path).map((each) => each.kill()))
    const cluster = this.#cluster
    const postmaster = this.postmaster()
    if (postmaster !== null) {
      process.kill(postmaster, 'SIGQUIT')
      await eventually('the end of the embedded PostgreSQL', async () => !processExists(postmaster))
    }
    rmSync(this.path, { recursive: true, force: true })
    if (!cluster.startsWith(this.path)) rmSync(dirname(cluster), { recursive: true, force: true })
  }
}

/** A stale file's pid may by now be anyone's. */
function isOurs(pid: number, cluster: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(cluster)
  } catch {
    return process.platform !== 'linux'
  }
}

/** One query over a connection of its own. */
export async function query<Row extends pg.QueryResultRow>(
  connection: pg.ClientConfig,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const { host, port, user, password, database, connectionString } = connection
  const client = new pg.Client(connectionString ? { connectionString } : { host, port, user, password, database })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}

/** A port that is free now, and not one of those that the system gives to connections that go out. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer()
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
}
