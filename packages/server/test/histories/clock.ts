/** A clock that a history moves. */
export interface MovableClock {
  /** By how much it was moved so far. */
  movedMs(): number
  move(ms: number): void
  restore(): void
}

/** Makes this process's monotonic clock movable: the engine counts leases, heartbeats and pauses by it. */
export function makeClockMovable(): MovableClock {
  const real = performance.now.bind(performance)
  let movedMs = 0
  Object.defineProperty(performance, 'now', { configurable: true, value: () => real() + movedMs })
  return {
    movedMs: () => movedMs,
    move(ms) {
      movedMs += ms
    },
    restore() {
      Reflect.deleteProperty(performance, 'now')
    },
  }
}
