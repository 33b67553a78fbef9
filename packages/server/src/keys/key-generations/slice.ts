import type { Slice } from '../../platform/slice.ts'
import { sweepKeyGenerations } from './end.ts'
import { KEY_GENERATION_ERRORS } from './errors.ts'
import { keyGenerationRoutes } from './routes.ts'

/** Distributed key generation between a client and the service. */
export const keyGenerationSlice: Slice = {
  routes: keyGenerationRoutes,
  errors: KEY_GENERATION_ERRORS,
  tasks: (deps) => [(db) => sweepKeyGenerations({ ...deps, db })],
}
