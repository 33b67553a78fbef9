import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { findHeads } from './store.ts'

/** How often the feeds are checked while a request waits. */
const LOOK_MS = 200
const WAITING_MAX = 2_000
const WAITING_A_TENANT_MAX = 100
const RETRY_AFTER_SECONDS = '5'

interface Waiter {
  after: number
  end(): void
}

/** Requests that wait for new events of their tenant. They hold no connection: one statement checks for all requests of a process. */
interface Arrivals {
  /** Waits until the feed is past `after`, at most `timeoutMs`. Returns at once while the process stops. @throws rate_limited */
  wait(tenantId: Id<'ten'>, after: number, timeoutMs: number): Promise<void>
}

function createArrivals({ db, log, lifecycle }: Deps): Arrivals {
  const waiting = new Map<Id<'ten'>, Set<Waiter>>()
  let count = 0
  let looking = false

  async function look(): Promise<void> {
    const heads = new Map((await findHeads(db, [...waiting.keys()])).map(({ tenant_id, seq }) => [tenant_id, seq]))
    for (const [tenantId, waiters] of waiting)
      for (const waiter of [...waiters]) if ((heads.get(tenantId) ?? 0) > waiter.after) waiter.end()
  }

  /** Checks the feeds while any request waits. */
  async function keepLooking(): Promise<void> {
    looking = true
    while (waiting.size > 0) {
      // Without the database they wait until their time-out; their next read reports the error.
      await look().catch((error: unknown) => log.debug({ err: error }, 'the feeds could not be checked'))
      if (lifecycle.draining) for (const waiters of waiting.values()) for (const waiter of [...waiters]) waiter.end()
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
    looking = false
  }

  return {
    wait(tenantId, after, timeoutMs) {
      if (lifecycle.draining) return Promise.resolve()
      const waiters = waiting.get(tenantId) ?? new Set()
      if (count >= WAITING_MAX || waiters.size >= WAITING_A_TENANT_MAX)
        throw fail(
          'rate_limited',
          [{ field: 'wait', code: 'too_many_waiting', message: 'Too many calls are waiting. Call without `wait`.' }],
          { 'retry-after': RETRY_AFTER_SECONDS },
        )
      waiting.set(tenantId, waiters)
      count += 1
      return new Promise((resolve) => {
        const waiter: Waiter = {
          after,
          end() {
            clearTimeout(timer)
            if (!waiters.delete(waiter)) return
            count -= 1
            if (waiters.size === 0) waiting.delete(tenantId)
            resolve()
          },
        }
        const timer = setTimeout(waiter.end, timeoutMs)
        waiters.add(waiter)
        if (!looking) void keepLooking()
      })
    },
  }
}

const known = new WeakMap<Deps['lifecycle'], Arrivals>()

/** The waiting requests of this process. */
export function arrivalsOf(deps: Deps): Arrivals {
  const arrivals = known.get(deps.lifecycle) ?? createArrivals(deps)
  known.set(deps.lifecycle, arrivals)
  return arrivals
}
