import { argon2idAsync } from '@noble/hashes/argon2.js'
import { hkdf } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { type Bytes, fromBase64Url, toBase64Url, utf8 } from './bytes.ts'
import { canonicalJson } from './canonical-json.ts'
import { ShareError } from './errors.ts'
import { scalarOf } from './group.ts'
import { type Share, TOTAL_MAX } from './sharing.ts'

/** A passkey's secret (WebAuthn, PRF extension) protects the share: nobody else can open it, and nobody can guess. */
export const PRF_ALG = 'prf-hkdf-sha256-aes256gcm'
/** A password protects the share: who has the ciphertext can guess, at the price of one argon2id each. */
export const PASSWORD_ALG = 'argon2id-aes256gcm'

/**
 * What argon2id (RFC 9106) may cost. The minimum is what new ciphertexts get; less is refused as too cheap to guess,
 * more than the maximum as a way to keep the holder's machine busy.
 */
export const ARGON2ID = {
  memoryKiB: { min: 65_536, max: 262_144 },
  iterations: { min: 3, max: 10 },
  parallelism: { min: 1, max: 4 },
} as const

/** The most passkeys that one share is wrapped for. */
export const WRAPS_MAX = 20

/** The share's data key, wrapped for one passkey. Strings are base64url without padding, but for `rpId`. */
export interface PasskeyWrap {
  credentialId: string
  rpId: string
  /** 32 bytes: what the passkey's PRF is asked for, and the salt of the key made of its answer. */
  prfSalt: string
  /** The data key, encrypted: 12 bytes of nonce, 32 of ciphertext, 16 of tag. */
  wrappedDek: string
}

/** The share's data key, wrapped by a password. */
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
  /** The scalar, 32 bytes, encrypted by the data key, and 16 of tag. */
  ct: string
} & ({ alg: typeof PRF_ALG; wraps: PasskeyWrap[] } | { alg: typeof PASSWORD_ALG; wraps: PasswordWrap[] })

/** Which share it is; a ciphertext opens as no other. */
export interface ProtectionContext {
  walletId: string
  generation: number
  index: number
  /** The wallet's, 64 lower-case hex characters. */
  publicKey: string
}

/** What a passkey answered; see `prfOutput`. */
export interface PasskeySecret {
  credentialId: string
  /** 32 bytes. */
  prfOutput: Uint8Array
}

/** A passkey to wrap for. */
export interface NewPasskey extends PasskeySecret {
  rpId: string
  /** What its PRF was asked for: `newPrfSalt()`, of each passkey another. */
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
/** A domain name has no more characters. */
const RP_ID_MAX = 253

const unopened = (message = 'This was not protected by this key for this share, or it was changed.') =>
  new ShareError('seal_invalid', message)

/** Exactly what is bound, whatever else the objects have. */
function boundTo(purpose: string, context: ProtectionContext, wrap: object = {}): Bytes {
  const { walletId, generation, index, publicKey } = context
  return utf8(canonicalJson({ walletId, generation, index, publicKey, ...wrap, purpose: `halfkey/v1/${purpose}` }))
}

async function aesKey(bytes: Bytes) {
  if (globalThis.crypto?.subtle === undefined)
    throw new Error('There is no WebCrypto here: browsers have it in secure contexts only (HTTPS or localhost).')
  return crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
}

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

/** @throws ShareError seal_invalid unless the text is base64url of so many bytes */
function bytesOf(text: unknown, length: { min: number; max: number }): Bytes {
  let bytes: Bytes | undefined
  try {
    // Four characters hold three bytes: what is longer is not decoded.
    if (typeof text === 'string' && text.length <= Math.ceil((length.max * 4) / 3)) bytes = fromBase64Url(text)
  } catch {
    // Falls through.
  }
  if (bytes === undefined || bytes.length < length.min)
    throw unopened('This is no protected share: a string is not base64url, or not of its length.')
  return bytes
}

const exactly = (length: number) => ({ min: length, max: length })

function checkContext({ walletId, generation, index, publicKey }: ProtectionContext): void {
  const counts = Number.isSafeInteger(generation) && generation >= 0 && Number.isInteger(index)
  if (!counts || index < 1 || index > TOTAL_MAX || typeof walletId !== 'string' || !/^[0-9a-f]{64}$/.test(publicKey))
    throw new ShareError('share_invalid', 'A share is protected for a wallet, a generation, an index and a public key.')
}

function checkPasskeyWrap({ credentialId, rpId, prfSalt, wrappedDek }: PasskeyWrap): void {
  bytesOf(credentialId, { min: 1, max: CREDENTIAL_ID_BYTES_MAX })
  bytesOf(prfSalt, exactly(KEY_BYTES))
  bytesOf(wrappedDek, exactly(IV_BYTES + KEY_BYTES + TAG_BYTES))
  if (typeof rpId !== 'string' || rpId.length < 1 || rpId.length > RP_ID_MAX) throw unopened('A wrap has an rpId.')
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
 * Checks the form of what claims to be a protected share, without any key: fields, lengths, argon2id's cost.
 * @throws ShareError seal_invalid
 */
export function checkCiphertext(value: unknown): asserts value is ClientCiphertext {
  const { v, alg, iv, ct, wraps } = (typeof value === 'object' && value !== null ? value : {}) as ClientCiphertext
  const most = alg === PRF_ALG ? WRAPS_MAX : 1
  if (v !== 1 || (alg !== PRF_ALG && alg !== PASSWORD_ALG) || !Array.isArray(wraps))
    throw unopened('This is no protected share of a kind known here.')
  if (wraps.length < 1 || wraps.length > most || !wraps.every((wrap) => typeof wrap === 'object' && wrap !== null))
    throw unopened(`There must be 1 to ${most} wraps.`)
  bytesOf(iv, exactly(IV_BYTES))
  bytesOf(ct, exactly(KEY_BYTES + TAG_BYTES))
  if (alg === PASSWORD_ALG) return wraps.forEach(checkPasswordWrap)
  wraps.forEach(checkPasskeyWrap)
  if (new Set(wraps.map(({ credentialId }) => credentialId)).size !== wraps.length)
    throw unopened('A passkey stands there twice.')
}

/** The key that wraps for a passkey: of its secret, bound to the share and the passkey. */
function passkeyKey(context: ProtectionContext, wrap: Omit<PasskeyWrap, 'wrappedDek'>, prfOutput: Uint8Array): Bytes {
  if (prfOutput.length !== KEY_BYTES) throw unopened(`A passkey's PRF gives ${KEY_BYTES} bytes.`)
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

/** Wraps the data key by another, which is gone afterwards. */
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
  if (password === '') throw new ShareError('share_invalid', 'A password must not be empty.')
  const wrap = {
    salt: toBase64Url(random(SALT_BYTES)),
    memoryKiB: ARGON2ID.memoryKiB.min,
    iterations: ARGON2ID.iterations.min,
    parallelism: ARGON2ID.parallelism.min,
  }
  return { ...wrap, wrappedDek: await wrapDek(await passwordKey(wrap, password), dek, context, wrap) }
}

/** The data key, of a ciphertext whose form was checked. @throws ShareError seal_invalid */
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
  throw unopened('The share is protected in another way.')
}

async function openWith(dek: Bytes, { iv, ct }: ClientCiphertext, context: ProtectionContext): Promise<Share> {
  const scalar = await decrypt(dek, fromBase64Url(iv), fromBase64Url(ct), boundTo('protected-share', context))
  return { index: context.index, scalar }
}

/**
 * Protects a share by a passkey or a password: a random data key encrypts the share (AES-256-GCM, bound to `context`), the
 * passkey or password wraps the data key. What a password protects the service can guess at: it counts as known to it.
 * @throws ShareError share_invalid for no share of such a context, seal_invalid for a passkey's secret that is none
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
 * Opens a protected share. Hold the share against its commitments then (`isShareOf`): who protected it is not known here.
 * @throws ShareError seal_invalid for another passkey, password or context, and any changed bit
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
 * Wraps the data key for one more passkey; the share's own ciphertext stays as it is.
 * @throws ShareError seal_invalid as `openProtected`, share_invalid for a passkey that has a wrap, or too many
 */
export async function addWrap(
  ciphertext: ClientCiphertext,
  context: ProtectionContext,
  { openBy, newBy }: { openBy: PasskeySecret; newBy: NewPasskey },
): Promise<ClientCiphertext> {
  checkCiphertext(ciphertext)
  if (ciphertext.alg !== PRF_ALG) throw new ShareError('share_invalid', 'What a password protects has one wrap only.')
  if (ciphertext.wraps.some(({ credentialId }) => credentialId === newBy.credentialId))
    throw new ShareError('share_invalid', 'The share is wrapped for this passkey already.')
  if (ciphertext.wraps.length >= WRAPS_MAX)
    throw new ShareError('share_invalid', `A share is wrapped for at most ${WRAPS_MAX} passkeys.`)
  const dek = await dekOf(ciphertext, context, openBy)
  try {
    // A second passkey for what does not open would be no second way to the share.
    const share = await openWith(dek, ciphertext, context)
    share.scalar.fill(0)
    return { ...ciphertext, wraps: [...ciphertext.wraps, await wrapForPasskey(dek, context, newBy)] }
  } finally {
    dek.fill(0)
  }
}

/**
 * Takes a passkey's wrap away. A copy of the ciphertext from before still opens by it: after a theft, reshare.
 * @throws ShareError share_invalid for the last wrap, or a passkey that has none; seal_invalid for no such ciphertext
 */
export function removeWrap(ciphertext: ClientCiphertext, credentialId: string): ClientCiphertext {
  checkCiphertext(ciphertext)
  if (ciphertext.alg !== PRF_ALG) throw new ShareError('share_invalid', 'What a password protects has one wrap only.')
  const wraps = ciphertext.wraps.filter((wrap) => wrap.credentialId !== credentialId)
  if (wraps.length === ciphertext.wraps.length)
    throw new ShareError('share_invalid', 'The share is not wrapped for this passkey.')
  if (wraps.length === 0) throw new ShareError('share_invalid', 'Without its last wrap the share would be lost.')
  return { ...ciphertext, wraps }
}
