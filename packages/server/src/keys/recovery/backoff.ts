import type { WalletRow } from '../../wallets/wallets/service.ts'

/** Recent recovery attempts of a wallet's key, from its row. */
type Attempts = Pick<WalletRow, 'recovery_tried_at' | 'recovery_strikes' | 'recovery_after'>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const ATTEMPTS_AN_HOUR = 5
const DELAY_MAX_MS = DAY_MS

/** How long the next attempt must wait. */
export function waitMs({ recovery_after: after }: Attempts, now: Date): number {
  return after === null ? 0 : Math.max(0, after.getTime() - now.getTime())
}

/** Counts an attempt, right or wrong. Every fifth within an hour doubles the delay. A day without attempts resets it. */
export function afterAttempt(
  { recovery_tried_at: before, recovery_strikes: strikesBefore, recovery_after: after }: Attempts,
  now: Date,
): Attempts {
  const ageMs = (at: Date) => now.getTime() - at.getTime()
  const last = [...before, ...(after === null ? [] : [after])]
  const strikes = last.every((at) => ageMs(at) >= DAY_MS) ? 0 : strikesBefore
  const triedAt = [...before.filter((at) => ageMs(at) < HOUR_MS), now]
  if (triedAt.length < ATTEMPTS_AN_HOUR)
    return { recovery_tried_at: triedAt, recovery_strikes: strikes, recovery_after: after }
  const delayMs = Math.min(HOUR_MS * 2 ** strikes, DELAY_MAX_MS)
  return {
    recovery_tried_at: [],
    recovery_strikes: strikes + 1,
    recovery_after: new Date(now.getTime() + delayMs),
  }
}
