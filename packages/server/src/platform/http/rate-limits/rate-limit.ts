/** Calls per second on average, and in a burst. */
export interface RatePolicy {
  name: string
  perSecond: number
  burst: number
}

export interface RateVerdict {
  allowed: boolean
  /** How many more would be allowed in a burst now. */
  remaining: number
  /** Seconds until one is allowed (refused), or until the burst is full again. */
  retryAfterSeconds: number
  resetSeconds: number
}

/** Counts calls under a key. In memory it returns at once. A promise means that it asks a store; it never fails. */
export interface RateLimiter {
  /** Counts one call under `key`, if it is allowed. */
  take(key: string, policy: RatePolicy): RateVerdict | Promise<RateVerdict>
}

/** A `RateLimiter` that needs no shared store. */
export interface LocalRateLimiter extends RateLimiter {
  take(key: string, policy: RatePolicy): RateVerdict
}

const ENTRIES_MAX = 100_000

/**
 * The verdict on one call, by how long the bucket takes to be empty: after the call where it is allowed, and without it
 * where it is not.
 */
export function verdictOf(policy: RatePolicy, allowed: boolean, emptyInMs: number): RateVerdict {
  const intervalMs = 1000 / policy.perSecond
  const capacityMs = intervalMs * policy.burst
  const resetSeconds = Math.ceil(emptyInMs / 1000)
  if (allowed) {
    const remaining = Math.max(0, Math.floor((capacityMs - emptyInMs) / intervalMs + 1e-6))
    return { allowed, remaining, retryAfterSeconds: 0, resetSeconds }
  }
  const waitMs = emptyInMs + intervalMs - capacityMs
  return { allowed, remaining: 0, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)), resetSeconds }
}

/**
 * The generic cell rate algorithm (ITU-T I.371, leaky bucket as a virtual clock): one number an entry, exact at any
 * spacing. In this process's memory.
 */
export function createRateLimiter(nowMs: () => number = () => performance.now()): LocalRateLimiter {
  /** When the entry's bucket will be empty again. In order of insertion, so that the oldest go first. */
  const emptyAt = new Map<string, number>()

  function makeRoom(now: number): void {
    for (const [key, at] of emptyAt) {
      if (at > now && emptyAt.size < ENTRIES_MAX) break
      emptyAt.delete(key)
      if (emptyAt.size < ENTRIES_MAX / 2) break
    }
  }

  return {
    take(key, policy) {
      const now = nowMs()
      const intervalMs = 1000 / policy.perSecond
      const start = Math.max(now, emptyAt.get(key) ?? now)
      const next = start + intervalMs
      if (next - now > intervalMs * policy.burst + 1e-6) return verdictOf(policy, false, start - now)
      if (emptyAt.size >= ENTRIES_MAX) makeRoom(now)
      emptyAt.delete(key)
      emptyAt.set(key, next)
      return verdictOf(policy, true, next - now)
    },
  }
}
