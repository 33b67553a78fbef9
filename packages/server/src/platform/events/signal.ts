import type pg from 'pg'
import { type Connection, openConnection } from '../db/connection.ts'
import { type Db, sql } from '../db/db.ts'
import { newId } from '../ids.ts'
import type { Logger } from '../observability/log.ts'

const CHANNEL = 'halfkey'
/**
 * Signals of one interval are sent as one: a notification costs every commit a moment of a global lock. The interval is
 * as many milliseconds as signals were raised in the one before, up to this: where there are few, none waits.
 */
const COALESCE_MAX_MS = 20
const RECONNECT_MS = 500

/** What there is to do: events to fan out, deliveries to send, or other work that is queued (jobs, emails). */
export type SignalName = 'outbox' | 'due' | 'tasks'

/** Raised by a producer of work and awaited by one worker. A signal raised while nobody waits is not lost. */
export interface Signal {
  raise(): void
  /** Resolves when the signal is raised, or after `timeoutMs`. */
  wait(timeoutMs: number): Promise<void>
}

export function createSignal(): Signal {
  let raised = false
  let waiter: (() => void) | undefined
  return {
    raise() {
      raised = true
      waiter?.()
    },
    wait(timeoutMs) {
      if (raised || timeoutMs <= 0) {
        raised = false
        return Promise.resolve()
      }
      return new Promise((resolve) => {
        const timer = setTimeout(() => waiter?.(), timeoutMs)
        waiter = () => {
          clearTimeout(timer)
          waiter = undefined
          raised = false
          resolve()
        }
      })
    },
  }
}

/** Raises the signals of other processes: after the commit, never in its transaction, at most once per interval. */
export function createNotifier(db: Db, log: Logger): (signal: SignalName) => void {
  const pending = new Set<SignalName>()
  let raised = 0
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    const names = [...pending]
    pending.clear()
    timer = names.length === 0 ? undefined : setTimeout(send, Math.min(raised, COALESCE_MAX_MS))
    raised = 0
    if (names.length === 0) return
    // Not heard, the worker polls: a lost notification costs a moment, never an event.
    db.run(sql`select pg_notify(${CHANNEL}, name) from unnest(${names}::text[]) as name`).catch((error: unknown) =>
      log.debug({ err: error }, 'notification not sent'),
    )
  }

  return (signal) => {
    pending.add(signal)
    raised += 1
    if (timer === undefined) send()
  }
}

export interface Listener {
  /** Whether notifications are heard now; while not, poll. */
  listening(): boolean
  close(): Promise<void>
}

/** How often a listener sends a notification to itself, and how long that may take. */
const ECHO_MS = 10_000
const ECHO_WAIT_MS = 2_000

/**
 * Receives other processes' signals on a dedicated connection, and reconnects until it is closed. It believes only what it
 * hears: a notification that it sends to itself, over another connection, because behind a pooler one connection may return
 * it by luck.
 */
export function listen(
  connection: Connection,
  signals: Record<SignalName, Signal>,
  { probeDb: db, log }: { probeDb: Db; log: Logger },
): Listener {
  const echo = `echo ${newId('job')}`
  let client: pg.Client | undefined
  let heard = false
  let answered = false
  let warned = false
  let closed = false
  let timer: NodeJS.Timeout | undefined

  function hear(): void {
    answered = true
    if (heard) return
    heard = true
    if (warned) log.info({}, 'notifications of other processes are heard again')
    warned = false
    // Signals raised before we listened.
    for (const signal of Object.values(signals)) signal.raise()
  }

  async function connect(): Promise<void> {
    const next = await openConnection(connection, { application_name: 'halfkey listener', keepAlive: true })
    if (closed) return void next.end().catch(() => {})
    client = next
    next.on('error', () => lost(next))
    next.on('end', () => lost(next))
    next.on('notification', ({ payload }) => (payload === echo ? hear() : signals[payload as SignalName]?.raise()))
    try {
      await next.query(`listen ${CHANNEL}`)
      await verify(next)
    } catch (error) {
      lost(next)
      throw error
    }
  }

  async function verify(which: pg.Client): Promise<void> {
    answered = false
    await db.run(sql`select pg_notify(${CHANNEL}, ${echo})`)
    if (which === client) timer = setTimeout(() => judge(which), ECHO_WAIT_MS)
  }

  function judge(which: pg.Client): void {
    if (answered) {
      timer = setTimeout(() => verify(which).catch(() => lost(which)), ECHO_MS)
      return
    }
    if (!warned)
      log.warn(
        {},
        'notifications are not heard, so work of other processes is found by polling: DATABASE_DIRECT_URL must lead to PostgreSQL itself, not to a pooler',
      )
    warned = true
    lost(which)
  }

  function lost(which: pg.Client): void {
    if (which !== client || closed) return
    clearTimeout(timer)
    heard = false
    client = undefined
    which.connection.stream.destroy()
    timer = setTimeout(start, RECONNECT_MS)
  }

  function start(): void {
    connect().catch((error: unknown) => {
      log.debug({ err: error }, 'listener not connected')
      if (client === undefined && !closed) {
        clearTimeout(timer)
        timer = setTimeout(start, RECONNECT_MS)
      }
    })
  }

  start()
  return {
    listening: () => heard,
    async close() {
      closed = true
      heard = false
      clearTimeout(timer)
      await client?.end().catch(() => {})
    },
  }
}
