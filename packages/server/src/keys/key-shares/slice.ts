import type { Slice } from '../../platform/slice.ts'
import { KEY_SHARE_ERRORS } from './errors.ts'
import { keyShareRoutes } from './routes.ts'

/** Key shares: stored, read, changed, deleted. */
export const keyShareSlice: Slice = {
  routes: keyShareRoutes,
  errors: KEY_SHARE_ERRORS,
}
