import { type Config, publicUrl } from '../config.ts'
import { type Id, type IdPrefix, isId } from '../ids.ts'

/** One element of an error's `details`: the field, the problem, and where to read more. */
export interface ErrorDetail {
  field?: string
  code: string
  message: string
  docs?: string
  [more: string]: unknown
}

/** code → [HTTP status, public text]. Each slice has a table of this form; the statuses are those of the specification's section 7. */
export type ErrorTable = Record<string, readonly [status: 400 | 401 | 403 | 404 | 409 | 410 | 429 | 500, text: string]>

/** The errors that any endpoint may return. */
export const COMMON_ERRORS = {
  validation_failed: [400, 'The request is not valid.'],
  malformed_json: [400, 'The body is not valid JSON.'],
  malformed_request: [400, 'The request is not valid HTTP.'],
  payload_too_large: [400, 'The body is larger than 1 MiB.'],
  unsupported_media_type: [400, 'The body must be sent as application/json.'],
  api_key_missing: [401, 'The API key is missing. Send it in the `x-api-key` header.'],
  api_key_invalid: [401, 'This API key is not valid. Check that it was copied completely and is active.'],
  session_missing: [
    401,
    'This call acts for a user. Send their access token as `Authorization: Bearer`, or, with a secret key, their id as `x-user-id`.',
  ],
  session_invalid: [401, 'This token is not valid. Sign in again.'],
  dpop_proof_invalid: [401, "The proof of possession of the session's key (`DPoP`) is not valid for this request."],
  dpop_proof_required: [
    401,
    'This session is bound to a key. Send its token as `Authorization: DPoP`, with a proof by that key in the `DPoP` header.',
  ],
  session_expired: [401, 'This access token has expired. Get a new one with the refresh token.'],
  session_revoked: [401, 'This session has ended. Sign in again.'],
  insufficient_scope: [403, "This API key's scopes do not allow this call."],
  key_type_not_allowed: [403, 'This call needs a secret key. Make it from your server, never from a browser.'],
  origin_not_allowed: [403, "This origin is neither in the app's `allowedOrigins` nor a verified custom domain."],
  ip_not_allowed: [403, "This API key may not be used from this address (see the key's `allowedIps`)."],
  user_suspended: [403, 'This user is suspended.'],
  mfa_required: [403, 'This call needs a second factor that was verified within the last five minutes.'],
  mfa_enrollment_required: [403, 'This app requires a second factor, and this user has none yet. Set one up first.'],
  stronger_sign_in_required: [
    403,
    'This session began with an email code, a sign-in provider, an external wallet or a token of another issuer, which is not enough for this call. Show a passkey or the second factor of this account first.',
  ],
  reauthentication_required: [403, 'This call needs a sign-in within the last five minutes. Sign in again.'],
  not_found: [404, 'Not found.'],
  already_exists: [409, 'A record with this value already exists.'],
  idempotency_conflict: [409, 'This `Idempotency-Key` was already used with a different request. Use a new key.'],
  idempotency_in_progress: [
    409,
    'The first request with this `Idempotency-Key` is still running. Retry after a second.',
  ],
  guest_expired: [410, 'This guest session has ended.'],
  rate_limited: [429, 'Too many requests. Wait as long as `Retry-After` says, then retry.'],
  internal_error: [
    500,
    'Something went wrong on our side. Retry. If it fails again, search the log for the `X-Request-Id`.',
  ],
  key_service_unavailable: [
    500,
    'The key service that holds the key-encryption key does not answer. Retry after as many seconds as `Retry-After` says.',
  ],
  record_tampered: [
    500,
    'A stored record that this call depends on was changed by something other than Halfkey. Nothing was done.',
  ],
  database_behind_floor: [
    500,
    'The database went back to an earlier state, so nothing in it is believed until its operator has accepted that state. Nothing was done.',
  ],
  not_ready: [500, 'The service is not ready.'],
} as const satisfies ErrorTable

/** An error response: thrown anywhere below a route. The server turns it into the error envelope. */
export class HttpError extends Error {
  readonly status: number
  readonly code: string
  details: readonly ErrorDetail[]
  readonly headers: Readonly<Record<string, string>>
  /** Whether the transaction commits although the call fails: see `commitOnThrow`. */
  keepsEffects = false

  constructor(
    status: number,
    code: string,
    text: string,
    details: readonly ErrorDetail[] = [],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(text)
    this.status = status
    this.code = code
    this.details = details
    this.headers = headers
  }

  /** Adds a detail that names the invalid field, with this error's code. */
  about(field: string, message: string, more: Record<string, unknown> = {}): this {
    this.details = [...this.details, { field, code: this.code, message, ...more }]
    return this
  }

  /** Fails the call but lets its transaction commit, for example to count a wrong code. */
  commitOnThrow(): this {
    this.keepsEffects = true
    return this
  }
}

/** Creates a slice's `fail(code, …)` from its error table and the common codes. */
export function failures<T extends ErrorTable>(table: T) {
  const all: ErrorTable = { ...COMMON_ERRORS, ...table }
  return function fail(
    code: keyof T | keyof typeof COMMON_ERRORS,
    details: readonly ErrorDetail[] = [],
    headers: Readonly<Record<string, string>> = {},
  ): HttpError {
    const [status, text] = all[code as string] as ErrorTable[string]
    return new HttpError(status, code as string, text, details, headers)
  }
}

/** `fail` for the common errors. */
export const fail = failures({})

/** The record that a path names. @throws not_found if it does not exist */
export function existing<T>(record: T | undefined): T {
  if (record === undefined) throw fail('not_found')
  return record
}

/** An id from a path. @throws not_found for a text that cannot be an id of this kind; it is never looked up */
export function pathId<P extends IdPrefix>(prefix: P, text: string): Id<P> {
  if (!isId(prefix, text)) throw fail('not_found')
  return text
}

/** A 400 that names one field. `code` is machine-readable, e.g. `invalid`, `too_long`. */
export function invalid(
  field: string,
  message: string,
  code = 'invalid',
  more: Record<string, unknown> = {},
): HttpError {
  return fail('validation_failed', [{ field, code, message, ...more }])
}

/** The 404 for an id in a body or query. It names the field, unlike the 404 for an id in a path. */
export function notFoundField(field: string): HttpError {
  return fail('not_found').about(field, `You have no record with this ${field}.`)
}

/**
 * The body of an error (specification, section 7). Each detail has the link to the error's page; an error without details
 * gets one that repeats its text.
 */
export function envelope(config: Config, { message, code, details }: HttpError): string {
  const docs = `${publicUrl(config)}/docs/errors/${code}`
  return JSON.stringify({
    error: message,
    code,
    details: (details.length === 0 ? [{ code, message }] : details).map((detail: ErrorDetail) => ({
      ...detail,
      docs: detail.docs ?? docs,
    })),
  })
}
