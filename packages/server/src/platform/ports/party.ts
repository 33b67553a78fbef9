import { sha256 } from '../security/crypto.ts'

/** Canton's hash purpose for public key fingerprints. */
const PURPOSE = Buffer.from([0, 0, 0, 12])
/** Multihash prefix: SHA-256, 32 bytes. */
const SHA256_32_BYTES = '1220'
const KEY_BYTES = 32

/** How a party is written: a hint, and the fingerprint of the key in whose namespace it is. */
export const PARTY_PATTERN = /^[A-Za-z0-9_-]{1,120}::1220[0-9a-f]{64}$/

/** The namespace of an Ed25519 key, as Canton computes it: 1220 ‖ hex(sha256(uint32be(12) ‖ raw key)). */
export function keyFingerprint(rawPublicKey: Buffer): string {
  if (rawPublicKey.length !== KEY_BYTES)
    throw new Error(`an Ed25519 public key has ${KEY_BYTES} bytes, not ${rawPublicKey.length}`)
  return SHA256_32_BYTES + sha256(Buffer.concat([PURPOSE, rawPublicKey])).toString('hex')
}

/** `<hint>::<fingerprint of the key>`. */
export function partyOf(hint: string, rawPublicKey: Buffer): string {
  return `${hint}::${keyFingerprint(rawPublicKey)}`
}

/** What follows `::` in a party. */
export function namespaceOf(party: string): string {
  return party.slice(party.indexOf('::') + 2)
}
