import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import type { KeyProvider } from './key-provider.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16
const DATA_KEY_BYTES = 32
const SEALED_VERSION = 2
/** A key that is wrapped for one purpose and owner: see `wrapKey`. */
const WRAPPED_KEY_VERSION = 3
/** Tells a wrapped data key from anything else that a key-encryption key may ever encrypt. */
const WRAP_AAD = Buffer.from('halfkey/v1/data-key')
/** Begins the additional data of a key that is wrapped for a purpose. */
const WRAPPED_KEY_AAD = 'halfkey/v1/key-for '

/** AES-256-GCM (NIST SP 800-38D): nonce ‖ ciphertext ‖ tag. The nonce is random, so a key may seal at most 2^32 messages. */
export function encrypt(key: Buffer, plaintext: Buffer, aad: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad)
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

/** Undoes `encrypt`. @throws Error when the key, the text or the additional data is not the one it was sealed with */
export function decrypt(key: Buffer, sealed: Buffer, aad: Buffer): Buffer {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) throw new Error('sealed value is truncated')
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(aad)
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, sealed.length - TAG_BYTES)), decipher.final()])
}

/** Length-prefixed, so that no two lists of context parts give the same bytes. */
function contextBytes(context: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(context))
}

/** A sealed value is damaged, or was sealed by something else. */
class SealedValueError extends Error {}

/** The parts of a sealed value. */
interface Sealed {
  version: number
  keyId: string
  wrapped: Buffer
  /** After a wrapped key: its context. */
  ciphertext: Buffer
}

/**
 * What every value that this key wraps begins with, after the byte of its version, so that a database can tell which those
 * are.
 */
export function sealedPrefix(keyId: string): Buffer {
  const id = Buffer.from(keyId)
  return Buffer.concat([Buffer.from([id.length]), id])
}

function assemble({ version, keyId, wrapped, ciphertext }: Sealed): Buffer {
  const wrappedLength = Buffer.alloc(2)
  wrappedLength.writeUInt16BE(wrapped.length)
  return Buffer.concat([Buffer.from([version]), sealedPrefix(keyId), wrappedLength, wrapped, ciphertext])
}

function disassemble(sealed: Buffer): Sealed {
  const [version = 0] = sealed
  if (version !== SEALED_VERSION && version !== WRAPPED_KEY_VERSION)
    throw new SealedValueError('sealed value has an unknown version')
  const keyIdEnd = 2 + (sealed[1] ?? 0)
  if (sealed.length < keyIdEnd + 2) throw new SealedValueError('sealed value is truncated')
  const wrappedEnd = keyIdEnd + 2 + sealed.readUInt16BE(keyIdEnd)
  if (sealed.length < wrappedEnd) throw new SealedValueError('sealed value is truncated')
  return {
    version,
    keyId: sealed.subarray(2, keyIdEnd).toString(),
    wrapped: sealed.subarray(keyIdEnd + 2, wrappedEnd),
    ciphertext: sealed.subarray(wrappedEnd),
  }
}

/**
 * Seals a secret at rest: a data key of its own, wrapped by the key-encryption key, encrypts it. `context` (what the
 * secret is and whose) is bound into the ciphertext, so that a sealed value moved to another row does not open. The
 * wrap is the same for every context: who changes the key-encryption key needs the sealed bytes alone.
 * Layout: version(1) ‖ length of the key id(1) ‖ key id ‖ length of the wrapped key(2) ‖ wrapped key ‖ ciphertext.
 */
export async function seal(keys: KeyProvider, plaintext: Buffer | string, context: readonly string[]): Promise<Buffer> {
  const dataKey = randomBytes(DATA_KEY_BYTES)
  try {
    // Bytes are not copied, because their owner may wipe them.
    const bytes = typeof plaintext === 'string' ? Buffer.from(plaintext) : plaintext
    const ciphertext = encrypt(dataKey, bytes, contextBytes(context))
    return assemble({ version: SEALED_VERSION, ...(await keys.wrap(dataKey, WRAP_AAD)), ciphertext })
  } finally {
    dataKey.fill(0)
  }
}

/** Undoes `seal`. @throws Error on another context, another key or any changed byte */
export async function open(keys: KeyProvider, sealed: Buffer, context: readonly string[]): Promise<Buffer> {
  const { version, keyId, wrapped, ciphertext } = disassemble(sealed)
  if (version !== SEALED_VERSION) throw new SealedValueError('sealed value is a wrapped key')
  const dataKey = await keys.unwrap(keyId, wrapped, WRAP_AAD)
  try {
    return decrypt(dataKey, ciphertext, contextBytes(context))
  } finally {
    dataKey.fill(0)
  }
}

/**
 * Wraps a key of 32 bytes for one purpose and owner (`context`). The context is in what the key-encryption key itself
 * authenticates: somebody who knows the data key of any sealed value, as the holder of a tenant's export does, can seal
 * whatever they like with it, but cannot make a wrapped key.
 * Layout: as `seal`, with the context in place of the ciphertext, so that a rewrap needs these bytes alone.
 */
export async function wrapKey(keys: KeyProvider, key: Buffer, context: readonly string[]): Promise<Buffer> {
  const bound = contextBytes(context)
  return assemble({
    version: WRAPPED_KEY_VERSION,
    ...(await keys.wrap(key, wrappedKeyAad(bound))),
    ciphertext: bound,
  })
}

/** Undoes `wrapKey`. @throws Error on another context, another key or any changed byte */
export async function unwrapKey(keys: KeyProvider, sealed: Buffer, context: readonly string[]): Promise<Buffer> {
  const { version, keyId, wrapped } = disassemble(sealed)
  if (version !== WRAPPED_KEY_VERSION) throw new SealedValueError('sealed value is no wrapped key')
  return keys.unwrap(keyId, wrapped, wrappedKeyAad(contextBytes(context)))
}

/**
 * Whether these bytes are a wrapped key, which never leaves its installation: rewrapped for another one, it would be known to
 * whoever has that one's key.
 */
export const isWrappedKey = (sealed: Buffer): boolean => sealed[0] === WRAPPED_KEY_VERSION

const wrappedKeyAad = (context: Buffer) => Buffer.concat([Buffer.from(WRAPPED_KEY_AAD), context])

/** The same, or null if the value was sealed under another context. @throws Error when its data key cannot be unwrapped */
export async function openIfOf(keys: KeyProvider, sealed: Buffer, context: readonly string[]): Promise<Buffer | null> {
  const { version, keyId, wrapped, ciphertext } = disassemble(sealed)
  if (version !== SEALED_VERSION) return null
  const dataKey = await keys.unwrap(keyId, wrapped, WRAP_AAD)
  try {
    return decrypt(dataKey, ciphertext, contextBytes(context))
  } catch {
    return null
  } finally {
    dataKey.fill(0)
  }
}

/** What a sealed value seals, still sealed by its data key: a rewrap leaves it as it is. Empty for what is no sealed value. */
export function ciphertextOf(sealed: Buffer): Buffer {
  try {
    return disassemble(sealed).ciphertext
  } catch (error) {
    if (error instanceof SealedValueError) return Buffer.alloc(0)
    throw error
  }
}

/** Which key-encryption key wraps the data key of a sealed value. @throws SealedValueError */
export function keyIdOf(sealed: Buffer): string {
  return disassemble(sealed).keyId
}

/**
 * Rewraps a secret under the current key: its data key is wrapped again, its ciphertext stays unchanged and unread.
 * @throws Error when the data key cannot be unwrapped
 */
export async function rewrap(keys: KeyProvider, sealed: Buffer): Promise<Buffer> {
  const { version, keyId, wrapped, ciphertext } = disassemble(sealed)
  const aad = version === SEALED_VERSION ? WRAP_AAD : wrappedKeyAad(ciphertext)
  const dataKey = await keys.unwrap(keyId, wrapped, aad)
  try {
    if (dataKey.length !== DATA_KEY_BYTES) throw new SealedValueError('sealed value holds no data key')
    return assemble({ version, ...(await keys.wrap(dataKey, aad)), ciphertext })
  } finally {
    dataKey.fill(0)
  }
}

/** SHA-256 of a string's UTF-8 bytes. */
export function sha256(text: string | Buffer): Buffer {
  return createHash('sha256').update(text).digest()
}

/** HMAC-SHA256. Pass a reused KeyObject: with raw bytes Node creates one at every call, which is six times slower. */
export function hmacSha256(key: KeyObject, text: string, encoding: 'hex' | 'base64'): string {
  return createHmac('sha256', key).update(text).digest(encoding)
}

/** HMAC-SHA256 as bytes. */
export function hmacSha256Bytes(key: KeyObject, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

/** Compares secrets without telling by its duration where they differ. */
export function equalSecrets(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}

/** A new webhook signing secret: `whsec_` and the padded standard base64 of 32 random bytes (Standard Webhooks). */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
