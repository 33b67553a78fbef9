import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { EMAIL_CHALLENGE_RECORD } from './challenge-record.ts'
import { emailSignInRoutes } from './routes.ts'
import { deleteOldChallenges, EMAIL_SIGN_IN_ERRORS } from './service.ts'

/** Sign-in by a code that is sent by email. */
export const emailSignInSlice: Slice = {
  routes: emailSignInRoutes,
  errors: EMAIL_SIGN_IN_ERRORS,
  records: [EMAIL_CHALLENGE_RECORD],
  tasks: () => [hourly(deleteOldChallenges)],
}
