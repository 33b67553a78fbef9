import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { LedgerSignature } from './ledger.ts'
import { keyFingerprint, namespaceOf } from './party.ts'

const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
const KEYS_MAX = 1_000

/** Read once: reading a key takes longer than verifying with it. */
const publicKeys = new Map<string, KeyObject>()

function publicKeyOf(raw: Buffer): KeyObject {
  const x = raw.toString('base64url')
  const known = publicKeys.get(x)
  if (known !== undefined) return known
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  if (publicKeys.size >= KEYS_MAX) publicKeys.delete(publicKeys.keys().next().value as string)
  publicKeys.set(x, key)
  return key
}

/** A signature as it came over the wire: 128 hex characters, or base64. */
export function signatureBytes(text: string): Buffer {
  return Buffer.from(text, text.length === 2 * SIGNATURE_BYTES ? 'hex' : 'base64')
}

/** Whether a signature (Ed25519, RFC 8032, pure) is this raw key's over these bytes; false too for what is no key. */
export function isSignedBy(publicKey: Buffer, message: Buffer, signature: Buffer): boolean {
  return (
    publicKey.length === PUBLIC_KEY_BYTES &&
    signature.length === SIGNATURE_BYTES &&
    verify(null, message, publicKeyOf(publicKey), signature)
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
