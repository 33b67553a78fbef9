import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { LedgerSignature } from './ledger.ts'
import { keyFingerprint, namespaceOf } from './party.ts'

const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
const KEYS_MAX = 1_000

/** Read once: reading a key takes longer than verifying with it. */
const publicKeys = new LRUCache<string, KeyObject>({
  max: KEYS_MAX,
  memoMethod: (x) => createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }),
})

/** A signature as it came over the wire: 128 hex characters, or base64. */
export function signatureBytes(text: string): Buffer {
  return Buffer.from(text, text.length === 2 * SIGNATURE_BYTES ? 'hex' : 'base64')
}

/** Whether a signature (Ed25519, RFC 8032, pure) of these bytes is valid for this raw key. False for an invalid key. */
export function isSignedBy(publicKey: Buffer, message: Buffer, signature: Buffer): boolean {
  return (
    publicKey.length === PUBLIC_KEY_BYTES &&
    signature.length === SIGNATURE_BYTES &&
    verify(null, message, publicKeys.memo(publicKey.toString('base64url')), signature)
  )
}

/** The same for the key in whose namespace the party is. */
export function isSignedFor(party: string, digest: Buffer, { publicKey, signature }: LedgerSignature): boolean {
  return (
    publicKey.length === PUBLIC_KEY_BYTES &&
    keyFingerprint(publicKey) === namespaceOf(party) &&
    isSignedBy(publicKey, digest, signature)
  )
}
