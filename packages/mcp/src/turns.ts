/** How many calls may wait for their turn. */
const WAITING_MAX = 100

/** Runs work one after the other; null if too many wait already. */
export type Turns = <T>(work: () => Promise<T>) => Promise<T | null>

/** Payments of one wallet take turns: side by side they would choose the same holding, and all but one would fail. */
export function createTurns(): Turns {
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()
  return async (work) => {
    if (waiting >= WAITING_MAX) return null
    waiting += 1
    const before = last
    const done = (async () => {
      await before.catch(() => {})
      return work()
    })()
    last = done
    try {
      return await done
    } finally {
      waiting -= 1
    }
  }
}
