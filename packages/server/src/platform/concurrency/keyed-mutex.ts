/** So many may wait for one turn. */
const WAITING_MAX = 1_000

/**
 * Lets work that has the same key run one after the other, in the order in which it came; other work beside it. Nobody
 * waits with a database connection in hand, for which the one whose turn it is may be waiting.
 */
export function createTurns() {
  const queues = new Map<string, { last: Promise<void>; waiting: number }>()
  return {
    /** Null where too many wait already. */
    async take<T>(key: string, work: () => Promise<T>): Promise<T | null> {
      const queue = queues.get(key) ?? { last: Promise.resolve(), waiting: 0 }
      if (queue.waiting > WAITING_MAX) return null
      queues.set(key, queue)
      queue.waiting += 1
      const mine = queue.last.then(work)
      queue.last = mine.then(
        () => undefined,
        () => undefined,
      )
      try {
        return await mine
      } finally {
        queue.waiting -= 1
        if (queue.waiting === 0) queues.delete(key)
      }
    },
  }
}

/**
 * Lets at most so many pieces of work run at once; the others wait, in the order in which they came. For what keeps the
 * database busy: with more of it at once than cores, each is slower and together they do less.
 */
export function createSlots(count: number) {
  let free = count
  const waiting: (() => void)[] = []
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
