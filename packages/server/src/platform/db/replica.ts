import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from '../observability/log.ts'
import { type Db, sql } from './db.ts'

/** A streaming standby that answers lists, so that the primary has less to do. */
export interface Replica {
  /**
   * The replica, once it shows everything that was committed before this call. Null if it does not get there soon, does not answer
   * or follows nobody: then the primary is to be asked.
   */
  caughtUp(): Promise<Db | null>
  /** Tells that a statement failed there. The primary is asked for a while. */
  failed(error: unknown): void
}

/** How long a list waits for the replica. */
const WAIT_MS = 250
const POLL_MS = 5
/** A replica that was late or failed is left alone for this long: nobody waits for it twice. */
const REST_MS = 2_000

interface Position {
  place: string
  timeline: string
}

/**
 * Where the primary's log is on disk: every commit that was answered lies before it. The timeline is the name's first eight
 * digits: after a failover, a standby of the former primary may be at a later place of a history that has ended.
 */
const positionOf = (primary: Db) =>
  primary.one<Position>(sql`
    select at::text as place, left(pg_walfile_name(at), 8) as timeline from pg_current_wal_flush_lsn() at`)

/**
 * Whether the standby has replayed the log up to this place, and follows this timeline. Who may not see what it receives
 * still sees that it does.
 */
const hasReplayed = (replica: Db, { place, timeline }: Position) =>
  replica.one<{ replayed: boolean; follows: boolean }>(sql`
    select pg_is_in_recovery() and pg_last_wal_replay_lsn() >= ${place}::pg_lsn as replayed,
      exists (select from pg_stat_wal_receiver
        where coalesce(lpad(upper(to_hex(received_tli)), 8, '0') = ${timeline}, true)) as follows`)

/** @param db connections to the standby that cannot write */
export function createReplica({ db, primary, log }: { db: Db; primary: Db; log: Logger }): Replica {
  let running: Promise<boolean> | undefined
  let next: Promise<boolean> | undefined
  let restsUntil = Number.NEGATIVE_INFINITY

  function rest(reason: object): void {
    if (performance.now() >= restsUntil) log.warn(reason, 'the read replica is passed over for two seconds')
    restsUntil = performance.now() + REST_MS
  }

  async function look(): Promise<boolean> {
    if (performance.now() < restsUntil) return false
    const deadline = performance.now() + WAIT_MS
    try {
      const position = await positionOf(primary)
      if (position === undefined) return false
      for (;;) {
        // One that hangs does not answer at all.
        const seen = await Promise.race([hasReplayed(db, position), pause(Math.max(1, deadline - performance.now()))])
        if (seen?.follows === true && seen.replayed) return true
        if (seen?.follows !== true || performance.now() > deadline) {
          rest({ reason: seen?.follows === false ? 'receives nothing' : 'late' })
          return false
        }
        await pause(POLL_MS)
      }
    } catch (error) {
      rest({ err: error })
      return false
    }
  }

  /** Calls share a look that begins after them: one that has begun may have asked the primary too early. */
  function shared(): Promise<boolean> {
    next ??= (running ?? Promise.resolve()).then(() => {
      running = next
      next = undefined
      return look()
    })
    return next
  }

  return {
    caughtUp: async () => (performance.now() >= restsUntil && (await shared()) ? db : null),
    failed: (error) => rest({ err: error }),
  }
}
