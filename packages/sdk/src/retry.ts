import type { HalfkeyError } from './errors.ts'

const BACK_OFF_FIRST_MS = 250
const BACK_OFF_MAX_MS = 8_000
/** If the server asks for a longer wait, the error is thrown instead. */
const RETRY_AFTER_MAX_SECONDS = 60

/** Statuses of servers and proxies that a later attempt may not get. */
const TRANSIENT_STATUSES = new Set([500, 502, 503, 504])

/**
 * Whether and when to try again.
 * @param error why the attempt failed
 * @param failures how many attempts have failed, this one included
 * @param repeatable whether a repeat has no second effect, even if the first attempt had one
 * @returns milliseconds to wait, or null to give up
 */
export function retryDelayMs(error: HalfkeyError, failures: number, repeatable: boolean): number | null {
  // Waiting for seconds does not restore a quota.
  if (error.code === 'quota_exceeded') return null
  // A rate-limited call had no effect.
  const refused = error.status === 429
  const transient =
    error.code === 'network_error' ||
    error.code === 'timeout' ||
    error.code === 'idempotency_in_progress' ||
    TRANSIENT_STATUSES.has(error.status)
  if (!refused && !(transient && repeatable)) return null
  const { retryAfterSeconds } = error
  if (retryAfterSeconds !== null && retryAfterSeconds > RETRY_AFTER_MAX_SECONDS) return null
  const ceilingMs = Math.min(BACK_OFF_MAX_MS, BACK_OFF_FIRST_MS * 2 ** (failures - 1))
  // Jitter, so that clients that failed together do not retry together; never before Retry-After.
  if (retryAfterSeconds !== null) return retryAfterSeconds * 1000 + Math.random() * BACK_OFF_FIRST_MS
  return ceilingMs * (0.5 + Math.random() / 2)
}

/** Seconds of a `Retry-After` header in either form (RFC 9110, section 10.2.3); null if it is absent or invalid. */
export function parseRetryAfter(value: string | null, nowMs: number): number | null {
  if (value === null) return null
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const atMs = /[a-z]/i.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, (atMs - nowMs) / 1000)
}
