import { failures } from '../../platform/http/errors.ts'

/** How many passkeys a user can have. The options of every email-first login contain their ids. */
export const PASSKEYS_MAX = 50

export const PASSKEY_ERRORS = {
  attestation_invalid: [400, 'This passkey could not be verified. Start again.'],
  assertion_invalid: [401, 'This passkey could not be verified. Start again.'],
  passkey_cannot_approve: [
    403,
    'This passkey cannot approve: it is less than 24 hours old, or a server took part in its creation. Use another one.',
  ],
  passkey_limit: [409, `A user can have at most ${PASSKEYS_MAX} passkeys. Remove one first.`],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const

export const fail = failures(PASSKEY_ERRORS)
