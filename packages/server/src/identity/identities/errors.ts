import { failures } from '../../platform/http/errors.ts'

/** How many identities a user can have. */
export const IDENTITIES_MAX = 50

export const IDENTITY_ERRORS = {
  identity_unknown: [
    403,
    'No user has this identity, and it does not create one. A user can link it while they are signed in.',
  ],
  last_sign_in_method: [409, 'Without this, the user could not sign in. Add another way to sign in first.'],
  identity_limit: [409, `A user can have at most ${IDENTITIES_MAX} identities. Unlink one first.`],
} as const

export const fail = failures(IDENTITY_ERRORS)
