import type { Slice } from '../../platform/slice.ts'
import { healthProbes, healthRoutes } from './routes.ts'

/** Probes. */
export const healthSlice: Slice = {
  routes: healthRoutes,
  plainRoutes: healthProbes,
}
