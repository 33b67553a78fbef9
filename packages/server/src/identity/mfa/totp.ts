import { HOTP, Secret, TOTP } from 'otpauth'
import { equalSecrets } from '../../platform/security/crypto.ts'

/** What authenticator apps take for granted, so that nothing else works with all of them (RFC 6238, section 1.2). */
const ALGORITHM = 'SHA1'
const DIGITS = 6
const PERIOD_SECONDS = 30
/** A code of the step before or after counts too: clocks differ, and people need time to type (RFC 6238, section 5.2). */
const STEPS_APART = 1

/** The longest that an issuer or a label may become when encoded: more, and the QR code can't be read off a screen. */
const ENCODED_CHARS_MAX = 120

// Copied: the memory of a Buffer may be a pool that it shares with others.
const secretOf = (bytes: Buffer) => new Secret({ buffer: Uint8Array.from(bytes).buffer })

/** The time step that a moment lies in (RFC 6238, section 4.2: T0 is 0, X is 30 seconds). */
export function stepAt(now: Date): number {
  return TOTP.counter({ period: PERIOD_SECONDS, timestamp: now.getTime() })
}

/** The code of a time step. `digits` is 6 but for the RFC's own test vectors, which have 8. */
export function codeAt(secret: Buffer, step: number, digits = DIGITS): string {
  return HOTP.generate({ secret: secretOf(secret), algorithm: ALGORITHM, digits, counter: step })
}

/**
 * The time step that a code is of, if it is near enough to `now` and after `lastStep`; null for none. Compares with
 * every step that could be meant, so that the time it takes does not tell which.
 */
export function stepOf(secret: Buffer, code: string, now: Date, lastStep: number): number | null {
  const present = stepAt(now)
  let found: number | null = null
  for (let step = present - STEPS_APART; step <= present + STEPS_APART; step += 1) {
    const fits = equalSecrets(Buffer.from(codeAt(secret, step)), Buffer.from(code))
    if (fits && step > lastStep) found ??= step
  }
  return found
}

/** The secret as people type it: base32 (RFC 4648) without padding. */
export function base32(secret: Buffer): string {
  return secretOf(secret).base32
}

/** A colon would end the issuer, whoever reads the URL. Cut where the QR code would become too dense. */
function labelPart(text: string): string {
  let part = ''
  for (const character of text.replace(/[\s:]+/g, ' ').trim()) {
    if (encodeURIComponent(part + character).length > ENCODED_CHARS_MAX) break
    part += character
  }
  return part
}

/** What an authenticator app reads off the QR code (Google Authenticator's Key URI Format). */
export function otpauthUrl(secret: Buffer, { issuer, label }: { issuer: string; label: string }): string {
  return new TOTP({
    issuer: labelPart(issuer),
    label: labelPart(label),
    secret: secretOf(secret),
    algorithm: ALGORITHM,
    digits: DIGITS,
    period: PERIOD_SECONDS,
  }).toString()
}
