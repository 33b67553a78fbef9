import { createPublicKey, type KeyObject, sign } from 'node:crypto'

/** RFC 8410, section 4: the raw key is the end of its SubjectPublicKeyInfo. */
const RAW_KEY_BYTES = 32

/** Signs with a key that need not be in this process. */
export interface Signer {
  readonly alg: 'EdDSA'
  /** Raw Ed25519. */
  readonly publicKey: Buffer
  /** Whether each signature is a call to something outside this process: then none is made in a database transaction. */
  readonly isRemote: boolean
  /** Ed25519 (RFC 8032, pure). @throws KeyServiceError if a remote key cannot be used */
  sign(payload: Buffer): Promise<Buffer>
}

/** The raw public half of an Ed25519 key. */
const rawPublicKey = (privateKey: KeyObject): Buffer =>
  createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).subarray(-RAW_KEY_BYTES)

/** Begins an Ed25519 public key as SubjectPublicKeyInfo (RFC 8410, section 4). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex')

/** A raw Ed25519 key as one that verifies. @throws Error unless it has 32 bytes */
export const verifierOf = (publicKey: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_ED25519, publicKey]), type: 'spki', format: 'der' })

/** A signer whose key is in this process' memory: it was sealed in the database. */
export const localSigner = (privateKey: KeyObject): Signer => ({
  alg: 'EdDSA',
  publicKey: rawPublicKey(privateKey),
  isRemote: false,
  sign: async (payload) => sign(null, payload, privateKey),
})
