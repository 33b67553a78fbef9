import { failures } from '../../../platform/http/errors.ts'

export const BEFORE_CREATE_ERRORS = {
  sign_in_refused: [403, 'This app does not let this user sign in now.'],
  sign_in_hook_failed: [
    500,
    "The app's server, which decides about sign-ins, did not answer as expected. Nobody was signed in. Retry in some seconds.",
  ],
} as const

export const fail = failures(BEFORE_CREATE_ERRORS)
