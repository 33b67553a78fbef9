import type { Db } from '../../platform/db/db.ts'
import { recordHeartbeat } from './leases.ts'

export const HEARTBEAT_MS = 5_000
const TRUST_MS = 10_000
const SILENCE_AFTER_FAULT_MS = 15_000

/** What a worker knows of its own touch with the database. All times are this process's monotonic clock. */
export interface Heartbeat {
  beat(): Promise<void>
  /** Whether a heartbeat was confirmed lately: without one, others may have taken this worker for dead. */
  alive(): boolean
  fault(): void
  /**
   * Whether the database has been in reach for a while. Right after a fault the other workers may be as silent as this
   * one was, and are no more dead.
   */
  settled(): boolean
}

/** Follows one worker's heartbeats. */
export function createHeartbeat(db: Db, workerId: string): Heartbeat {
  let confirmedAt = Number.NEGATIVE_INFINITY
  let faultAt = Number.NEGATIVE_INFINITY
  return {
    async beat() {
      const startedAt = performance.now()
      await recordHeartbeat(db, workerId)
      confirmedAt = startedAt
    },
    alive: () => performance.now() - confirmedAt < TRUST_MS,
    fault() {
      faultAt = performance.now()
    },
    settled: () => performance.now() - faultAt > SILENCE_AFTER_FAULT_MS,
  }
}
