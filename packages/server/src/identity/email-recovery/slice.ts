import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { passkeyAdded, recoveryRefuted } from './complete.ts'
import { sendNotices } from './notices.ts'
import { RECOVERY_RECORD } from './recovery-record.ts'
import { emailRecoveryRoutes } from './routes.ts'
import { deleteOldRecoveries, EMAIL_RECOVERY_ERRORS } from './service.ts'

/** Recovery of an account whose passkeys are lost, by its confirmed email and a wait. */
export const emailRecoverySlice: Slice = {
  routes: emailRecoveryRoutes,
  errors: EMAIL_RECOVERY_ERRORS,
  hooks: { passkeyAdded, recoveryRefuted },
  records: [RECOVERY_RECORD],
  tasks: (deps) => [(db) => sendNotices({ ...deps, db }), hourly(deleteOldRecoveries)],
}
