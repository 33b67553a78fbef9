import { failures } from '../../platform/http/errors.ts'

export const EMAIL_RECOVERY_ERRORS = {
  recovery_not_needed: [
    409,
    'This account is not recovered by email. Sign in by email, verify the second factor if there is one, and add a passkey.',
  ],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const

export const fail = failures(EMAIL_RECOVERY_ERRORS)
