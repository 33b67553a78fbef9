import { followFeed } from '../../platform/events/feed.ts'
import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { analyticsCounters, analyticsFollower, createActivitySweep } from './follow.ts'
import { analyticsRoutes } from './routes.ts'

/** Daily counters for each app. */
export const analyticsSlice: Slice = {
  routes: analyticsRoutes,
  tasks: (deps) => [hourly(createActivitySweep(deps.now))],
  followers: (deps) => [{ name: analyticsFollower.name, follow: () => followFeed(deps.db, analyticsFollower) }],
  counterSinks: () => [analyticsCounters],
}
