import type { Slice } from '../../platform/slice.ts'
import { tenantRoutes } from './routes.ts'

/** The tenant itself. */
export const tenantSlice: Slice = {
  routes: tenantRoutes,
}
