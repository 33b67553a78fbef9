/** The most that is added to a delay, as a part of it: spreads a burst of retries, and never sends early. */
const JITTER = 0.1

/** What comes after a failed send. */
export type Next = { kind: 'retry'; inMs: number } | { kind: 'dead_letter' }

/**
 * The retry that follows failed send number `retry` (0 = the first send): the specification's section 6 table, whose
 * delays count from the failure. After the last one the delivery is a dead letter.
 * @param random from 0 to 1
 */
export function nextAfterFailure(delaysMs: readonly number[], retry: number, random: number): Next {
  const delay = delaysMs[retry]
  return delay === undefined ? { kind: 'dead_letter' } : { kind: 'retry', inMs: delay * (1 + JITTER * random) }
}
