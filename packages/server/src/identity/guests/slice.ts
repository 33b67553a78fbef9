import type { Slice } from '../../platform/slice.ts'
import { sweepGuests } from './expiry.ts'
import { guestRoutes } from './routes.ts'
import { GUEST_ERRORS } from './service.ts'

/** Guests, and their conversion to users. */
export const guestSlice: Slice = {
  routes: guestRoutes,
  errors: GUEST_ERRORS,
  tasks: (deps) => [(db) => sweepGuests({ ...deps, db })],
}
