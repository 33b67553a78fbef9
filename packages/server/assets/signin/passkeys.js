import { t } from './texts.js'
/** The prompt was closed, timed out, or gave way to another one: nothing failed. */
export class PasskeyCancelled extends Error {}

/** The browser could not do it. The message is meant for the person. */
export class PasskeyFailed extends Error {}

// A classic script of its own, loaded before the modules.
const webauthn = globalThis.SimpleWebAuthnBrowser

/** Challenges live five minutes; one that waits for autofill is renewed before. */
const AUTOFILL_RENEWAL_MS = 4 * 60_000

/**
 * The passkey that signed the person in on this page, if one did.
 * @type {{ credentialId: string, rpId: string } | null}
 */
let used = null

export const usedPasskey = () => used

/** Whether this browser can use passkeys at all. */
export const passkeysWork = () => webauthn?.browserSupportsWebAuthn() === true

const FAILURES = {
  InvalidStateError: t`This device already has a passkey for this account.`,
  SecurityError: t`Passkeys cannot be used on this address.`,
  NotSupportedError: t`This device cannot create the kind of passkey that this app needs.`,
  ConstraintError: t`A passkey needs a screen lock, a fingerprint or face recognition. Set one up on this device first.`,
}

/**
 * What a ceremony threw, sorted by the DOM exception's name (WebAuthn L3, sections 5.1.3 and 5.1.4).
 * @param {any} error
 */
export function sorted(error) {
  const name = error?.name ?? ''
  if (error?.code === 'ERROR_CEREMONY_ABORTED' || name === 'NotAllowedError' || name === 'AbortError')
    return new PasskeyCancelled(name, { cause: error })
  const text = FAILURES[/** @type {keyof typeof FAILURES} */ (name)]
  return new PasskeyFailed(text ?? t`Your device could not finish this. Please try again.`, { cause: error })
}

/** What a new passkey is called until its owner names it. */
function deviceName() {
  const agent = navigator.userAgent
  if (/iPhone/.test(agent)) return 'iPhone'
  if (/iPad/.test(agent)) return 'iPad'
  if (/Android/.test(agent)) return t`Android device`
  if (/CrOS/.test(agent)) return 'Chromebook'
  if (/Mac OS X/.test(agent)) return 'Mac'
  if (/Windows/.test(agent)) return t`Windows computer`
  return /Linux/.test(agent) ? t`Linux computer` : t`Passkey`
}

/**
 * Makes a passkey: signs a new person up, or, for whoever is signed in, adds one.
 * @param {import('./client.js').Client} client
 * @param {{ email?: string, name?: string }} person
 * @returns {Promise<any>} the sign-in's result
 */
export async function register(client, person) {
  return registerWith(client, await client.call('POST', 'auth/passkey/register-options', person))
}

/**
 * Makes the passkey that a challenge asks for.
 * @param {import('./client.js').Client} client
 * @param {{ challengeId: string, publicKey: any }} registration
 * @returns {Promise<any>} the sign-in's result
 */
export async function registerWith(client, { challengeId, publicKey }) {
  let credential
  // Asked for when it is made, or some devices never have it: with PRF the passkey can seal a share of a wallet's key.
  const extensions = { ...publicKey.extensions, prf: {} }
  try {
    credential = await webauthn.startRegistration({ optionsJSON: { ...publicKey, extensions } })
  } catch (error) {
    throw sorted(error)
  }
  const result = await client.call('POST', 'auth/passkey/register-verify', {
    challengeId,
    credential,
    deviceName: deviceName(),
  })
  used = { credentialId: credential.id, rpId: publicKey.rp.id }
  return result
}

/** @param {string} email */
const loginOptionsPath = (email) =>
  email === '' ? 'auth/passkey/login-options' : `auth/passkey/login-options?email=${encodeURIComponent(email)}`

/**
 * Signs in by a passkey that the person picks.
 * @param {import('./client.js').Client} client
 * @param {string} email narrows the choice to that account's passkeys; empty: any on the device
 * @returns {Promise<any>} the sign-in's result
 */
export async function login(client, email) {
  const { challengeId, publicKey } = await client.call('GET', loginOptionsPath(email))
  const credential = await askPasskey(publicKey)
  const result = await client.call('POST', 'auth/passkey/login-verify', { challengeId, credential })
  used = { credentialId: credential.id, rpId: publicKey.rpId }
  return result
}

/**
 * Asks for one of the passkeys that the options name.
 * @param {any} publicKey the options, as JSON
 * @returns {Promise<any>} the assertion, to be sent
 */
export async function askPasskey(publicKey) {
  try {
    return await webauthn.startAuthentication({ optionsJSON: publicKey })
  } catch (error) {
    throw sorted(error)
  }
}

/**
 * Offers passkeys in the email field's autofill, as long as the signal lasts. Does nothing where browsers lack it, and
 * stays silent when it cannot be offered: the button beside it does the same.
 * @param {import('./client.js').Client} client
 * @param {AbortSignal} signal
 * @param {(credential: () => Promise<any>) => void} onPicked gets what finishes the sign-in
 */
export async function offerAutofill(client, signal, onPicked) {
  if (!passkeysWork() || !(await webauthn.browserSupportsWebAuthnAutofill())) return
  while (!signal.aborted) {
    let renewing = false
    const renewal = setTimeout(() => {
      renewing = true
      webauthn.WebAuthnAbortService.cancelCeremony()
    }, AUTOFILL_RENEWAL_MS)
    try {
      const { challengeId, publicKey } = await client.call('GET', loginOptionsPath(''))
      if (signal.aborted) return
      const credential = await webauthn.startAuthentication({ optionsJSON: publicKey, useBrowserAutofill: true })
      used = { credentialId: credential.id, rpId: publicKey.rpId }
      if (!signal.aborted) onPicked(() => client.call('POST', 'auth/passkey/login-verify', { challengeId, credential }))
      return
    } catch {
      // Ended by its renewal: again. Ended sooner: by a prompt that took its place, or for good.
      if (!renewing) return
    } finally {
      clearTimeout(renewal)
    }
  }
}

/** Ends a prompt that waits in the background, before the page moves on. */
export const endPrompts = () => webauthn?.WebAuthnAbortService.cancelCeremony()
