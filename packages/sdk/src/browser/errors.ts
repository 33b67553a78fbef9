/**
 * How a passkey's prompt ended otherwise than well, by what the person did or has:
 * - `cancelled`: they closed it, or let it time out; browsers do not tell which
 * - `already_registered`: this device has a passkey of this account
 * - `not_supported`: no passkeys in this browser, or none of the kind that the app asks for
 * - `not_allowed_here`: the page's host cannot use passkeys of the app's relying party, or its frame may not
 * - `no_screen_lock`: the device cannot verify its user
 * - `superseded`: another prompt of this page took its place; nothing to tell anybody
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
  not_supported: 'This browser or device cannot use such a passkey.',
  not_allowed_here: 'Passkeys cannot be used on this address.',
  no_screen_lock: 'This device has no screen lock, fingerprint or face set up, which a passkey needs.',
  superseded: 'Another passkey prompt took the place of this one.',
  failed: 'The device could not finish this.',
}

/** A passkey's prompt that ended without one. Its message is fit to be shown. */
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
 * Why a sign-in that came back to the page was not taken:
 * - `not_started_here`: this tab did not begin it. Somebody else may have, to sign this person in as themselves
 * - `state_mismatch`: another `state` than the one that left
 * - `unreadable`: what came back is not in its form
 */
export type ReturnFailure = 'not_started_here' | 'state_mismatch' | 'unreadable'

const RETURN_TEXTS: Record<ReturnFailure, string> = {
  not_started_here: 'This sign-in was not begun in this tab. Begin again here.',
  state_mismatch: 'This sign-in does not belong to the one that was begun here. Begin again.',
  unreadable: 'What came back from the sign-in could not be read. Begin again.',
}

/** A return from a sign-in page that must not be believed. Its message is fit to be shown. */
export class SignInReturnError extends Error {
  override readonly name = 'SignInReturnError'
  /** For programs: stable. */
  readonly reason: ReturnFailure

  constructor(reason: ReturnFailure, cause?: unknown) {
    super(RETURN_TEXTS[reason], cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}
