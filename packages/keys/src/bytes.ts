import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'

export { bytesToHex as toHex, hexToBytes as fromHex }

/** Bytes that stand in memory of their own, as WebCrypto takes them. */
export type Bytes = Uint8Array<ArrayBuffer>

/** A text's UTF-8 bytes. */
export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text)
}

/** Base64url without padding (RFC 4648, section 5). */
export function toBase64Url(bytes: Uint8Array): string {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

/** Undoes `toBase64Url`. @throws Error for what is not in that form, to the bit */
export function fromBase64Url(text: string): Bytes {
  const decoded = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(decoded, (char) => char.charCodeAt(0))
  if (toBase64Url(bytes) !== text) throw new Error('this is not base64url without padding')
  return bytes
}
