import type { Db } from '../../core/db.ts'
import type { Deps } from '../../core/deps.ts'
import type { Publisher } from '../../core/events.ts'
import { forgetDeadWorkers, reap, wakeStrandedLanes } from './leases.ts'
import type { Pulse } from './pulse.ts'
import { alone, deleteExpired, removeDeleted, settleHeld } from './sweep.ts'

const MINUTE_MS = 60_000
const LOCK_SWEEP = 4_812_570_347
const LOCK_RETENTION = 4_812_570_348

/** More periodic work of a worker, such as recover jobs; answers whether there is more at once. */
export type Chore = (db: Db) => Promise<boolean>

/** What keeps the engine's tables in order: lost leases, held lanes, chores, and each minute what is past its time. */
export function createUpkeep(deps: Deps, publisher: Publisher, pulse: Pulse, chores: readonly Chore[]) {
  const { db, log, metrics, config } = deps
  let minuteAt = performance.now()
  let expiring = false

  async function everyMinute(): Promise<void> {
    const stranded = await wakeStrandedLanes(db)
    if (stranded > 0) log.warn({ stranded }, 'lanes had due work and were not due')
    await alone(db, LOCK_SWEEP, removeDeleted)
    await forgetDeadWorkers(db)
    expiring = true
  }

  /** A portion a round until nothing is left: lost leases do not wait for a large deletion. */
  async function expire(tx: Db): Promise<number> {
    return deleteExpired(tx, config.retentionMs, config.deadLetterRetentionMs)
  }

  /** One round. @returns whether deliveries became due, and whether there is more to do at once */
  return async function upkeep(): Promise<{ due: boolean; more: boolean }> {
    let lost = 0
    if (pulse.settled()) lost = await reap(db, publisher)
    if (lost > 0) {
      metrics.leasesLost.inc(lost)
      log.warn({ lost }, 'leases lost')
    }
    let more = (await alone(db, LOCK_SWEEP, settleHeld)) > 0
    let due = lost > 0
    for (const chore of chores) {
      if (!(await chore(db))) continue
      more = true
      due = true
    }
    if (performance.now() - minuteAt > MINUTE_MS) {
      minuteAt = performance.now()
      await everyMinute()
    }
    if (expiring) expiring = (await alone(db, LOCK_RETENTION, expire)) > 0
    return { due, more: more || expiring }
  }
}
