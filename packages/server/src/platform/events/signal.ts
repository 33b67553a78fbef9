import pg from 'pg'
import { type Connection, type Db, sql } from '../db/db.ts'
import type { Logger } from '../observability/log.ts'

const CHANNEL = 'halfkey'
/**
 * Signals of one interval are sent as one: a notification costs every commit a moment of a global lock. The interval is
 * as many milliseconds as signals were raised in the one before, up to this: where there are few, none waits.
 */
const COALESCE_MAX_MS = 20
const RECONNECT_MS = 500

export type SignalName = 'outbox' | 'due'

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

/** Receives other processes' signals on a dedicated connection, and reconnects until it is closed. */
export function listen(connection: Connection, signals: Record<SignalName, Signal>, log: Logger): Listener {
  let client: pg.Client | undefined
  let heard = false
  let closed = false
  let timer: NodeJS.Timeout | undefined

  async function connect(): Promise<void> {
    const next = new pg.Client({ ...connection, application_name: 'halfkey listener', keepAlive: true })
    client = next
    next.on('error', () => lost(next))
    next.on('end', () => lost(next))
    next.on('notification', ({ payload }) => signals[payload as SignalName]?.raise())
    await next.connect()
    await next.query(`listen ${CHANNEL}`)
    heard = true
    // Signals raised before we listened.
    for (const signal of Object.values(signals)) signal.raise()
  }

  function lost(which: pg.Client): void {
    if (which !== client || closed) return
    heard = false
    client = undefined
    which.end().catch(() => {})
    timer = setTimeout(start, RECONNECT_MS)
  }

  function start(): void {
    const attempt = connect()
    const which = client
    attempt.catch((error: unknown) => {
      log.debug({ err: error }, 'listener not connected')
      if (which !== undefined) lost(which)
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
