import type { Slice } from '../../platform/slice.ts'
import { eventRoutes } from './routes.ts'

/** The pull feed of events. */
export const eventSlice: Slice = {
  routes: eventRoutes,
}
