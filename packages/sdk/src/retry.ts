import type { HalfkeyError } from './errors.ts'

const BACK_OFF_FIRST_MS = 250
const BACK_OFF_MAX_MS = 8_000
/** A server that asks for more patience than this gets its error passed on instead. */
const RETRY_AFTER_MAX_SECONDS = 60

/** Statuses of servers and proxies that a later attempt may not meet. */
const PASSING_STATUSES = new Set([500, 502, 503, 504])

/**
 * Whether and when to try again.
 * @param error why the attempt failed
 * @param failures how many attempts have failed, this one included
 * @param repeatable whether a second effect is impossible, though the first attempt may have had one
 * @returns milliseconds to wait, or null to give up
 */
export function retryDelayMs(error: HalfkeyError, failures: number, repeatable: boolean): number | null {
  // Seconds change nothing about a quota that is used up.
  if (error.code === 'quota_exceeded') return null
  // A call that was refused for its rate has had no effect, whatever it was.
  const refused = error.status === 429
  const passing =
    error.code === 'network_error' ||
    error.code === 'timeout' ||
    error.code === 'idempotency_in_progress' ||
    PASSING_STATUSES.has(error.status)
  if (!refused && !(passing && repeatable)) return null
  const { retryAfterSeconds } = error
  if (retryAfterSeconds !== null && retryAfterSeconds > RETRY_AFTER_MAX_SECONDS) return null
  const ceilingMs = Math.min(BACK_OFF_MAX_MS, BACK_OFF_FIRST_MS * 2 ** (failures - 1))
  // Jitter, so that clients that failed together do not come back together; never before Retry-After.
  if (retryAfterSeconds !== null) return retryAfterSeconds * 1000 + Math.random() * BACK_OFF_FIRST_MS
  return ceilingMs * (0.5 + Math.random() / 2)
}

/** Seconds of a `Retry-After` header in either of its forms (RFC 9110, section 10.2.3); null for none or another. */
export function parseRetryAfter(value: string | null, nowMs: number): number | null {
  if (value === null) return null
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const atMs = /[a-z]/i.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, (atMs - nowMs) / 1000)
}
