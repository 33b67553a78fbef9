import { failures } from '../../../platform/http/errors.ts'

export const BEFORE_CREATE_ERRORS = {
  sign_in_refused: [403, 'This app does not let this user sign in now.'],
  sign_in_hook_failed: [
    500,
    "The app's server did not decide about this sign-in. Nobody was signed in. Retry in some seconds, or check the server at signInHook.url of the app.",
  ],
} as const

export const fail = failures(BEFORE_CREATE_ERRORS)
