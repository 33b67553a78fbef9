import type { Slice } from '../../platform/slice.ts'
import { eventTypeRoutes } from './routes.ts'
import { EVENT_TYPE_ERRORS } from './service.ts'

/** The types of the events that teams publish. */
export const eventTypeSlice: Slice = {
  routes: eventTypeRoutes,
  errors: EVENT_TYPE_ERRORS,
}
