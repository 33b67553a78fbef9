import type { components } from './api.gen.ts'
import type { ApiErrors } from './errors.gen.ts'

/** One element of an error's `details`: which field, what is wrong with it, where to read more. */
export type ErrorDetail = components['schemas']['Error']['details'][number]

/** Every code that an error of this version's API or client has. */
export type ErrorCode = keyof ApiErrors | 'network_error' | 'timeout' | 'invalid_response' | 'unexpected_redirect'

const DETAILS_SHOWN_MAX = 3

function messageOf(text: string, details: readonly ErrorDetail[]): string {
  const shown = details
    .slice(0, DETAILS_SHOWN_MAX)
    .map(({ field, message }) => (field ? `${field}: ${message}` : message))
  return [text, ...shown].join(' ')
}

/**
 * Every failure of a call, except abortion by the caller's own signal, which rejects with that signal's reason.
 *
 * `code` is the API's, such as `not_found` or `already_exists` (specification, section 7), or one of the client's own:
 * - `network_error` (status 0): no answer came; `cause` says why
 * - `timeout` (status 0): no complete answer came within `timeoutMs`
 * - `invalid_response`: an answer that is not this API's, as of a proxy or a wrong `baseUrl`
 * - `unexpected_redirect`: redirects are not followed, for they would carry the API key elsewhere
 *
 * It holds nothing of the request's headers, and so no key.
 */
export class HalfkeyError extends Error {
  override readonly name = 'HalfkeyError'
  /** The HTTP status; 0 where no answer came. */
  readonly status: number
  /** For programs: stable. A server that is newer than this package may have others than `ErrorCode` knows. */
  readonly code: ErrorCode | (string & NonNullable<unknown>)
  /** Field by field; empty where there is nothing more to say. */
  readonly details: readonly ErrorDetail[]
  /** The answer's `X-Request-Id`, by which the operator finds the call in the logs; null where no answer came. */
  readonly requestId: string | null
  /** How long the answer asks to wait (`Retry-After`), in seconds; null where it does not say. */
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
 * Whether something caught is a `HalfkeyError`, and if a code is given, one with that code. Goes by name, not by
 * class: it holds for errors of another copy of this package too.
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
