import type { EventData } from './events.gen.ts'
import type { CustomEventData } from './models.ts'

type AllEventData = EventData & CustomEventData

/** Every kind of event that this version of the package knows, and those that you declared. */
export type EventType = keyof AllEventData

/**
 * An event as it is delivered (specification, section 6). `type` decides the form of `data`. A server that is newer than
 * this package may send other kinds: handle them with a `default`.
 */
export type WebhookEvent<Type extends EventType = EventType> = {
  [Kind in Type]: {
    /** The same at every attempt: use it to ignore repeats. */
    id: string
    type: Kind
    /** ISO 8601 UTC with milliseconds. */
    created_at: string
    /** `YYYY-MM-DD` */
    api_version: string
    data: AllEventData[Kind]
    /** The subscriber that the event was published for. */
    subscriber_id?: string
  }
}[Type]

/** A request's headers: of the Fetch standard, or of Node's `request.headers` and the like, whatever their case. */
export type WebhookHeaders = Pick<Headers, 'get'> | Record<string, string | string[] | undefined>

/** Options of a receiver. */
export interface VerifyWebhookOptions {
  /** How far a timestamp may differ from now in either direction, in seconds (default 300: specification, section 6). */
  toleranceSeconds?: number | undefined
  /** The clock; the system's by default. */
  now?: (() => Date) | undefined
}

/**
 * Why a delivery was rejected:
 * - `signature_missing`: neither `X-Service-Signature` nor `webhook-signature`
 * - `signature_malformed`: not `sha256=` and 64 lower-case hex digits, or no `v1,` and base64 of 32 bytes
 * - `signature_mismatch`: the signature is not valid for this body, timestamp, id and secret
 * - `timestamp_missing`, `timestamp_malformed`, `timestamp_too_old`, `timestamp_in_future`
 * - `timestamps_differ`: `X-Service-Timestamp` is not `webhook-timestamp`
 * - `event_id_missing`: a `webhook-signature` without `webhook-id`
 * - `event_id_mismatch`: an id header is not the body's `id`
 * - `header_repeated`: one of these headers was sent more than once
 * - `body_malformed`: signed, but no event
 * - `event_in_headers`: signed, but of the format `cloudevents_binary`, whose type is in headers that are not signed. Use
 *   `verifyWebhookSignature` for it
 */
export type WebhookRejection =
  | 'signature_missing'
  | 'signature_malformed'
  | 'signature_mismatch'
  | 'timestamp_missing'
  | 'timestamp_malformed'
  | 'timestamp_too_old'
  | 'timestamp_in_future'
  | 'timestamps_differ'
  | 'event_id_missing'
  | 'event_id_mismatch'
  | 'header_repeated'
  | 'body_malformed'
  | 'event_in_headers'

/** A delivery that is not genuine: respond with 400. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
  /** For programs: stable. */
  readonly reason: WebhookRejection

  constructor(reason: WebhookRejection) {
    super(`The webhook delivery is not genuine: ${reason}`)
    this.reason = reason
  }
}

const SECRETS_MAX = 10
const SIGNATURES_MAX = 10
/** Enough for the year 33658, and exact as a number. */
const TIMESTAMP = /^\d{1,12}$/
const SPECIFIED_SIGNATURE = /^sha256=([0-9a-f]{64})$/
const STANDARD_SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/

const encoder = new TextEncoder()

type Bytes = Uint8Array<ArrayBuffer>

/** One signature scheme's part of a delivery: what was signed, and the MACs, one of which must be valid. */
interface Claim {
  timestamp: string
  signed: Bytes
  macs: Bytes[]
  /** The secret as this scheme's key; null if it cannot be one. */
  keyOf(secret: string): Bytes | null
}

function reject(reason: WebhookRejection): never {
  throw new WebhookVerificationError(reason)
}

function bytesOf(body: string | Uint8Array): Bytes {
  if (typeof body === 'string') return encoder.encode(body)
  if (body instanceof Uint8Array) return new Uint8Array(body)
  throw new TypeError('rawBody must be the body as received, as text or bytes, before any JSON parser')
}

function joined(head: string, tail: Bytes): Bytes {
  const start = encoder.encode(head)
  const all = new Uint8Array(start.length + tail.length)
  all.set(start)
  all.set(tail, start.length)
  return all
}

function headerOf(headers: WebhookHeaders): (name: string) => string | null {
  if (typeof headers.get === 'function') return (name) => (headers as Pick<Headers, 'get'>).get(name)
  const entries = Object.entries(headers as Record<string, string | string[] | undefined>)
  return (name) => {
    const found = entries.filter(([key, value]) => value !== undefined && key.toLowerCase() === name)
    const value = found[0]?.[1]
    if (value === undefined) return null
    if (found.length > 1 || typeof value !== 'string') return reject('header_repeated')
    return value
  }
}

function fromHex(hex: string): Bytes {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}

function fromBase64(base64: string): Bytes | null {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  } catch {
    return null
  }
}

/** The scheme of `X-Service-Signature`: hex over `<timestamp>.<body>`, keyed by the whole secret as UTF-8. */
function specifiedClaim(header: (name: string) => string | null, body: Bytes): Claim | null {
  const signature = header('x-service-signature')
  if (signature === null) return null
  const mac = SPECIFIED_SIGNATURE.exec(signature)?.[1] ?? reject('signature_malformed')
  const timestamp = header('x-service-timestamp') ?? reject('timestamp_missing')
  return {
    timestamp,
    signed: joined(`${timestamp}.`, body),
    macs: [fromHex(mac)],
    keyOf: (secret) => encoder.encode(secret),
  }
}

/**
 * Standard Webhooks: base64 over `<id>.<timestamp>.<body>`, keyed by the decoded secret. Spaces separate several
 * signatures; versions other than `v1` are ignored.
 */
function standardClaim(header: (name: string) => string | null, body: Bytes): Claim | null {
  const signatures = header('webhook-signature')
  if (signatures === null) return null
  const macs = signatures
    .split(' ', SIGNATURES_MAX)
    .flatMap((signature) => STANDARD_SIGNATURE.exec(signature)?.[1] ?? [])
    .flatMap((base64) => fromBase64(base64) ?? [])
  if (macs.length === 0) reject('signature_malformed')
  const id = header('webhook-id') ?? reject('event_id_missing')
  const timestamp = header('webhook-timestamp') ?? reject('timestamp_missing')
  return {
    timestamp,
    signed: joined(`${id}.${timestamp}.`, body),
    macs,
    keyOf: (secret) => fromBase64(secret.replace(/^whsec_/, '')),
  }
}

function checkTimestamps(claims: Claim[], toleranceSeconds: number, now: Date): void {
  for (const { timestamp } of claims) {
    if (timestamp !== claims[0]?.timestamp) reject('timestamps_differ')
    if (!TIMESTAMP.test(timestamp)) reject('timestamp_malformed')
    const ageSeconds = Math.floor(now.getTime() / 1000) - Number(timestamp)
    if (ageSeconds > toleranceSeconds) reject('timestamp_too_old')
    if (ageSeconds < -toleranceSeconds) reject('timestamp_in_future')
  }
}

/** Whether one of a claim's MACs is the HMAC-SHA256 with one of the secrets. WebCrypto compares in constant time. */
async function holds(claim: Claim, secrets: readonly string[]): Promise<boolean> {
  for (const secret of secrets) {
    const bytes = claim.keyOf(secret)
    if (bytes === null || bytes.length === 0) continue
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
    for (const mac of claim.macs) {
      if (await crypto.subtle.verify('HMAC', key, mac, claim.signed)) return true
    }
  }
  return false
}

async function anyHolds(claims: readonly Claim[], secrets: readonly string[]): Promise<boolean> {
  for (const claim of claims) {
    if (await holds(claim, secrets)) return true
  }
  return false
}

/** An event of the format `cloudevents_structured` with the members of `standard`; any other as it is. */
function standardOf(event: Record<string, unknown>): Record<string, unknown> {
  if (event.specversion === undefined) return event
  const { specversion, id, type, time, apiversion, subscriberid, data } = event
  if (specversion !== '1.0') return {}
  const standard = { id, type, created_at: time, api_version: apiversion, data }
  return subscriberid === undefined ? standard : { ...standard, subscriber_id: subscriberid }
}

function eventOf(body: Bytes): WebhookEvent {
  let parsed: unknown
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body))
  } catch {
    return reject('body_malformed')
  }
  if (typeof parsed !== 'object' || parsed === null) return reject('body_malformed')
  const event = standardOf(parsed as Record<string, unknown>)
  const { id, type, created_at, api_version, data } = event
  const texts = [id, type, created_at, api_version].every((text) => typeof text === 'string')
  if (!texts || typeof data !== 'object' || data === null || Array.isArray(data)) return reject('body_malformed')
  return event as WebhookEvent
}

/** The secrets as a list. @throws TypeError when none is usable */
export function checkedSecrets(secrets: string | readonly string[]): readonly string[] {
  const all = typeof secrets === 'string' ? [secrets] : secrets
  const usable = Array.isArray(all) && all.every((secret) => typeof secret === 'string' && secret !== '')
  if (!usable || all.length === 0 || all.length > SECRETS_MAX)
    throw new TypeError(`secrets must be one webhook secret, or a list of 1 to ${SECRETS_MAX}; none may be empty`)
  return all
}

function checkedTolerance(toleranceSeconds: number): number {
  // NaN would be no limit at all.
  if (Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0) return toleranceSeconds
  throw new TypeError('toleranceSeconds must be a number, 0 or more')
}

/**
 * Verifies that a delivery is genuine, as `verifyWebhook` does, without reading its body. For webhooks with the format
 * `cloudevents_binary`: the body is the event's data, and its other attributes are in `ce-…` headers. The signature covers
 * the body and `webhook-id`, not these headers.
 * @throws WebhookVerificationError when the delivery is not genuine
 * @throws TypeError when called without a usable body, secret or tolerance
 */
export async function verifyWebhookSignature(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): Promise<void> {
  const body = bytesOf(rawBody)
  const known = checkedSecrets(secrets)
  const toleranceSeconds = checkedTolerance(options.toleranceSeconds ?? 300)
  const header = headerOf(headers)
  const claims = [specifiedClaim(header, body), standardClaim(header, body)].filter((claim) => claim !== null)
  if (claims.length === 0) reject('signature_missing')
  checkTimestamps(claims, toleranceSeconds, options.now?.() ?? new Date())
  if (!(await anyHolds(claims, known))) reject('signature_mismatch')
}

/**
 * Verifies a delivery and returns its event (specification, section 6). Needs WebCrypto: Node, browsers, workers.
 *
 * A delivery has two signatures: `X-Service-Signature`, and `webhook-signature` of Standard Webhooks. One signature that
 * is valid for one of the secrets is enough: during a rotation the first is made with the old secret, the second with
 * both. So a receiver may know the old secret, the new one, or both. All other headers must be well-formed and consistent.
 * A genuine delivery may be sent twice: ignore an `id` that you have seen.
 *
 * An event of the format `cloudevents_structured` is returned with the same members as one of `standard`. The `data` of a
 * webhook with the payload `thin` is always empty, whatever its type says: get the event with `events.get`.
 * @param rawBody the body as received: a parsed and serialised body would be other bytes
 * @param secrets the webhook's `whsec_…`, or several of them, at most 10
 * @throws WebhookVerificationError when the delivery is not genuine
 * @throws TypeError when called without a usable body, secret or tolerance
 */
export async function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): Promise<WebhookEvent> {
  // Copied once: the bytes that were verified are the bytes that are read.
  const body = bytesOf(rawBody)
  await verifyWebhookSignature(body, headers, secrets, options)
  const header = headerOf(headers)
  if (header('ce-specversion') !== null) reject('event_in_headers')
  const event = eventOf(body)
  for (const name of ['x-service-event-id', 'webhook-id']) {
    if ((header(name) ?? event.id) !== event.id) reject('event_id_mismatch')
  }
  return event
}
