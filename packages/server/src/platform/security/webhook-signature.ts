import { createSecretKey, type KeyObject } from 'node:crypto'
import { hmacSha256 } from './crypto.ts'

/** A webhook's secret as the HMAC key of each of the two schemes. */
export interface SigningKey {
  /** The UTF-8 bytes of the whole text: the specification's section 6. */
  whole: KeyObject
  /** The bytes behind `whsec_`, base64-decoded: Standard Webhooks. */
  decoded: KeyObject
}

/** Keys are created once: HMAC with raw bytes would create a KeyObject at every call. */
export function signingKey(secret: string): SigningKey {
  return {
    whole: createSecretKey(Buffer.from(secret, 'utf8')),
    decoded: createSecretKey(Buffer.from(secret.replace(/^whsec_/, ''), 'base64')),
  }
}

/**
 * The headers of one attempt, over the bytes of the body.
 * @param current the secret in force
 * @param previous while a rotation's grace lasts: then `X-Service-Signature` stays with it, and `webhook-signature`
 *   carries both, so that receivers may change over at any moment
 * @param timestampSeconds Unix time of signing
 */
export function signatureHeaders(
  eventId: string,
  body: string,
  current: SigningKey,
  previous: SigningKey | null,
  timestampSeconds: number,
): Record<string, string> {
  const timestamp = String(timestampSeconds)
  const specified = hmacSha256((previous ?? current).whole, `${timestamp}.${body}`, 'hex')
  const standardText = `${eventId}.${timestamp}.${body}`
  const standard = [current, ...(previous === null ? [] : [previous])].map(
    (key) => `v1,${hmacSha256(key.decoded, standardText, 'base64')}`,
  )
  return {
    'content-type': 'application/json',
    'X-Service-Signature': `sha256=${specified}`,
    'X-Service-Timestamp': timestamp,
    'X-Service-Event-Id': eventId,
    'webhook-id': eventId,
    'webhook-timestamp': timestamp,
    'webhook-signature': standard.join(' '),
  }
}
