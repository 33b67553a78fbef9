import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { custodyRoutes } from './routes.ts'
import { CUSTODY_ERRORS, deleteOldEncryptionKeys, removeWrapsOf } from './service.ts'

/** Key shares at rest, and the service's part of signatures. */
export const custodySlice: Slice = {
  routes: custodyRoutes,
  errors: CUSTODY_ERRORS,
  hooks: { passkeyRemoved: removeWrapsOf },
  tasks: () => [hourly(deleteOldEncryptionKeys)],
}
