import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'

export { bytesToHex as toHex, hexToBytes as fromHex }

/** Bytes in an ArrayBuffer that is not shared, as WebCrypto requires. */
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

/** The bytes of base64url without padding. @throws Error for any other text, also if only its unused bits differ */
export function fromBase64Url(text: string): Bytes {
  const decoded = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(decoded, (char) => char.charCodeAt(0))
  if (toBase64Url(bytes) !== text) throw new Error('the text is not base64url without padding')
  return bytes
}
