import { sha256 } from '../core/crypto.ts'

/** Canton's hash purpose for public key fingerprints. */
const PURPOSE = Buffer.from([0, 0, 0, 12])
/** Multihash prefix: SHA-256, 32 bytes. */
const SHA256_32_BYTES = '1220'
const KEY_BYTES = 32

/** The namespace of an Ed25519 key, as Canton computes it: 1220 ‖ hex(sha256(uint32be(12) ‖ raw key)). */
export function keyFingerprint(rawPublicKey: Buffer): string {
  if (rawPublicKey.length !== KEY_BYTES)
    throw new Error(`an Ed25519 public key has ${KEY_BYTES} bytes, not ${rawPublicKey.length}`)
  return SHA256_32_BYTES + sha256(Buffer.concat([PURPOSE, rawPublicKey])).toString('hex')
}
