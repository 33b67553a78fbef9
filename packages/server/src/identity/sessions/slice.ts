import { hourly } from '../../platform/maintenance.ts'
import { SIGNING_KEY_RECORD } from '../../platform/security/records/signing-key-record.ts'
import { USER_SESSION_RECORD } from '../../platform/security/records/user-session-record.ts'
import { deleteOldRevocations } from '../../platform/security/revocations.ts'
import type { Slice } from '../../platform/slice.ts'
import { BEFORE_CREATE_ERRORS } from './before-create/errors.ts'
import { jwksRoute, sessionRoutes } from './routes.ts'
import { SERVER_VERIFICATION_RECORD } from './server-verification-record.ts'
import { deleteOldSessions } from './service.ts'

/** Sessions of signed-in users and their tokens. */
export const sessionSlice: Slice = {
  routes: sessionRoutes,
  plainRoutes: [jwksRoute],
  errors: BEFORE_CREATE_ERRORS,
  records: [USER_SESSION_RECORD, SERVER_VERIFICATION_RECORD, SIGNING_KEY_RECORD],
  tasks: () => [hourly(deleteOldSessions), hourly(deleteOldRevocations)],
}
