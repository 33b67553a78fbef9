/** How often a wallet's key was tried to be recovered of late. */
export interface Tries {
  /** Within the last hour, and maybe before; none of those that led to a delay. */
  at: readonly Date[]
  /** How often there were too many since it was last quiet. */
  strikes: number
  /** From when the next try is taken; null for at once. */
  after: Date | null
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TRIES_AN_HOUR = 5
const DELAY_MAX_MS = DAY_MS

/** How long the next try has to wait. */
export function waitMs({ after }: Tries, now: Date): number {
  return after === null ? 0 : Math.max(0, after.getTime() - now.getTime())
}

/** After one more try, right or wrong: every fifth within an hour doubles the delay, until a day was quiet. */
export function afterTry(before: Tries, now: Date): Tries {
  const ago = (at: Date) => now.getTime() - at.getTime()
  const last = [...before.at, ...(before.after === null ? [] : [before.after])]
  const strikes = last.every((at) => ago(at) >= DAY_MS) ? 0 : before.strikes
  const at = [...before.at.filter((one) => ago(one) < HOUR_MS), now]
  if (at.length < TRIES_AN_HOUR) return { at, strikes, after: before.after }
  const delayMs = Math.min(HOUR_MS * 2 ** strikes, DELAY_MAX_MS)
  return { at: [], strikes: strikes + 1, after: new Date(now.getTime() + delayMs) }
}
