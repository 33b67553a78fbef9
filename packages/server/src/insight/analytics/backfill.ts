import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { lockCursor } from '../../platform/events/feed.ts'
import type { Id } from '../../platform/ids.ts'
import { addDays, countEvent, type Day, dayOf, daysBetween, gatherCounts, startOf } from './counters.ts'
import { FOLLOWER, recordActivities } from './follow.ts'
import * as store from './store.ts'

/** Days that are left as they are, for some of their events are past their retention. */
export interface UnkeptDays {
  tenantId: Id<'ten'>
  from: Day
  /** The last of them. */
  to: Day
}

/** What is to be counted again for one tenant. */
export interface BackfillPlan {
  tenantId: Id<'ten'>
  /** The earliest first, today last. */
  days: Day[]
  unkept: UnkeptDays[]
}

/** An event's time may lie so far from that of its neighbours in the feed. */
const SKEW_MS = 60_000

/** The first day of which everything is kept, by what `keptSince` says. */
const firstKeptDay = (since: Date): Day => addDays(dayOf(new Date(since.getTime() + SKEW_MS)), 1)

/** No earlier day is counted. */
const DAYS_MAX = 3_660

const later = (a: Day, b: Day): Day => (a > b ? a : b)

/** The tenants whose days can be counted again: the named one, or all that ever had an event. Undefined: there is none such. */
export async function tenantsToBackfill(db: Db, tenantId: string | null): Promise<Id<'ten'>[] | undefined> {
  if (tenantId !== null && !(await store.hasTenant(db, tenantId))) return undefined
  return store.listFedTenants(db, tenantId)
}

/** Which of a tenant's days are wholly kept. `from`: none before it; null for the first that has an event. */
export async function planBackfill(deps: Deps, tenantId: Id<'ten'>, from: Day | null): Promise<BackfillPlan> {
  const today = dayOf(deps.now())
  const first = await store.firstDay(deps.db, tenantId)
  const since = await store.keptSince(deps.db, tenantId)
  const start = later(from ?? first ?? today, addDays(today, -DAYS_MAX))
  const kept = since === null ? start : firstKeptDay(since)
  const begin = later(start, kept)
  const days = Array.from({ length: Math.max(0, daysBetween(begin, today) + 1) }, (_, index) => addDays(begin, index))
  const unkeptTo = kept > today ? today : addDays(kept, -1)
  const isUnkept = since !== null && start <= unkeptTo
  return { tenantId, days, unkept: isUnkept ? [{ tenantId, from: start, to: unkeptTo }] : [] }
}

/** The transaction is to be undone: retention took some of the day's events meanwhile. */
class NotKept extends Error {}

/**
 * Counts a day again from its events, in one transaction that keeps the follower away from the tenant: what that has not
 * folded yet is left to it. @returns false where the day is not wholly kept any more, and stays as it was
 */
export async function backfillDay(deps: Deps, tenantId: Id<'ten'>, day: Day): Promise<boolean> {
  try {
    await deps.db.tx(async (tx) => {
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
      // After the reading: what went before or during it has left its gap by now.
      const since = await store.keptSince(tx, tenantId)
      if (since !== null && day < firstKeptDay(since)) throw new NotKept()
      await store.clearEventCounts(tx, tenantId, day)
      await store.addCounts(tx, counts.rows())
    })
    return true
  } catch (error) {
    if (error instanceof NotKept) return false
    throw error
  }
}

/** Puts right, out of what is kept of each user, how many were last active on which day. */
export async function backfillLastActive(deps: Deps, tenantId: Id<'ten'>): Promise<void> {
  await deps.db.tx(async (tx) => {
    await lockCursor(tx, tenantId, FOLLOWER)
    await store.recountLastActive(tx, tenantId)
  })
}
