import type { Slice } from '../../platform/slice.ts'
import { subscriberRoutes } from './routes.ts'

/** Apps' own customers, who receive the events that apps publish for them. */
export const subscriberSlice: Slice = {
  routes: subscriberRoutes,
}
