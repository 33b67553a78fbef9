/** Lets work that has the same key run one after the other, in the order in which it came; other work beside it. */
export function createTurns() {
  const last = new Map<string, Promise<unknown>>()
  return {
    async take<T>(key: string, work: () => Promise<T>): Promise<T> {
      const before = last.get(key)
      const mine = before === undefined ? work() : before.then(work)
      const ended = mine.then(
        () => undefined,
        () => undefined,
      )
      last.set(key, ended)
      try {
        return await mine
      } finally {
        if (last.get(key) === ended) last.delete(key)
      }
    },
  }
}
