import type { components } from './api.gen.ts'
import type { ApiErrors } from './errors.gen.ts'

/** One element of an error's `details`: which field, what is wrong, and where to read more. */
export type ErrorDetail = components['schemas']['Error']['details'][number]

/** Every error code of this version's API and client. */
export type ErrorCode =
  | keyof ApiErrors
  | 'network_error'
  | 'timeout'
  | 'invalid_response'
  | 'unexpected_redirect'
  | 'pin_required'
  | 'service_unverified'

const DETAILS_SHOWN_MAX = 3

function messageOf(text: string, details: readonly ErrorDetail[]): string {
  const shown = details
    // An error without details repeats its text in one, for the link to its page.
    .filter(({ message }) => message !== text)
    .slice(0, DETAILS_SHOWN_MAX)
    .map(({ field, message }) => (field ? `${field}: ${message}` : message))
  return [text, ...shown].join(' ')
}

/**
 * Every failure of a call, except when the caller's own signal aborts it: the call then rejects with that signal's reason.
 *
 * `code` is from the API, such as `not_found` or `already_exists` (specification, section 7), or from the client:
 * - `network_error` (status 0): there was no response; the message names the address and the reason, `cause` has the error
 * - `timeout` (status 0): the response was not complete within `timeoutMs`
 * - `invalid_response`: the response is not from this API, for example because of a proxy or a wrong `baseUrl`
 * - `unexpected_redirect`: redirects are not followed, because they would send the API key elsewhere
 * - `pin_required` (status 0): the client needs the service's `pin` for this; nothing was sent
 * - `service_unverified` (status 0): the answer is not from the pinned service, or its signature has expired
 *
 * It holds none of the request's headers, and so no key.
 */
export class HalfkeyError extends Error {
  override readonly name = 'HalfkeyError'
  /** The HTTP status; 0 without a response. */
  readonly status: number
  /** For programs: stable. A newer server may return codes that are not in `ErrorCode`. */
  readonly code: ErrorCode | (string & NonNullable<unknown>)
  /** One element for each problem. Empty for an error of the client, such as `network_error`. */
  readonly details: readonly ErrorDetail[]
  /** The response's `X-Request-Id`, with which the operator finds the call in the logs; null without a response. */
  readonly requestId: string | null
  /** How long to wait (`Retry-After`), in seconds; null if the response does not say. */
  readonly retryAfterSeconds: number | null

  constructor(
    text: string,
    fields: {
      status: number
      code: string
      details?: readonly ErrorDetail[]
      requestId?: string | null
      retryAfterSeconds?: number | null
      cause?: unknown
    },
  ) {
    const details = fields.details ?? []
    super(messageOf(text, details), fields.cause === undefined ? undefined : { cause: fields.cause })
    this.status = fields.status
    this.code = fields.code
    this.details = details
    this.requestId = fields.requestId ?? null
    this.retryAfterSeconds = fields.retryAfterSeconds ?? null
  }
}

/**
 * Whether a caught value is a `HalfkeyError`, and if a code is given, one with that code. Compares the name, not the
 * class, so that errors of another copy of this package match too.
 */
export function isHalfkeyError<Code extends ErrorCode>(
  error: unknown,
  code?: Code,
): error is HalfkeyError & { readonly code: Code } {
  return (
    error instanceof Error &&
    error.name === 'HalfkeyError' &&
    (code === undefined || (error as HalfkeyError).code === code)
  )
}
