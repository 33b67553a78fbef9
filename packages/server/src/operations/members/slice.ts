import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { MEMBER_ERRORS } from './errors.ts'
import { deleteOldChallenges } from './passkeys/store.ts'
import { MEMBER_CHALLENGE_RECORD, MEMBER_PASSKEY_RECORD, MEMBER_RECORD } from './records.ts'
import { memberRoutes } from './routes.ts'
import { MEMBER_CODE_RECORD, MEMBER_IDENTITY_RECORD, MEMBER_SIGN_IN_RECORD } from './sign-in/records.ts'
import { deleteOldCodes } from './sign-in/store.ts'

/** The people who use a tenant's dashboard, and their roles. */
export const memberSlice: Slice = {
  routes: memberRoutes,
  errors: MEMBER_ERRORS,
  records: [
    MEMBER_RECORD,
    MEMBER_PASSKEY_RECORD,
    MEMBER_CHALLENGE_RECORD,
    MEMBER_SIGN_IN_RECORD,
    MEMBER_CODE_RECORD,
    MEMBER_IDENTITY_RECORD,
  ],
  tasks: ({ now }) => [hourly((db) => deleteOldChallenges(db, now())), hourly(deleteOldCodes)],
}
