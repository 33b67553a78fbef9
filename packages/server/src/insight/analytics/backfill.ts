import { isStatementTimeout } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { lockCursor } from '../../platform/events/feed.ts'
import type { Id } from '../../platform/ids.ts'
import { addDays, countEvent, type Day, dayOf, daysFrom, gatherCounts, startOf } from './counters.ts'
import { FOLLOWER, recordActivities } from './follow.ts'
import * as store from './store.ts'

/** Days that are not counted again, because some of their events were deleted after their retention. */
export interface UnkeptDays {
  tenantId: Id<'ten'>
  from: Day
  /** The last of these days. */
  to: Day
}

/** What is to be counted again for one tenant. */
export interface BackfillPlan {
  /** The earliest first, today last. */
  days: Day[]
  unkept: UnkeptDays[]
}

/** How far the times of neighbours in the feed may be out of order. */
const SKEW_MS = 60_000

/** The first day of which all events are kept, by `keptSince`. */
const firstKeptDay = (since: Date): Day => addDays(dayOf(new Date(since.getTime() + SKEW_MS)), 1)

/** No earlier day is counted. */
const DAYS_MAX = 3_660

const later = (a: Day, b: Day): Day => (a > b ? a : b)

/** The days of a tenant whose events are all kept. `from`: the first day to count; null for the first with an event. */
export async function planBackfill(deps: Deps, tenantId: Id<'ten'>, from: Day | null): Promise<BackfillPlan> {
  const today = dayOf(deps.now())
  const first = await store.firstDay(deps.db, tenantId)
  const since = await store.keptSince(deps.db, tenantId)
  const start = later(from ?? first ?? today, addDays(today, -DAYS_MAX))
  if (since === null) return { days: daysFrom(start, today), unkept: [] }
  const kept = firstKeptDay(since)
  const to = kept > today ? today : addDays(kept, -1)
  return { days: daysFrom(later(start, kept), today), unkept: start <= to ? [{ tenantId, from: start, to }] : [] }
}

/** Each may wait as long as a statement may: four minutes in all. */
const TRIES_MAX = 16

/** Tries again while others hold the follower's cursor for longer than a statement may wait: other backfills, a busy follower. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (!isStatementTimeout(error) || tries === TRIES_MAX) throw error
    }
  }
}

/** Rolls the transaction back: retention deleted some of the day's events meanwhile. */
class NotKept extends Error {}

/**
 * Counts a day again from its events, in one transaction that locks the follower's cursor. Events that the follower has
 * not folded yet are left to it. @returns false if events of the day were deleted: then its counts do not change
 */
export async function backfillDay(deps: Deps, tenantId: Id<'ten'>, day: Day): Promise<boolean> {
  try {
    await patiently(() =>
      deps.db.tx(async (tx) => {
        const upTo = await lockCursor(tx, tenantId, FOLLOWER)
        const counts = gatherCounts()
        const active = new Set<string>()
        const where = { tenantId, upTo, from: startOf(day), until: startOf(addDays(day, 1)) }
        for await (const events of store.readEvents(tx, where)) {
          const activities = events.flatMap((event) => countEvent(counts, tenantId, event))
          for (const { userId, appId } of activities) {
            if (active.has(userId)) continue
            active.add(userId)
            counts.add(tenantId, appId, day, 'active_users', 1)
          }
          await recordActivities(tx, tenantId, activities, counts, false)
        }
        // Checked after reading, so that it covers events deleted before or during it.
        const since = await store.keptSince(tx, tenantId)
        if (since !== null && day < firstKeptDay(since)) throw new NotKept()
        await store.clearEventCounts(tx, tenantId, day)
        await store.addCounts(tx, counts.rows())
      }),
    )
    return true
  } catch (error) {
    if (error instanceof NotKept) return false
    throw error
  }
}

/** Corrects, from the users' rows, how many users were last active on each day. */
export async function backfillLastActive(deps: Deps, tenantId: Id<'ten'>): Promise<void> {
  await patiently(() =>
    deps.db.tx(async (tx) => {
      await lockCursor(tx, tenantId, FOLLOWER)
      await store.recountLastActive(tx, tenantId)
    }),
  )
}
