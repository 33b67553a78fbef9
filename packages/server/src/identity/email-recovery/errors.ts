import { failures } from '../../platform/http/errors.ts'

export const EMAIL_RECOVERY_ERRORS = {
  recovery_not_needed: [
    409,
    'This account is opened without a recovery. Sign in by email and, if it has a second factor, show that; then add a passkey.',
  ],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const

export const fail = failures(EMAIL_RECOVERY_ERRORS)
