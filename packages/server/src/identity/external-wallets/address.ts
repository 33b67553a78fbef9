import { ed25519 } from '@noble/curves/ed25519.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { ADDRESS_PATTERN } from './schema.ts'

/** An address of 40 hexadecimal digits with the checksum of EIP-55 in the case of its letters. */
function checksummed(digits: string): string {
  const lower = digits.toLowerCase()
  const hash = Buffer.from(keccak_256(Buffer.from(lower))).toString('hex')
  const cased = [...lower].map((digit, at) =>
    Number.parseInt(hash[at] as string, 16) >= 8 ? digit.toUpperCase() : digit,
  )
  return `0x${cased.join('')}`
}

/**
 * The one spelling of an address, with its checksum (EIP-55). Undefined for mixed case with a wrong checksum, which is mistyped.
 * Browsers' wallets give addresses in lower case.
 */
export function readAddress(text: string): string | undefined {
  if (!ADDRESS_PATTERN.test(text)) return undefined
  const address = checksummed(text.slice(2))
  return text === address || text === address.toLowerCase() ? address : undefined
}

/** The address of a public key: the last 20 bytes of the Keccak-256 of the point, uncompressed and without its first byte. */
export const addressOf = (uncompressedPoint: Uint8Array): string =>
  checksummed(Buffer.from(keccak_256(uncompressedPoint.subarray(1)).subarray(12)).toString('hex'))

/**
 * Whether 64 digits are a key that only one secret can sign for: a point in the canonical form of RFC 8032, section 5.1.3, of
 * prime order. Signatures by a key of small order are valid for many messages, and need no secret.
 */
export function isSoundKey(publicKey: string): boolean {
  try {
    const point = ed25519.Point.fromHex(publicKey)
    return !point.is0() && point.isTorsionFree()
  } catch {
    return false
  }
}
