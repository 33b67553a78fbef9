import { ApiError, NetworkError } from './client.js'
import { PasskeyCancelled, PasskeyFailed } from './passkeys.js'
import { locale, t } from './texts.js'

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
  challenge_expired: t`That took a little too long. Please try again.`,
  challenge_used: t`That attempt was already used. Please try again.`,
  assertion_invalid: t`That passkey did not work here. It may have been removed from the account.`,
  attestation_invalid: t`The response of your device could not be verified. Please try again.`,
  already_exists: t`This already belongs to another account.`,
  already_converted: t`This guest account was already saved. Sign in with it instead.`,
  code_invalid: t`That sign-in was already used or began in another tab. Please try again.`,
  code_expired: t`That took a little too long. Please try again.`,
  guest_expired: t`This guest session has ended. Go back and start again.`,
  user_suspended: t`This account is suspended. Please contact the app’s support.`,
  sign_in_refused: t`This app does not let you sign in now. Please contact the app’s support.`,
  sign_in_hook_failed: t`You cannot sign in right now. Please try again in a minute.`,
  mfa_already_enabled: t`Two-step verification is already on.`,
  mfa_not_enabled: t`Two-step verification is already off.`,
  mfa_setup_not_started: t`This setup was replaced by a newer one. Close it and start again.`,
  mfa_setup_expired: t`The setup took too long. Close it and start again.`,
  mfa_enrollment_required: t`Turn on two-step verification first, then try again.`,
  mfa_required: t`This needs a code from your authenticator app.`,
  reauthentication_required: t`For your safety, please sign in again first.`,
  messenger_signature_invalid: t`The response from Telegram could not be verified. Please try again.`,
  wallet_signature_invalid: t`The signature of your wallet could not be verified. Please try again.`,
  external_wallets_disabled: t`Signing in with a wallet is no longer available here.`,
  identity_unknown: t`No account here is linked to that sign-in. Sign in another way.`,
  stronger_sign_in_required: t`This needs your passkey. Sign in with it first.`,
  email_sign_in_disabled: t`Sign-in by email is no longer available here.`,
  email_recovery_disabled: t`Accounts cannot be recovered by email here. Please contact the app’s support.`,
  email_not_configured: t`Sign-in by email is not available at present.`,
  email_locked: t`Too many wrong codes for this address. Sign in another way, or try again tomorrow.`,
  sign_up_disabled: t`There is no account with this address.`,
  messenger_not_configured: t`Telegram sign-in is no longer available here.`,
  not_found: t`That no longer exists.`,
  last_sign_in_method: t`This is your only passkey. Add another one before you remove it.`,
  passkey_limit: t`You have reached the maximum number of passkeys. Remove one first.`,
  origin_not_allowed: t`This app does not accept sign-ins from this address.`,
}

const FIELD_WORDS = {
  email: t`Enter an email address like name@example.com, or leave the field empty.`,
  name: t`Use a shorter name, of at most 200 characters.`,
  deviceName: t`Use a shorter name.`,
  code: t`Enter the 6 digits that your authenticator app shows.`,
  recoveryCode: t`Enter one of your recovery codes exactly as it is written.`,
}

/** @param {number} seconds */
function waitWords(seconds) {
  const relative = new Intl.RelativeTimeFormat(locale)
  return seconds < 60
    ? relative.format(Math.max(1, seconds), 'second')
    : relative.format(Math.ceil(seconds / 60), 'minute')
}

/** @param {number | undefined} left */
function wrongCodeWords(left) {
  if (left === 0) return t`That code is incorrect. After too many wrong codes, please wait 15 minutes.`
  if (left === 1) return t`That code is incorrect. You have one attempt left.`
  return t`That code is incorrect. Check it and try again.`
}

/** @param {ApiError} error */
function apiWords(error) {
  const again = error.retryAfterSeconds === null ? t`later` : waitWords(error.retryAfterSeconds)
  if (error.code === 'mfa_locked') return t`Too many wrong codes. For your safety, try again ${again}.`
  if (error.code === 'email_locked') return WORDS.email_locked
  if (error.status === 429) return t`Too many attempts. Try again ${again}.`
  const field = error.details.find((detail) => detail.field !== undefined)?.field
  if (error.code === 'already_exists' && field === 'email')
    return t`That email address already belongs to an account. Sign in with it, or use another one.`
  if (error.code === 'validation_failed' && field !== undefined && field in FIELD_WORDS) return FIELD_WORDS[field]
  if (error.code === 'invalid_code') return wrongCodeWords(error.details[0]?.attemptsRemaining)
  if (error.code in WORDS) return WORDS[error.code]
  if (error.status === 401) return t`You are signed out. Please sign in again.`
  const wrong = t`Something went wrong on our side. Please try again.`
  return error.requestId === null
    ? wrong
    : `${wrong} ${t`If this happens again, give support this reference: ${error.requestId}`}`
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
      text: t`No passkey was used and nothing was changed. You can try again.`,
    }
  if (error instanceof Declined) return { calm: true, field: null, text: t`Nothing was changed.` }
  if (error instanceof Refused) return { calm: false, field: error.field, text: error.message }
  if (error instanceof PasskeyFailed) return { calm: false, field: null, text: error.message }
  if (error instanceof NetworkError)
    return { calm: false, field: null, text: t`No connection to the server. Check your network and try again.` }
  if (error instanceof ApiError) {
    const field = error.details.find((detail) => detail.field !== undefined)?.field ?? null
    return { calm: false, field, text: apiWords(error) }
  }
  return { calm: false, field: null, text: t`Something went wrong on this page. Reload it and try again.` }
}
