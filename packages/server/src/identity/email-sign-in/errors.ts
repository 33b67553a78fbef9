import { failures } from '../../platform/http/errors.ts'

export const EMAIL_SIGN_IN_ERRORS = {
  invalid_code: [400, 'This code is wrong or was already used.'],
  sign_up_disabled: [403, 'No user has this address, and this app lets nobody sign up by email.'],
  email_sign_in_disabled: [404, 'Users of this app cannot sign in by email. Set email.enabled of the app.'],
  email_recovery_disabled: [
    404,
    'Users of this app cannot recover their account by email. Set emailRecovery.enabled of the app.',
  ],
  email_not_linked: [
    409,
    'An account has this address without having confirmed it. Sign in to it as before and link the address, or start a new account.',
  ],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
  email_locked: [429, 'Too many wrong codes for this address. Wait as long as Retry-After says.'],
} as const

export const fail = failures(EMAIL_SIGN_IN_ERRORS)
