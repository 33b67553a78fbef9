import { hourly } from '../../platform/maintenance.ts'
import { deleteOldChallenges } from '../../platform/security/challenges.ts'
import { CHALLENGE_RECORD } from '../../platform/security/records/challenge-record.ts'
import type { Slice } from '../../platform/slice.ts'
import { CODE_RECORD } from './code-record.ts'
import { signInPages, signInRoutes } from './routes.ts'
import { deleteOldCodes, SIGN_IN_ERRORS } from './service.ts'

/** The hosted sign-in page and its codes. */
export const signInSlice: Slice = {
  routes: signInRoutes,
  plainRoutes: signInPages,
  errors: SIGN_IN_ERRORS,
  records: [CODE_RECORD, CHALLENGE_RECORD],
  tasks: () => [hourly(deleteOldCodes), hourly(deleteOldChallenges)],
}
