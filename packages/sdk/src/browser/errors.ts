/**
 * Why a passkey prompt failed:
 * - `cancelled`: the user closed it, or it timed out; browsers do not say which
 * - `already_registered`: this device already has a passkey of this account
 * - `not_supported`: no passkeys in this browser, or none of the kind that the app asks for
 * - `not_allowed_here`: the page's host cannot use passkeys of the app's relying party, or its frame may not
 * - `no_screen_lock`: the device cannot verify its user
 * - `superseded`: another prompt of this page replaced it; show nothing
 * - `failed`: something else; see `cause`
 */
export type PasskeyFailure =
  | 'cancelled'
  | 'already_registered'
  | 'not_supported'
  | 'not_allowed_here'
  | 'no_screen_lock'
  | 'superseded'
  | 'failed'

const PASSKEY_TEXTS: Record<PasskeyFailure, string> = {
  cancelled: 'The passkey prompt was closed or timed out.',
  already_registered: 'This device already has a passkey for this account.',
  not_supported: 'This browser or device does not support this kind of passkey.',
  not_allowed_here: 'Passkeys cannot be used on this address.',
  no_screen_lock: 'A passkey needs a screen lock, fingerprint or face recognition. Set one up on this device first.',
  superseded: 'Another passkey prompt replaced this one.',
  failed: 'The device could not use the passkey. Try again.',
}

/** A passkey prompt that failed. Its message can be shown to users. */
export class PasskeyError extends Error {
  override readonly name = 'PasskeyError'
  /** For programs: stable. */
  readonly reason: PasskeyFailure

  constructor(reason: PasskeyFailure, cause?: unknown) {
    super(PASSKEY_TEXTS[reason], cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}

/**
 * Why the return from a sign-in page was rejected:
 * - `not_started_here`: this tab did not start it. An attacker may have, to sign this user in to the attacker's account
 * - `state_mismatch`: `state` differs from the one that was sent
 * - `unreadable`: the returned data is malformed
 */
export type ReturnFailure = 'not_started_here' | 'state_mismatch' | 'unreadable'

const RETURN_TEXTS: Record<ReturnFailure, string> = {
  not_started_here: 'This sign-in was not started in this tab. Start again here.',
  state_mismatch: 'This is not the sign-in that was started here. Start again.',
  unreadable: 'The result of the sign-in could not be read. Start again.',
}

/** A rejected return from a sign-in page. Its message can be shown to users. */
export class SignInReturnError extends Error {
  override readonly name = 'SignInReturnError'
  /** For programs: stable. */
  readonly reason: ReturnFailure

  constructor(reason: ReturnFailure, cause?: unknown) {
    super(RETURN_TEXTS[reason], cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}
