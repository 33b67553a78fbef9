import type { X402PaymentPayload, X402PaymentRequirements, X402Settlement } from '../models.ts'

/** What a seller asks for: one way to pay for one request. */
export type Terms = X402PaymentRequirements

/** Decimals of every asset of the embedded ledger. */
export const DECIMALS = 10
/** Headers of x402, version 2. Their values are JSON as base64. */
export const REQUIRED = 'PAYMENT-REQUIRED'
export const SIGNATURE = 'PAYMENT-SIGNATURE'
export const RESPONSE = 'PAYMENT-RESPONSE'

/** Methods of requests that can be paid for. */
export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** What the service accepts: see `X402PaymentRequirements`. */
export const TIMEOUT_SECONDS_MAX = 3_600
export const RESOURCE = /^https?:\/\/[\x21-\x7e]{1,2000}$/
export const PARTY = /^[A-Za-z0-9_-]{1,120}::1220[0-9a-f]{64}$/
export const SYMBOL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/
const NONCE = /^[0-9a-f]{64}$/

const TAG = 'halfkey/x402/v1'
/** Far beyond any value of x402, and what servers take as a header. */
const HEADER_CHARS_MAX = 16_384

/** An asset of the ledger. Anybody can issue one with the same symbol: the issuer decides. */
export interface Asset {
  issuer: string
  symbol: string
}

/** How x402 names an asset. */
export const assetId = ({ issuer, symbol }: Asset): string => `${issuer}/${symbol}`

/** What a seller says when a payment is missing. */
export interface PaymentRequired {
  x402Version: 2
  error: string
  resource: { url: string; description?: string; mimeType?: string }
  accepts: Terms[]
}

/** Writes the value of a header. */
export function encodeHeader(value: PaymentRequired | X402PaymentPayload | X402Settlement): string {
  const bytes = new TextEncoder().encode(JSON.stringify(value))
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

/** Reads the value of a header; undefined for anything but an object. */
export function decodeHeader(text: string): Record<string, unknown> | undefined {
  if (text.length > HEADER_CHARS_MAX) return undefined
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')

/** Of a text, as hex. */
export async function sha256(text: string): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))))
}

/** A new nonce: 32 random bytes as hex. Whoever knows it can use what is paid with it. */
export const newNonce = (): string => hex(crypto.getRandomValues(new Uint8Array(32)))

/** @throws TypeError for another form */
export function checkedNonce(nonce: string): string {
  if (NONCE.test(nonce)) return nonce
  throw new TypeError('nonce must be 64 lower-case hex digits, as newNonce() makes them')
}

/** The command id that commits a transfer to one request. It does not depend on the price, so a changed price is not paid beside. */
export async function commandIdOf(method: string, resource: string, nonce: string): Promise<string> {
  return `x402-${await sha256(JSON.stringify([TAG, method, resource, nonce]))}`
}
