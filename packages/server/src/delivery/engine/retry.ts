/** The most that jitter adds to a delay, as a fraction of it: it spreads a burst of retries and never sends early. */
const JITTER = 0.1

/**
 * What follows failed send number `retry` (0 = the first send): a retry after the delay at that place in
 * `HALFKEY_WEBHOOK_RETRY_DELAYS`, counted from the failure; after the last delay the delivery becomes a dead letter (the
 * specification, section 6).
 * @param random from 0 to 1
 */
export function nextAfterFailure(
  delaysMs: readonly number[],
  retry: number,
  random: number,
): { kind: 'retry'; inMs: number } | { kind: 'dead_letter' } {
  const delay = delaysMs[retry]
  return delay === undefined ? { kind: 'dead_letter' } : { kind: 'retry', inMs: delay * (1 + JITTER * random) }
}
