import { followFeed } from '../../platform/events/feed.ts'
import { detached, hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { deleteOldEvents, reconcileSubscriptions } from './processor-events.ts'
import { billingRoutes, processorEventsRoute } from './routes.ts'
import { BILLING_ERRORS } from './service.ts'
import { usageFollower, usageSink } from './usage.ts'

/** Plans, usage and the payment processor. */
export const billingSlice: Slice = {
  routes: billingRoutes,
  plainRoutes: [processorEventsRoute],
  errors: BILLING_ERRORS,
  tasks: (deps) => [
    hourly((db) => deleteOldEvents(db, deps.now())),
    detached(
      deps,
      hourly((db) => reconcileSubscriptions({ ...deps, db })),
    ),
  ],
  followers: (deps) => {
    const follower = usageFollower(deps)
    return [{ name: follower.name, follow: () => followFeed(deps.db, follower) }]
  },
  counterSinks: (deps) => [usageSink(deps)],
}
