/** So many a second on average, and so many at once. */
export interface RatePolicy {
  name: string
  perSecond: number
  burst: number
}

export interface RateVerdict {
  allowed: boolean
  /** How many more would be allowed at once now. */
  remaining: number
  /** Seconds until one is allowed (refused), or until the burst is full again. */
  retryAfterSeconds: number
  resetSeconds: number
}

const ENTRIES_MAX = 100_000

/**
 * The generic cell rate algorithm (ITU-T I.371, leaky bucket as a virtual clock): one number an entry, exact at any
 * spacing. In this process's memory.
 */
export function createRateLimiter(nowMs: () => number = () => performance.now()) {
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
    /** Counts one call under `key`, if it is allowed. */
    take(key: string, policy: RatePolicy): RateVerdict {
      const now = nowMs()
      const intervalMs = 1000 / policy.perSecond
      const capacityMs = intervalMs * policy.burst
      const start = Math.max(now, emptyAt.get(key) ?? now)
      const next = start + intervalMs
      if (next - now > capacityMs + 1e-6) {
        const waitMs = next - now - capacityMs
        return {
          allowed: false,
          remaining: 0,
          retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
          resetSeconds: Math.ceil((start - now) / 1000),
        }
      }
      if (emptyAt.size >= ENTRIES_MAX) makeRoom(now)
      emptyAt.delete(key)
      emptyAt.set(key, next)
      const remaining = Math.floor((capacityMs - (next - now)) / intervalMs + 1e-6)
      return { allowed: true, remaining, retryAfterSeconds: 0, resetSeconds: Math.ceil((next - now) / 1000) }
    },
  }
}

export type RateLimiter = ReturnType<typeof createRateLimiter>
