import { ApiError, NetworkError } from './client.js'
import { PasskeyCancelled, PasskeyFailed } from './passkeys.js'

/** The person did not want to prove who they are: what they had begun is off. */
export class Declined extends Error {}

/** A refusal whose words depend on what was being done. */
export class Refused extends Error {
  /**
   * @param {string} words for the person in front of the page
   * @param {string | null} [field] the input that they are about
   */
  constructor(words, field = null) {
    super(words)
    this.field = field
  }
}

/** What people are told for a code. The rest is told in general words, never in the server's. */
const WORDS = {
  challenge_expired: 'That took a little too long. Please try again.',
  challenge_used: 'That attempt was already used. Please try again.',
  assertion_invalid: 'That passkey did not work here. It may have been removed from the account.',
  attestation_invalid: 'The response of your device could not be verified. Please try again.',
  already_exists: 'This already belongs to another account.',
  already_converted: 'This guest account was already saved. Sign in with it instead.',
  code_invalid: 'That sign-in was already used or began in another tab. Please try again.',
  code_expired: 'That took a little too long. Please try again.',
  guest_expired: 'This guest session has ended. Go back and start again.',
  user_suspended: 'This account is suspended. Please contact the app’s support.',
  sign_in_refused: 'This app does not let you sign in now. Please contact the app’s support.',
  sign_in_hook_failed: 'You cannot sign in right now. Please try again in a minute.',
  mfa_already_enabled: 'Two-step verification is already on.',
  mfa_not_enabled: 'Two-step verification is already off.',
  mfa_setup_not_started: 'This setup was replaced by a newer one. Close it and start again.',
  mfa_setup_expired: 'The setup took too long. Close it and start again.',
  mfa_enrollment_required: 'Turn on two-step verification first, then try again.',
  mfa_required: 'This needs a code from your authenticator app.',
  reauthentication_required: 'For your safety, please sign in again first.',
  messenger_signature_invalid: 'The response from Telegram could not be verified. Please try again.',
  wallet_signature_invalid: 'The signature of your wallet could not be verified. Please try again.',
  external_wallets_disabled: 'Signing in with a wallet is no longer available here.',
  identity_unknown: 'No account here is linked to that sign-in. Sign in another way.',
  stronger_sign_in_required: 'This needs your passkey. Sign in with it first.',
  email_sign_in_disabled: 'Sign-in by email is no longer available here.',
  email_recovery_disabled: 'Accounts cannot be recovered by email here. Please contact the app’s support.',
  email_not_configured: 'Sign-in by email is not available at present.',
  email_locked: 'Too many wrong codes for this address. Sign in another way, or try again tomorrow.',
  sign_up_disabled: 'There is no account with this address.',
  messenger_not_configured: 'Telegram sign-in is no longer available here.',
  not_found: 'That no longer exists.',
  last_sign_in_method: 'This is your only passkey. Add another one before you remove it.',
  passkey_limit: 'You have reached the maximum number of passkeys. Remove one first.',
  origin_not_allowed: 'This app does not accept sign-ins from this address.',
}

const FIELD_WORDS = {
  email: 'Enter an email address like name@example.com, or leave the field empty.',
  name: 'Use a shorter name, of at most 200 characters.',
  deviceName: 'Use a shorter name.',
  code: 'Enter the 6 digits that your authenticator app shows.',
  recoveryCode: 'Enter one of your recovery codes exactly as it is written.',
}

/** @param {number} seconds */
function waitWords(seconds) {
  if (seconds < 60) return seconds <= 1 ? 'in a second' : `in ${seconds} seconds`
  const minutes = Math.ceil(seconds / 60)
  return minutes === 1 ? 'in a minute' : `in ${minutes} minutes`
}

/** @param {number | undefined} left */
function wrongCodeWords(left) {
  if (left === 0) return 'That code is incorrect. After too many wrong codes, please wait 15 minutes.'
  if (left === 1) return 'That code is incorrect. You have one attempt left.'
  return 'That code is incorrect. Check it and try again.'
}

/** @param {ApiError} error */
function apiWords(error) {
  const again = error.retryAfterSeconds === null ? 'later' : waitWords(error.retryAfterSeconds)
  if (error.code === 'mfa_locked') return `Too many wrong codes. For your safety, try again ${again}.`
  if (error.code === 'email_locked') return WORDS.email_locked
  if (error.status === 429) return `Too many attempts. Try again ${again}.`
  const field = error.details.find((detail) => detail.field !== undefined)?.field
  if (error.code === 'already_exists' && field === 'email')
    return 'That email address already belongs to an account. Sign in with it, or use another one.'
  if (error.code === 'validation_failed' && field !== undefined && field in FIELD_WORDS) return FIELD_WORDS[field]
  if (error.code === 'invalid_code') return wrongCodeWords(error.details[0]?.attemptsRemaining)
  if (error.code in WORDS) return WORDS[error.code]
  if (error.status === 401) return 'You are signed out. Please sign in again.'
  const reference =
    error.requestId === null ? '' : ` If this happens again, give support this reference: ${error.requestId}`
  return `Something went wrong on our side. Please try again.${reference}`
}

/**
 * What went wrong, for the person in front of the page. A prompt that somebody closed is told calmly: nothing failed.
 * @param {unknown} error
 * @returns {{ calm: boolean, text: string, field: string | null }} `field`: the input it is about
 */
export function tell(error) {
  if (error instanceof PasskeyCancelled)
    return {
      calm: true,
      field: null,
      text: 'No passkey was used and nothing was changed. You can try again.',
    }
  if (error instanceof Declined) return { calm: true, field: null, text: 'Nothing was changed.' }
  if (error instanceof Refused) return { calm: false, field: error.field, text: error.message }
  if (error instanceof PasskeyFailed) return { calm: false, field: null, text: error.message }
  if (error instanceof NetworkError)
    return { calm: false, field: null, text: 'No connection to the server. Check your network and try again.' }
  if (error instanceof ApiError) {
    const field = error.details.find((detail) => detail.field !== undefined)?.field ?? null
    return { calm: false, field, text: apiWords(error) }
  }
  return { calm: false, field: null, text: 'Something went wrong on this page. Reload it and try again.' }
}
