import type { Slice } from '../../platform/slice.ts'
import { RECOVERY_ERRORS } from './errors.ts'
import { sweepResharings } from './reshare.ts'
import { recoveryRoutes } from './routes.ts'

/** Recovery: shares are released, combined or reshared. */
export const recoverySlice: Slice = {
  routes: recoveryRoutes,
  errors: RECOVERY_ERRORS,
  tasks: (deps) => [(db) => sweepResharings({ ...deps, db })],
}
