import type { Db } from '../../platform/db/db.ts'
import type { CounterSink } from '../../platform/events/counters.ts'
import type { FeedEvent, Follower } from '../../platform/events/feed.ts'
import type { Id } from '../../platform/ids.ts'
import {
  type Activity,
  addDays,
  countEvent,
  type Day,
  dayOf,
  type Gathered,
  gatherCounts,
  READ_TYPES,
  recordActive,
} from './counters.ts'
import * as store from './store.ts'

/** The cursor's name. */
export const FOLLOWER = 'analytics'

/** More than the longest period, with room for clocks that differ. */
const ACTIVITY_KEPT_DAYS = 95
const USERS_A_DELETION = 5_000

/**
 * Stores the days on which users were active, and counts what that changes: for each day the users whose last active day
 * it is, and with `countsActive` those who were not active on it before. The caller has locked the tenant's cursor.
 */
export async function recordActivities(
  tx: Db,
  tenantId: Id<'ten'>,
  activities: readonly Activity[],
  counts: Gathered,
  countsActive = true,
): Promise<void> {
  if (activities.length === 0) return
  const known = await store.findActiveDays(tx, tenantId, [...new Set(activities.map((each) => each.userId))])
  const kept = new Map<string, store.KeptActivity>()
  for (const { userId, appId, day } of activities) {
    const before = kept.get(userId) ?? known.get(userId)
    const { active, isNew } = recordActive(before, day)
    if (!isNew) continue
    if (countsActive) counts.add(tenantId, appId, day, 'active_users', 1)
    if (active.lastDay !== before?.lastDay) {
      if (before !== undefined) counts.add(tenantId, appId, before.lastDay, 'last_active_users', -1)
      counts.add(tenantId, appId, active.lastDay, 'last_active_users', 1)
    }
    kept.set(userId, { userId, appId, ...active })
  }
  await store.keepActiveDays(tx, tenantId, [...kept.values()])
}

async function fold(tx: Db, tenantId: Id<'ten'>, events: readonly FeedEvent[]): Promise<void> {
  const counts = gatherCounts()
  const activities = events.flatMap((event) =>
    countEvent(counts, tenantId, { ...event, actor: event.context.actor ?? null }),
  )
  await recordActivities(tx, tenantId, activities, counts)
  await store.addCounts(tx, counts.rows())
}

/** Counts events by the day on which they happened. */
export const analyticsFollower: Follower = { name: FOLLOWER, asyncCommit: true, bodiesOf: READ_TYPES, fold }

/** Counts deliveries and requests by the day on which they ended, and users who were imported without events. */
export const analyticsCounters: CounterSink = {
  async add(tx, increments) {
    const counts = gatherCounts()
    for (const { tenantId, appId, metric, at, n } of increments) counts.add(tenantId, appId, dayOf(at), metric, n)
    await store.addCounts(tx, counts.rows())
  },
}

/** Makes the maintenance task that deletes active days older than any period; a portion per call. */
export function createActivitySweep(now: () => Date): (db: Db) => Promise<boolean> {
  const start = { tenantId: '', userId: '' }
  let after: store.ActivePlace = start
  return async (db) => {
    const since: Day = addDays(dayOf(now()), -ACTIVITY_KEPT_DAYS)
    const seen = await store.deleteOldActivity(db, after, since, USERS_A_DELETION)
    after = seen ?? start
    return seen !== undefined
  }
}
