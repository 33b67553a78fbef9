/** A Redis that tests may kill, freeze and misconfigure: Debian's, as a child process. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createClient } from '@redis/client'
import { eventually } from './harness.ts'
import { freePort } from './service-process.ts'

/** Whether this machine has one; tests that need it say so and are skipped where it has not. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0

/** One server on a port that stays the same. Its data is in memory alone. */
export class RedisProcess {
  readonly port: number
  readonly #arguments: readonly string[]
  readonly #url: string
  #child: ChildProcess | null = null

  private constructor(port: number, more: readonly string[], url: string | undefined) {
    this.port = port
    this.#arguments = ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no', ...more]
    this.#url = url ?? this.url
  }

  /** @param more further settings, as on the command line; `url`: how the tests themselves reach it then */
  static async create(more: readonly string[] = [], url?: (port: number) => string): Promise<RedisProcess> {
    const port = await freePort()
    const made = new RedisProcess(port, more, url?.(port))
    await made.start()
    return made
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  async start(): Promise<void> {
    this.#child = spawn('redis-server', [...this.#arguments], { stdio: 'ignore' })
    await eventually('Redis', () =>
      this.command('PING').then(
        () => true,
        () => false,
      ),
    )
  }

  /** Sends one command on a connection of its own. */
  async command(...words: string[]): Promise<unknown> {
    const client = createClient({ url: this.#url, RESP: 2, socket: { reconnectStrategy: false } })
    client.on('error', () => {})
    await client.connect()
    try {
      return await client.sendCommand(words)
    } finally {
      client.destroy()
    }
  }

  /** It takes connections, and says nothing. */
  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}
