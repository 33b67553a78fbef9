// The service under test as a child process, on an embedded PostgreSQL in a temporary folder.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmodSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { type EmbeddedDatabase, openEmbedded } from '../src/platform/db/embedded/embedded.ts'
import { newApiKey } from '../src/platform/security/api-key.ts'
import { adopt, atTheEnd, end } from './children.ts'
import { memoryMb } from './proc.ts'
import { sampleBackends } from './sample.ts'

const MAIN = join(import.meta.dirname, '../src/main.ts')
const WORKSPACE = join(import.meta.dirname, '../../../package.json')
/** What `npm start` tells Node, which is measured too. */
const NODE_FLAGS: string[] = JSON.parse(readFileSync(WORKSPACE, 'utf8')).scripts.start.match(/--\S+/g) ?? []
const READY_MS = 60_000

/** A folder of our own below the system's temporary one. PostgreSQL's unprivileged user must be able to pass through. */
export function makeFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'halfkey-bench-'))
  chmodSync(path, 0o711)
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 5 })
  const forget = atTheEnd(() => {
    stopPostgres(join(path, 'data'))
    remove()
  })
  return {
    path,
    remove() {
      forget()
      remove()
    },
  }
}

/** The process id of a data folder's PostgreSQL; NaN when none runs. */
function postgresPid(dataDir: string): number {
  try {
    return Number(readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'latin1').split('\n')[0])
  } catch {
    return Number.NaN
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Ends a data folder's PostgreSQL without a checkpoint and waits, blocking: only for a process that is ending itself. */
function stopPostgres(dataDir: string): void {
  const pid = postgresPid(dataDir)
  if (!Number.isInteger(pid) || !isAlive(pid)) return
  process.kill(pid, 'SIGQUIT')
  const gate = new Int32Array(new SharedArrayBuffer(4))
  for (let turn = 0; turn < 250 && isAlive(pid); turn += 1) Atomics.wait(gate, 0, 0, 20)
}

/** Settings that every service under test has; nothing of the caller's own environment. */
function environment(settings: Record<string, string>): Record<string, string> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(HALFKEY_|DATABASE_URL$|PORT$|HOST$|NODE_OPTIONS$)/.test(name),
  )
  return {
    ...(Object.fromEntries(kept) as Record<string, string>),
    HALFKEY_RATE_LIMITS: 'off',
    HALFKEY_DRAIN: '0',
    ...settings,
  }
}

/** A running service. */
export interface Service {
  pid: number
  /** 0 for a worker without HTTP. */
  port: number
  stop(signal?: NodeJS.Signals): Promise<void>
}

/** Starts it without waiting. `nodeOptions` go to Node, such as `--cpu-prof`. */
export function spawnService(
  folder: string,
  settings: Record<string, string>,
  nodeOptions: string[] = [],
): ChildProcess {
  const log = openSync(join(folder, 'service.log'), 'a')
  const env = environment({ HALFKEY_DATA_DIR: join(folder, 'data'), PORT: '0', ...settings })
  const profile =
    process.env.BENCH_CPU_PROF === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${process.env.BENCH_CPU_PROF}`]
  const child = adopt(
    spawn(process.execPath, [...NODE_FLAGS, ...profile, ...nodeOptions, MAIN, 'serve'], {
      env,
      stdio: ['ignore', 'pipe', log],
    }),
  )
  closeSync(log)
  return child
}

function untilReady(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = ''
    const timer = setTimeout(
      () => reject(new Error(`the service was not ready in ${READY_MS / 1000} s: ${said}`)),
      READY_MS,
    )
    child.once('exit', (code) => reject(new Error(`the service ended with ${code}: ${said}`)))
    child.stdout?.on('data', (chunk: Buffer) => {
      if (/^Ready\./m.test(said)) return
      said += chunk.toString()
      if (!/^Ready\./m.test(said)) return
      clearTimeout(timer)
      resolve(Number(/^API +http:\/\/127\.0\.0\.1:(\d+)\/v1$/m.exec(said)?.[1] ?? 0))
    })
  })
}

/** A database with its services. */
export interface Bed {
  folder: string
  key: string
  connection: EmbeddedDatabase['connection']
  postgresVersion: string
  postgresPid: number
  /** Statements by the service's own role, outside the service. */
  sql<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  /** Has PostgreSQL write out what is dirty, so that the next measurement does not pay for the preparation. */
  checkpoint(): Promise<void>
  /** With BENCH_SAMPLE=1, samples PostgreSQL's backends until the answer is called. */
  sample(): Promise<() => Promise<void>>
  start(settings?: Record<string, string>): Promise<Service>
  /** Gives rows that were written by `sql` their MACs. */
  sealRecords(): Promise<void>
  /** Warnings and errors that the services logged, by text. */
  complaints(): Record<string, number>
  close(): Promise<void>
}

/** Opens a database that outlives its services: this process holds it. */
export async function openBed(): Promise<Bed> {
  const folder = makeFolder()
  const dataDir = join(folder.path, 'data')
  const embedded = await openEmbedded({ dataDir, role: 'tool', log: () => {} })
  const key = newApiKey('secret')
  const pool = new pg.Pool({ ...embedded.connection, max: 2 })
  pool.on('error', () => {})
  const services = new Set<Service>()
  return {
    folder: folder.path,
    key,
    connection: embedded.connection,
    postgresVersion: embedded.version,
    postgresPid: postgresPid(dataDir),
    sql: async (text, values = []) => (await pool.query(text, values)).rows,
    checkpoint: () => checkpoint(embedded),
    sample: async () => (process.env.BENCH_SAMPLE === '1' ? sampleBackends(adminOf(embedded)) : async () => {}),
    async start(settings = {}) {
      const child = spawnService(folder.path, { HALFKEY_ADMIN_KEY: key, ...settings })
      const port = await untilReady(child)
      const service: Service = {
        pid: child.pid as number,
        port,
        async stop(signal) {
          services.delete(service)
          await end(child, signal)
        },
      }
      services.add(service)
      return service
    },
    async sealRecords() {
      const env = environment({ HALFKEY_DATA_DIR: dataDir })
      await promisify(execFile)(process.execPath, [MAIN, 'records', 'enforce', '--accept-missing'], { env })
    },
    complaints: () => complaintsIn(join(folder.path, 'service.log')),
    async close() {
      for (const service of services) await service.stop()
      await pool.end()
      await embedded.detach()
      folder.remove()
    },
  }
}

/** How the launcher's superuser connects. */
function adminOf(embedded: EmbeddedDatabase): pg.ClientConfig {
  const text = readFileSync(join(embedded.dataDir, 'halfkey.json'), 'utf8')
  const { adminPassword } = JSON.parse(text) as { adminPassword: string }
  return { ...embedded.connection, user: 'postgres', password: adminPassword, database: 'postgres' }
}

async function checkpoint(embedded: EmbeddedDatabase): Promise<void> {
  const client = new pg.Client(adminOf(embedded))
  await client.connect()
  await client.query('checkpoint')
  await client.end()
}

function complaintsIn(path: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (!/^\{"level":[4-6]0/.test(line)) continue
    const { msg, err } = JSON.parse(line) as { msg: string; err?: { message?: string } }
    const text = err?.message === undefined ? msg : `${msg}: ${err.message}`
    found[text] = (found[text] ?? 0) + 1
  }
  return found
}

/** `n MB`, the most a service ever held. */
export function memoryText(service: Service): string {
  const { peak, share } = memoryMb(service.pid)
  return `${Math.round(share)} MB (PSS), ${Math.round(peak)} MB at most (resident)`
}
