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
export function isSignedFor(
  party: string,
  payload: Buffer,
  { alg, publicKey, signature, signedBy }: LedgerSignature,
): boolean {
  return (
    alg === 'ed25519' &&
    publicKey.length === PUBLIC_KEY_BYTES &&
    keyFingerprint(publicKey) === namespaceOf(party) &&
    signedBy === namespaceOf(party) &&
    isSignedBy(publicKey, payload, signature)
  )
}

/** An Ed25519 signature as ledgers take it. @throws Error unless the raw key has 32 bytes */
export function signatureOf(publicKey: Buffer, signature: Buffer): LedgerSignature {
  return { alg: 'ed25519', publicKey, signature, signedBy: keyFingerprint(publicKey) }
}

/** A signature as it is stored. The last two are missing where an earlier version wrote it. */
export interface KeptSignature {
  /** For whom it is. */
  party: string
  /** Hex, like the signature. */
  publicKey: string
  signature: string
  alg?: LedgerSignature['alg']
  signedBy?: string
}

/** To store a signature for a party. */
export function keptSignature(party: string, { alg, publicKey, signature, signedBy }: LedgerSignature): KeptSignature {
  return { party, publicKey: publicKey.toString('hex'), signature: signature.toString('hex'), alg, signedBy }
}

/** A stored signature as ledgers take it. */
export function readSignature({ publicKey, signature, alg, signedBy }: KeptSignature): LedgerSignature {
  const key = Buffer.from(publicKey, 'hex')
  return {
    alg: alg ?? 'ed25519',
    publicKey: key,
    signature: Buffer.from(signature, 'hex'),
    signedBy: signedBy ?? (key.length === PUBLIC_KEY_BYTES ? keyFingerprint(key) : ''),
  }
}
