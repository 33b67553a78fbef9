import { argon2idAsync } from '@noble/hashes/argon2.js'
import { hkdf } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { type Bytes, fromBase64Url, toBase64Url, utf8 } from './bytes.ts'
import { canonicalJson } from './canonical-json.ts'
import { ShareError } from './errors.ts'
import { scalarOf } from './group.ts'
import { type Share, TOTAL_MAX } from './sharing.ts'

/** A passkey's secret (WebAuthn, PRF extension) protects the share. It cannot be guessed. */
export const PRF_ALG = 'prf-hkdf-sha256-aes256gcm'
/** A password protects the share. Anyone with the ciphertext can guess it, at the cost of one argon2id per guess. */
export const PASSWORD_ALG = 'argon2id-aes256gcm'

/**
 * The cost of argon2id (RFC 9106). New ciphertexts get the minimum. Less is refused because guessing would be cheap,
 * more than the maximum because it would overload the holder's machine.
 */
export const ARGON2ID = {
  memoryKiB: { min: 65_536, max: 262_144 },
  iterations: { min: 3, max: 10 },
  parallelism: { min: 1, max: 4 },
} as const

/** The most passkeys that one share is wrapped for. */
export const WRAPS_MAX = 20

/** The share's data key, wrapped for one passkey. Strings are base64url without padding, except `rpId`. */
export interface PasskeyWrap {
  credentialId: string
  rpId: string
  /** 32 bytes: the input of the passkey's PRF, and the salt of the key that is derived from its output. */
  prfSalt: string
  /** The data key, encrypted: 12 bytes of nonce, 32 of ciphertext, 16 of tag. */
  wrappedDek: string
}

/** The share's data key, wrapped with a password. */
export interface PasswordWrap {
  /** 16 bytes. */
  salt: string
  memoryKiB: number
  iterations: number
  parallelism: number
  wrappedDek: string
}

/** A protected share, as the service may store it; strings are base64url without padding. */
export type ClientCiphertext = {
  v: 1
  /** 12 bytes. */
  iv: string
  /** The scalar encrypted with the data key: 32 bytes of ciphertext, 16 of tag. */
  ct: string
} & ({ alg: typeof PRF_ALG; wraps: PasskeyWrap[] } | { alg: typeof PASSWORD_ALG; wraps: PasswordWrap[] })

/** Which share it is. A ciphertext cannot be opened as another share. */
export interface ProtectionContext {
  walletId: string
  generation: number
  index: number
  /** The wallet's, 64 lower-case hex characters. */
  publicKey: string
}

/** A passkey's answer; see `prfOutput`. */
export interface PasskeySecret {
  credentialId: string
  /** 32 bytes. */
  prfOutput: Uint8Array
}

/** A passkey to wrap for. */
export interface NewPasskey extends PasskeySecret {
  rpId: string
  /** The input of its PRF: a result of `newPrfSalt()`, another one for each passkey. */
  prfSalt: string
}

/** A password, compared as its NFKC form in UTF-8. */
export interface Password {
  password: string
}

const IV_BYTES = 12
const KEY_BYTES = 32
const TAG_BYTES = 16
const SALT_BYTES = 16
/** WebAuthn, section 4: a credential id. */
const CREDENTIAL_ID_BYTES_MAX = 1023
/** The most characters of a domain name. */
const RP_ID_MAX = 253

const unopened = (
  message = 'The protected share cannot be opened: the key or the share is another one, or it was changed.',
) => new ShareError('seal_invalid', message)

/** The additional data: only these fields, although the objects may have more. */
function boundTo(purpose: string, context: ProtectionContext, wrap: object = {}): Bytes {
  const { walletId, generation, index, publicKey } = context
  return utf8(canonicalJson({ walletId, generation, index, publicKey, ...wrap, purpose: `halfkey/v1/${purpose}` }))
}

async function aesKey(bytes: Bytes) {
  if (globalThis.crypto?.subtle === undefined)
    throw new Error('WebCrypto is not available here. Browsers offer it in secure contexts only: HTTPS or localhost.')
  return crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
}

/** Characters. NIST SP 800-63B-4 (section 3.1.1.2) asks for 8 beside another factor; these can be tried offline. */
const PASSWORD_MIN = 12

const random = (length: number): Bytes => crypto.getRandomValues(new Uint8Array(length))

async function encrypt(key: Bytes, plaintext: Bytes, additionalData: Bytes): Promise<{ iv: Bytes; ct: Bytes }> {
  const iv = random(IV_BYTES)
  const ct = await crypto.subtle.encrypt({ name: 'AES-GCM', iv, additionalData }, await aesKey(key), plaintext)
  return { iv, ct: new Uint8Array(ct) }
}

/** @throws ShareError seal_invalid */
async function decrypt(key: Bytes, iv: Bytes, ct: Bytes, additionalData: Bytes): Promise<Bytes> {
  const aes = await aesKey(key)
  try {
    return new Uint8Array(await crypto.subtle.decrypt({ name: 'AES-GCM', iv, additionalData }, aes, ct))
  } catch {
    throw unopened()
  }
}

/** @throws ShareError seal_invalid unless the text is base64url of that many bytes */
function bytesOf(text: unknown, length: { min: number; max: number }): Bytes {
  let bytes: Bytes | undefined
  try {
    // Four characters hold three bytes. Longer text is not decoded.
    if (typeof text === 'string' && text.length <= Math.ceil((length.max * 4) / 3)) bytes = fromBase64Url(text)
  } catch {
    // Falls through.
  }
  if (bytes === undefined || bytes.length < length.min)
    throw unopened('Not a protected share: a string is not base64url or has the wrong length.')
  return bytes
}

const exactly = (length: number) => ({ min: length, max: length })

function checkContext({ walletId, generation, index, publicKey }: ProtectionContext): void {
  const counts = Number.isSafeInteger(generation) && generation >= 0 && Number.isInteger(index)
  if (!counts || index < 1 || index > TOTAL_MAX || typeof walletId !== 'string' || !/^[0-9a-f]{64}$/.test(publicKey))
    throw new ShareError(
      'share_invalid',
      '`walletId`, `generation`, `index` and `publicKey` must name a share: see ProtectionContext.',
    )
}

function checkPasskeyWrap({ credentialId, rpId, prfSalt, wrappedDek }: PasskeyWrap): void {
  bytesOf(credentialId, { min: 1, max: CREDENTIAL_ID_BYTES_MAX })
  bytesOf(prfSalt, exactly(KEY_BYTES))
  bytesOf(wrappedDek, exactly(IV_BYTES + KEY_BYTES + TAG_BYTES))
  if (typeof rpId !== 'string' || rpId.length < 1 || rpId.length > RP_ID_MAX)
    throw unopened(`A wrap's rpId must have 1 to ${RP_ID_MAX} characters.`)
}

function checkPasswordWrap({ salt, wrappedDek, ...cost }: PasswordWrap): void {
  bytesOf(salt, exactly(SALT_BYTES))
  bytesOf(wrappedDek, exactly(IV_BYTES + KEY_BYTES + TAG_BYTES))
  for (const name of ['memoryKiB', 'iterations', 'parallelism'] as const) {
    const { min, max } = ARGON2ID[name]
    if (!Number.isInteger(cost[name]) || cost[name] < min || cost[name] > max)
      throw unopened(`argon2id's ${name} must be ${min} to ${max}.`)
  }
}

/**
 * Checks the form of a protected share without opening it: fields, lengths, argon2id's cost.
 * @throws ShareError seal_invalid
 */
export function checkCiphertext(value: unknown): asserts value is ClientCiphertext {
  const { v, alg, iv, ct, wraps } = (typeof value === 'object' && value !== null ? value : {}) as ClientCiphertext
  const most = alg === PRF_ALG ? WRAPS_MAX : 1
  if (v !== 1 || (alg !== PRF_ALG && alg !== PASSWORD_ALG) || !Array.isArray(wraps))
    throw unopened('Not a protected share, or one of an unknown version or algorithm.')
  if (wraps.length < 1 || wraps.length > most || !wraps.every((wrap) => typeof wrap === 'object' && wrap !== null))
    throw unopened(`There must be 1 to ${most} wraps.`)
  bytesOf(iv, exactly(IV_BYTES))
  bytesOf(ct, exactly(KEY_BYTES + TAG_BYTES))
  if (alg === PASSWORD_ALG) return wraps.forEach(checkPasswordWrap)
  wraps.forEach(checkPasskeyWrap)
  if (new Set(wraps.map(({ credentialId }) => credentialId)).size !== wraps.length)
    throw unopened('A passkey may have only one wrap.')
}

/** The wrapping key of a passkey, derived from its secret and bound to the share and the passkey. */
function passkeyKey(context: ProtectionContext, wrap: Omit<PasskeyWrap, 'wrappedDek'>, prfOutput: Uint8Array): Bytes {
  if (prfOutput.length !== KEY_BYTES) throw unopened(`The output of a passkey's PRF must have ${KEY_BYTES} bytes.`)
  const { walletId, generation, index, publicKey } = context
  const { credentialId, rpId, prfSalt } = wrap
  const bound = canonicalJson({ walletId, generation, index, publicKey, credentialId, rpId })
  return new Uint8Array(
    hkdf(sha256, prfOutput, fromBase64Url(prfSalt), utf8(`halfkey/v1/share-prf${bound}`), KEY_BYTES),
  )
}

async function passwordKey(wrap: Omit<PasswordWrap, 'wrappedDek'>, password: string): Promise<Bytes> {
  const { memoryKiB: m, iterations: t, parallelism: p } = wrap
  const salt = fromBase64Url(wrap.salt)
  return new Uint8Array(await argon2idAsync(utf8(password.normalize('NFKC')), salt, { m, t, p, dkLen: KEY_BYTES }))
}

/** Wraps the data key with another key, which is wiped afterwards. */
async function wrapDek(key: Bytes, dek: Bytes, context: ProtectionContext, wrap: object): Promise<string> {
  try {
    const { iv, ct } = await encrypt(key, dek, boundTo('share-dek', context, wrap))
    return toBase64Url(new Uint8Array([...iv, ...ct]))
  } finally {
    key.fill(0)
  }
}

async function unwrapDek(key: Bytes, wrappedDek: string, context: ProtectionContext, wrap: object): Promise<Bytes> {
  const bytes = fromBase64Url(wrappedDek)
  try {
    return await decrypt(key, bytes.slice(0, IV_BYTES), bytes.slice(IV_BYTES), boundTo('share-dek', context, wrap))
  } finally {
    key.fill(0)
  }
}

async function wrapForPasskey(dek: Bytes, context: ProtectionContext, by: NewPasskey): Promise<PasskeyWrap> {
  const wrap = { credentialId: by.credentialId, rpId: by.rpId, prfSalt: by.prfSalt }
  checkPasskeyWrap({ ...wrap, wrappedDek: toBase64Url(new Uint8Array(IV_BYTES + KEY_BYTES + TAG_BYTES)) })
  return { ...wrap, wrappedDek: await wrapDek(passkeyKey(context, wrap, by.prfOutput), dek, context, wrap) }
}

async function wrapByPassword(dek: Bytes, context: ProtectionContext, { password }: Password): Promise<PasswordWrap> {
  // Whoever has the ciphertext can try passwords, with nothing to stop them.
  if ([...password].length < PASSWORD_MIN)
    throw new ShareError('share_invalid', `A password must have at least ${PASSWORD_MIN} characters.`)
  const wrap = {
    salt: toBase64Url(random(SALT_BYTES)),
    memoryKiB: ARGON2ID.memoryKiB.min,
    iterations: ARGON2ID.iterations.min,
    parallelism: ARGON2ID.parallelism.min,
  }
  return { ...wrap, wrappedDek: await wrapDek(await passwordKey(wrap, password), dek, context, wrap) }
}

/** The data key of a ciphertext. Check its form first. @throws ShareError seal_invalid */
async function dekOf(
  ciphertext: ClientCiphertext,
  context: ProtectionContext,
  by: PasskeySecret | Password,
): Promise<Bytes> {
  if (ciphertext.alg === PRF_ALG && 'prfOutput' in by) {
    const found = ciphertext.wraps.find(({ credentialId }) => credentialId === by.credentialId)
    if (found === undefined) throw unopened('The share is not protected by this passkey.')
    const wrap = { credentialId: found.credentialId, rpId: found.rpId, prfSalt: found.prfSalt }
    return unwrapDek(passkeyKey(context, wrap, by.prfOutput), found.wrappedDek, context, wrap)
  }
  const [found] = ciphertext.wraps
  if (ciphertext.alg === PASSWORD_ALG && 'password' in by && found !== undefined && 'salt' in found) {
    const { salt, memoryKiB, iterations, parallelism } = found
    const wrap = { salt, memoryKiB, iterations, parallelism }
    return unwrapDek(await passwordKey(wrap, by.password), found.wrappedDek, context, wrap)
  }
  throw unopened(
    'The share is not protected with this kind of secret: give a passkey instead of a password, or the reverse.',
  )
}

async function openWith(dek: Bytes, { iv, ct }: ClientCiphertext, context: ProtectionContext): Promise<Share> {
  const scalar = await decrypt(dek, fromBase64Url(iv), fromBase64Url(ct), boundTo('protected-share', context))
  return { index: context.index, scalar }
}

/**
 * Protects a share with a passkey or a password. A random data key encrypts the share (AES-256-GCM, bound to
 * `context`), and the passkey or password wraps the data key. The service can guess a password, so treat such a share
 * as known to it.
 * @throws ShareError share_invalid for an invalid share or context, seal_invalid for an invalid passkey secret
 */
export async function protectShare(
  share: Share,
  of: Omit<ProtectionContext, 'index'>,
  by: NewPasskey | Password,
): Promise<ClientCiphertext> {
  const context = { ...of, index: share.index }
  checkContext(context)
  scalarOf(share.scalar)
  const dek = random(KEY_BYTES)
  try {
    const wrapped =
      'password' in by
        ? { alg: PASSWORD_ALG, wraps: [await wrapByPassword(dek, context, by)] }
        : { alg: PRF_ALG, wraps: [await wrapForPasskey(dek, context, by)] }
    const { iv, ct } = await encrypt(dek, new Uint8Array(share.scalar), boundTo('protected-share', context))
    return { v: 1, iv: toBase64Url(iv), ct: toBase64Url(ct), ...wrapped } as ClientCiphertext
  } finally {
    dek.fill(0)
  }
}

/**
 * Opens a protected share. Then check the share against its commitments (`isShareOf`): this function cannot know who
 * protected it. @throws ShareError seal_invalid for another passkey, password or context, or a changed bit
 */
export async function openProtected(
  ciphertext: ClientCiphertext,
  context: ProtectionContext,
  by: PasskeySecret | Password,
): Promise<Share> {
  checkCiphertext(ciphertext)
  const dek = await dekOf(ciphertext, context, by)
  try {
    return await openWith(dek, ciphertext, context)
  } finally {
    dek.fill(0)
  }
}

/**
 * Wraps the data key for one more passkey. The ciphertext of the share does not change.
 * @throws ShareError seal_invalid as `openProtected`, share_invalid if the passkey has a wrap already, or for too many
 * wraps
 */
export async function addWrap(
  ciphertext: ClientCiphertext,
  context: ProtectionContext,
  { openBy, newBy }: { openBy: PasskeySecret; newBy: NewPasskey },
): Promise<ClientCiphertext> {
  checkCiphertext(ciphertext)
  if (ciphertext.alg !== PRF_ALG)
    throw new ShareError('share_invalid', 'A share that is protected with a password has exactly one wrap.')
  if (ciphertext.wraps.some(({ credentialId }) => credentialId === newBy.credentialId))
    throw new ShareError('share_invalid', 'The share is already wrapped for this passkey.')
  if (ciphertext.wraps.length >= WRAPS_MAX)
    throw new ShareError('share_invalid', `A share can be wrapped for at most ${WRAPS_MAX} passkeys.`)
  const dek = await dekOf(ciphertext, context, openBy)
  try {
    // Check that the share opens: otherwise the new wrap would be useless, and nobody would notice.
    const share = await openWith(dek, ciphertext, context)
    share.scalar.fill(0)
    return { ...ciphertext, wraps: [...ciphertext.wraps, await wrapForPasskey(dek, context, newBy)] }
  } finally {
    dek.fill(0)
  }
}

/**
 * Removes a passkey's wrap. The passkey still opens older copies of the ciphertext: after a theft, reshare.
 * @throws ShareError share_invalid for the last wrap, or a passkey without a wrap; seal_invalid for an invalid
 * ciphertext
 */
export function removeWrap(ciphertext: ClientCiphertext, credentialId: string): ClientCiphertext {
  checkCiphertext(ciphertext)
  if (ciphertext.alg !== PRF_ALG)
    throw new ShareError('share_invalid', 'A share that is protected with a password has exactly one wrap.')
  const wraps = ciphertext.wraps.filter((wrap) => wrap.credentialId !== credentialId)
  if (wraps.length === ciphertext.wraps.length)
    throw new ShareError('share_invalid', 'The share is not wrapped for this passkey.')
  if (wraps.length === 0)
    throw new ShareError('share_invalid', 'The last wrap cannot be removed: the share would be lost.')
  return { ...ciphertext, wraps }
}
