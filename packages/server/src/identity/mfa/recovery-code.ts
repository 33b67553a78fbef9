import { randomBytes } from 'node:crypto'
import type { Id } from '../../platform/ids.ts'
import { sha256 } from '../../platform/security/crypto.ts'

/** Crockford base 32: no i, l, o, u. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const CODE_CHARS = 16
const FORM = /^[0-9a-hjkmnp-tv-z]{16}$/

/** How many recovery codes a user gets. */
export const RECOVERY_CODES = 10

/** A new recovery code: 80 random bits as `xxxx-xxxx-xxxx-xxxx`. */
export function newRecoveryCode(): string {
  // 32 divides 256, so all characters are equally likely.
  const characters = [...randomBytes(CODE_CHARS)].map((byte) => ALPHABET[byte % ALPHABET.length])
  return (characters.join('').match(/.{4}/g) as string[]).join('-')
}

/**
 * The stored hash of a code: SHA-256 of its user and its characters. Case, grouping and look-alike characters make no
 * difference. Null if the text cannot be a code. With 80 random bits, a slow hash is not needed.
 */
export function recoveryCodeHash(userId: Id<'usr'>, text: string): Buffer | null {
  const code = text.toLowerCase().replace(/[\s-]/g, '').replaceAll('o', '0').replace(/[il]/g, '1')
  return FORM.test(code) ? sha256(`${userId} ${code}`) : null
}
