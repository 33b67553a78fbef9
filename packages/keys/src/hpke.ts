import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import { type Bytes, utf8 } from './bytes.ts'
import { canonicalJson } from './canonical-json.ts'
import { ShareError } from './errors.ts'

/**
 * The only suite: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, base mode, one-shot (RFC 9180, section 6.1).
 */
export const HPKE_SUITE = 'DHKEM-X25519-HKDF-SHA256/HKDF-SHA256/AES-256-GCM'

const KEY_BYTES = 32

const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() })

/** What a value is sealed for. It is part of the key schedule: a box for one purpose cannot be opened for another. */
export type SealPurpose = 'store-share' | 'dkg-subshare' | 'reshare-subshare' | 'read-share' | 'recover'

/** A box: the encapsulated key (32 bytes) and the ciphertext with its tag. */
export interface Sealed {
  enc: Uint8Array
  ct: Uint8Array
}

/** A key pair of a recipient, 32 bytes each (X25519, RFC 7748). */
export interface EncryptionKey {
  publicKey: Uint8Array
  privateKey: Uint8Array
}

/** What a box is bound to. Its canonical JSON (RFC 8785) is the additional data. */
export type SealContext = Readonly<Record<string, string | number | null>>

const infoOf = (purpose: SealPurpose) => utf8(`halfkey/v1/${purpose}`)
const own = (bytes: Uint8Array): Bytes => new Uint8Array(bytes)

/** Makes a key pair for a recipient. */
export async function newEncryptionKey(): Promise<EncryptionKey> {
  const { publicKey, privateKey } = await suite.kem.generateKeyPair()
  return {
    publicKey: new Uint8Array(await suite.kem.serializePublicKey(publicKey)),
    privateKey: new Uint8Array(await suite.kem.serializePrivateKey(privateKey)),
  }
}

/**
 * Seals bytes so that only the holder of the private key can open them.
 * @throws ShareError seal_invalid for an invalid key
 */
export async function sealTo(
  publicKey: Uint8Array,
  { purpose, context }: { purpose: SealPurpose; context: SealContext },
  plaintext: Uint8Array,
): Promise<Sealed> {
  try {
    if (publicKey.length !== KEY_BYTES) throw new Error(`a key must have ${KEY_BYTES} bytes`)
    const recipientPublicKey = await suite.kem.deserializePublicKey(own(publicKey))
    const aad = utf8(canonicalJson(context))
    const secret = own(plaintext)
    try {
      const { enc, ct } = await suite.seal({ recipientPublicKey, info: infoOf(purpose) }, secret, aad)
      return { enc: new Uint8Array(enc), ct: new Uint8Array(ct) }
    } finally {
      secret.fill(0)
    }
  } catch (error) {
    throw new ShareError('seal_invalid', `Cannot seal to this key: ${(error as Error).message}.`)
  }
}

/** Opens a box. @throws ShareError seal_invalid for another key, purpose or context, or a changed bit */
export async function openSealed(
  privateKey: Uint8Array,
  { purpose, context }: { purpose: SealPurpose; context: SealContext },
  { enc, ct }: Sealed,
): Promise<Uint8Array> {
  try {
    const recipientKey = await suite.kem.deserializePrivateKey(own(privateKey))
    const aad = utf8(canonicalJson(context))
    return new Uint8Array(await suite.open({ recipientKey, enc: own(enc), info: infoOf(purpose) }, own(ct), aad))
  } catch {
    throw new ShareError('seal_invalid', 'This was not sealed for this key and context, or it was changed.')
  }
}
