import pg from 'pg'
import type { Connection, Db } from '../db/db.ts'
import { sql } from '../db/db.ts'
import type { Logger } from '../observability/log.ts'

const CHANNEL = 'halfkey'
/** Rings of one interval are sent as one: a notification costs every commit a moment of a global lock. */
const COALESCE_MS = 20
const RECONNECT_MS = 500

export type BellName = 'outbox' | 'due'

/** A bell: rung by whoever makes work, waited for by whoever does it. A ring while nobody waits is not lost. */
export interface Bell {
  ring(): void
  /** Until the next ring, at most `timeoutMs`. */
  wait(timeoutMs: number): Promise<void>
}

export function createBell(): Bell {
  let rung = false
  let waiter: (() => void) | undefined
  return {
    ring() {
      rung = true
      waiter?.()
    },
    wait(timeoutMs) {
      if (rung || timeoutMs <= 0) {
        rung = false
        return Promise.resolve()
      }
      return new Promise((resolve) => {
        const timer = setTimeout(() => waiter?.(), timeoutMs)
        waiter = () => {
          clearTimeout(timer)
          waiter = undefined
          rung = false
          resolve()
        }
      })
    },
  }
}

/** Rings the bells of other processes: after the commit, never in its transaction, and at most once an interval. */
export function createNotifier(db: Db, log: Logger): (bell: BellName) => void {
  const pending = new Set<BellName>()
  let timer: NodeJS.Timeout | undefined
  return (bell) => {
    pending.add(bell)
    if (timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      const names = [...pending]
      pending.clear()
      // Not heard, the worker polls: a lost notification costs a moment, never an event.
      db.run(sql`select pg_notify(${CHANNEL}, name) from unnest(${names}::text[]) as name`).catch((error: unknown) =>
        log.debug({ err: error }, 'notification not sent'),
      )
    }, COALESCE_MS)
  }
}

export interface Listener {
  /** Whether notifications are heard now; while not, poll. */
  listening(): boolean
  close(): Promise<void>
}

/** Hears other processes' rings on a connection of its own, reconnecting for as long as it is open. */
export function listen(connection: Connection, bells: Record<BellName, Bell>, log: Logger): Listener {
  let client: pg.Client | undefined
  let heard = false
  let closed = false
  let timer: NodeJS.Timeout | undefined

  async function connect(): Promise<void> {
    const next = new pg.Client({ ...connection, application_name: 'halfkey listener', keepAlive: true })
    client = next
    next.on('error', () => lost(next))
    next.on('end', () => lost(next))
    next.on('notification', ({ payload }) => bells[payload as BellName]?.ring())
    await next.connect()
    await next.query(`listen ${CHANNEL}`)
    heard = true
    // Whatever was rung before we listened.
    for (const bell of Object.values(bells)) bell.ring()
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
