import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { ENCRYPTION_KEY_RECORD } from './encryption-key-record.ts'
import { CUSTODY_ERRORS } from './errors.ts'
import { custodyRoutes } from './routes.ts'
import { deleteOldEncryptionKeys } from './service.ts'
import { SHARE_RECORD } from './share-record.ts'
import { removeWrapsOf } from './wraps.ts'

/** Key shares at rest, and the service's part of signatures. */
export const custodySlice: Slice = {
  routes: custodyRoutes,
  errors: CUSTODY_ERRORS,
  hooks: { passkeyRemoved: removeWrapsOf },
  records: [SHARE_RECORD, ENCRYPTION_KEY_RECORD],
  tasks: () => [hourly(deleteOldEncryptionKeys)],
}
