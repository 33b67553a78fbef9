import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { deleteExpiredKeys, PUBLISH_ERRORS } from './publish.ts'
import { eventRoutes } from './routes.ts'

/** The pull feed of events, and events that teams publish. */
export const eventSlice: Slice = {
  routes: eventRoutes,
  errors: PUBLISH_ERRORS,
  tasks: ({ now }) => [hourly((db) => deleteExpiredKeys(db, now()))],
}
