import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'

/** Several servers of which one takes writes, as after a failover: which of them, and when that changes. */
export interface Servers {
  /** A URL for each, in the order in which they are preferred. */
  readonly urls: readonly string[]
  /** The one that took writes when it was last looked. */
  current(): string
  /** Looks which one takes writes now. Several callers share one look. @throws Error when none does */
  find(): Promise<string>
  /**
   * Looks twice a second, until the returned function is called, whether the current one still answers. `left` is called with
   * a server once another one has taken its place: connections to it may hang.
   */
  watch(left: (url: string) => void): () => void
}

/** None of several servers takes writes now. */
export class NoWritableServerError extends Error {}

/** A server that does not answer in this time is passed over. */
const PROBE_MS = 1_000
/** A standby is asked so often whether it was promoted, while another server has not answered yet. */
const AGAIN_MS = 200
/** How much earlier a preferred server is asked. */
const STAGGER_MS = 100
const WATCH_MS = 500

/** @throws Error when the server of this connection is a standby, or is set to refuse writes */
export async function requireWritable(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ writable: boolean }>(
    "select not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off' as writable",
  )
  if (rows[0]?.writable !== true) throw new Error('the server takes no writes')
}

/** A connection to one server, which takes writes. */
async function open(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: PROBE_MS,
    query_timeout: PROBE_MS,
    application_name: 'halfkey failover',
    keepAlive: true,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    await requireWritable(client)
    return client
  } catch (error) {
    close(client)
    throw error
  }
}

/** Without waiting: the server may be gone. */
const close = (client: pg.Client) => client.connection.stream.destroy()

const hostOf = (url: string) => URL.parse(url)?.host || 'a local socket'
const reasonOf = (error: unknown) =>
  error instanceof Error ? error.message || (error as { code?: string }).code : error

/** Starts with the first; nothing is looked at yet. */
export function createServers(urls: readonly string[]): Servers {
  const watchers = new Set<(url: string) => void>()
  let current = urls[0] as string
  let finding: Promise<string> | undefined
  let watched: pg.Client | undefined
  let timer: NodeJS.Timeout | undefined

  /** Asks one server until it takes writes, or the time for that is over. */
  async function probe(url: string, at: number, isOver: () => boolean): Promise<string> {
    const deadline = performance.now() + PROBE_MS
    await pause(at * STAGGER_MS)
    for (;;) {
      if (isOver()) throw new Error('not asked')
      try {
        close(await open(url))
        return url
      } catch (error) {
        if (performance.now() > deadline) throw error
      }
      await pause(AGAIN_MS)
    }
  }

  async function look(): Promise<string> {
    let over = false
    // The current one first, then the others in their order.
    const order = [current, ...urls.filter((url) => url !== current)]
    try {
      const found = await Promise.any(order.map((url, at) => probe(url, at, () => over)))
      if (found !== current) {
        const left = current
        current = found
        for (const tell of watchers) tell(left)
      }
      return found
    } catch (error) {
      const reasons = (error as AggregateError).errors.map(
        (each, at) => `${hostOf(order[at] as string)}: ${reasonOf(each)}`,
      )
      throw new NoWritableServerError(`no server of the database takes writes (${reasons.join('; ')})`, {
        cause: error,
      })
    } finally {
      over = true
    }
  }

  function find(): Promise<string> {
    finding ??= look().finally(() => {
      finding = undefined
    })
    return finding
  }

  /**
   * Asks the current server over a connection that stays. When it does not answer, another may have taken its place: then all
   * are asked at once, because the current one may be waited for in vain.
   */
  async function check(): Promise<void> {
    if (watched !== undefined) {
      const answers = await requireWritable(watched).then(
        () => true,
        () => false,
      )
      if (answers) return
      close(watched)
    }
    watched = undefined
    watched = await find()
      .then(open)
      .catch(() => undefined)
  }

  function turn(): void {
    timer = setTimeout(() => void check().then(() => (watchers.size > 0 ? turn() : stop())), WATCH_MS)
    timer.unref()
  }

  function stop(): void {
    clearTimeout(timer)
    timer = undefined
    if (watched !== undefined) close(watched)
    watched = undefined
  }

  return {
    urls,
    current: () => current,
    find,
    watch(left) {
      watchers.add(left)
      if (timer === undefined) turn()
      return () => {
        watchers.delete(left)
        if (watchers.size === 0) stop()
      }
    },
  }
}
