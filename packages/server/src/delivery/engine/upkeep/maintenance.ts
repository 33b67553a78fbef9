import { type Db, isOutage } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import type { Publisher } from '../../../platform/events/events.ts'
import { deleteExpiredAnswers } from '../../../platform/http/idempotency.ts'
import { createSweepOfAlerts, forgetOldMinutes } from '../health/alerts.ts'
import type { AttemptCounts } from '../health/attempt-counts.ts'
import { createReleaseOfStranded } from '../ordered.ts'
import type { Heartbeat } from './leases.ts'
import { forgetDeadWorkers, reap, wakeStrandedLanes } from './leases.ts'
import { createEndOfHeld, deleteExpired, removeDeleted, withSweepLock } from './sweep.ts'

const MINUTE_MS = 60_000
const LOCK_SWEEP = 4_812_570_347
const LOCK_RETENTION = 4_812_570_348

/** Other periodic work of a worker, such as recover jobs. @returns whether there is more to do at once */
export type EngineTask = (db: Db) => Promise<boolean>

/** What keeps the engine's tables in order: lost leases, paused lanes, maintenance tasks, and each minute the retention. */
export function createMaintenance(
  deps: Deps,
  publisher: Publisher,
  heartbeat: Heartbeat,
  options: { tasks: readonly EngineTask[]; followers: readonly string[]; counts: AttemptCounts },
) {
  const { db, log, metrics, config } = deps
  const { tasks, followers, counts } = options
  let minuteAt = performance.now()
  const pending = { events: false, answers: false }
  const releaseStranded = createReleaseOfStranded(db)
  const sweepAlerts = createSweepOfAlerts(publisher)
  const endHeld = createEndOfHeld(deps.now)

  /** Runs one step. A failure is logged and does not prevent the other steps; an outage ends the round. */
  async function step(name: string, work: () => Promise<number | boolean>): Promise<number> {
    try {
      return Number(await work())
    } catch (error) {
      if (isOutage(error)) throw error
      log.error({ err: error, step: name }, 'maintenance step failed')
      return 0
    }
  }

  const refused = (row: { id: string }, error: unknown) =>
    log.error({ err: error, deliveryId: row.id }, 'a lost delivery could not be taken over')

  async function everyMinute(): Promise<void> {
    const stranded = await step('stranded lanes', () => wakeStrandedLanes(db))
    if (stranded > 0) log.warn({ stranded }, 'lanes had due work and were not due')
    const behind = await step('stranded deliveries', releaseStranded)
    if (behind > 0) log.warn({ behind }, 'deliveries waited behind none')
    await step('deleted webhooks', () => withSweepLock(db, LOCK_SWEEP, removeDeleted))
    await step('dead workers', () => forgetDeadWorkers(db))
    await step('old minutes', () => withSweepLock(db, LOCK_SWEEP, forgetOldMinutes))
    await step('alerts', () => withSweepLock(db, LOCK_SWEEP, sweepAlerts))
    pending.events = true
    pending.answers = true
  }

  /** One batch per round until nothing is left, so that lost leases do not wait for a large deletion. */
  async function expire(): Promise<void> {
    const { retentionMs, deadLetterRetentionMs } = config
    if (pending.events) {
      const retention = { retentionMs, deadLetterRetentionMs, followers }
      const events = () => withSweepLock(db, LOCK_RETENTION, (tx) => deleteExpired(tx, retention))
      pending.events = (await step('retention', events)) > 0
    }
    if (pending.answers) pending.answers = (await step('idempotency keys', () => deleteExpiredAnswers(db))) > 0
  }

  /** One round. @returns whether deliveries became due, and whether there is more to do at once */
  return async function upkeep(): Promise<{ due: boolean; more: boolean }> {
    const lost = heartbeat.settled() ? await step('lost leases', () => reap(db, publisher, refused)) : 0
    if (lost > 0) {
      metrics.leasesLost.inc(lost)
      log.warn({ lost }, 'leases lost')
    }
    const held = await step('held lanes', () => withSweepLock(db, LOCK_SWEEP, endHeld))
    await step('recent attempts', () => counts.recordDue().then(() => 0))
    let worked = 0
    for (const task of tasks) worked += await step('maintenance task', () => task(db))
    if (performance.now() - minuteAt > MINUTE_MS) {
      minuteAt = performance.now()
      await everyMinute()
    }
    await expire()
    return { due: lost + worked > 0, more: lost + held + worked > 0 || pending.events || pending.answers }
  }
}
