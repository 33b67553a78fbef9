import pLimit from 'p-limit'

/** So many may wait under one key. */
const WAITING_MAX = 1_000

/**
 * Runs work under the same key one after the other, in the order in which it came, and work under other keys beside it.
 * Nobody waits with a database connection in hand, for which the one whose turn it is may be waiting.
 */
export function createKeyedMutex() {
  const mutexes = new Map<string, { runAlone: ReturnType<typeof pLimit>; users: number }>()
  return {
    /** Null where too many wait already. */
    async run<T>(key: string, work: () => Promise<T>): Promise<T | null> {
      const mutex = mutexes.get(key) ?? { runAlone: pLimit(1), users: 0 }
      if (mutex.users > WAITING_MAX) return null
      mutexes.set(key, mutex)
      mutex.users += 1
      try {
        return await mutex.runAlone(work)
      } finally {
        mutex.users -= 1
        if (mutex.users === 0) mutexes.delete(key)
      }
    },
  }
}
