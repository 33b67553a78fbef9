import { HOTP, Secret, TOTP } from 'otpauth'
import { equalSecrets } from '../../platform/security/crypto.ts'

/** The defaults of authenticator apps. Other values do not work with all apps (RFC 6238, section 1.2). */
const ALGORITHM = 'SHA1'
const DIGITS = 6
const PERIOD_SECONDS = 30
/** Codes of the steps before and after are accepted: clocks differ, and people need time to type (RFC 6238, section 5.2). */
const STEPS_APART = 1

/** The limit of an encoded issuer or label. With more, a QR code cannot be scanned from a screen. */
const ENCODED_CHARS_MAX = 120

// Copied, because a Buffer may share its memory pool with other buffers.
const secretOf = (bytes: Buffer) => new Secret({ buffer: Uint8Array.from(bytes).buffer })

/** The time step of a moment (RFC 6238, section 4.2: T0 is 0, X is 30 seconds). */
export function stepAt(now: Date): number {
  return TOTP.counter({ period: PERIOD_SECONDS, timestamp: now.getTime() })
}

/** The code of a time step. `digits` is 6, except in the RFC's test vectors, which have 8. */
export function codeAt(secret: Buffer, step: number, digits = DIGITS): string {
  return HOTP.generate({ secret: secretOf(secret), algorithm: ALGORITHM, digits, counter: step })
}

/**
 * The time step of a code, if it is near enough to `now` and after `lastStep`; otherwise null. Compares with every possible
 * step, so that the duration does not reveal which one matched.
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

/** The secret for typing: base32 (RFC 4648) without padding. */
export function base32(secret: Buffer): string {
  return secretOf(secret).base32
}

/** Without colons, because a colon ends the issuer. Cut so that the QR code does not become too dense. */
function labelPart(text: string): string {
  let part = ''
  for (const character of text.replace(/[\s:]+/g, ' ').trim()) {
    if (encodeURIComponent(part + character).length > ENCODED_CHARS_MAX) break
    part += character
  }
  return part
}

/** The URL in the QR code (Google Authenticator's Key URI Format). */
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
