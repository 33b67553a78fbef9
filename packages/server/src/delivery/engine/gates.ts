import { LRUCache } from 'lru-cache'
import type { Claimed } from './claim.ts'
import type { Outcome } from './complete.ts'

/** How much work of a lane a process takes at once: as much as it can send in this time. */
const AHEAD_MS = 250
/** A destination that takes longer for a batch is slow. */
const BATCH_MS = 1_000
const AHEAD_ROWS_MAX = 512
/** The weight of the newest response in the average time of a lane. */
const NEWEST = 0.2
const LANES_KNOWN_MAX = 10_000
/** A lease that has waited twice its expected time is returned, because its lane has become slower. */
const WAIT_MAX_MS = 2 * AHEAD_MS
/** Rows that wait for their turn in this process, over all lanes. */
const WAITING_MAX = 1_024
/** A response within this time lets a webhook have one more request at once. */
const FAST_MS = 100

interface Waiting {
  row: Claimed
  sinceMs: number
  begin(send: boolean): void
}

interface Gate {
  running: number
  queue: Waiting[]
}

export interface Concurrency {
  /** How many requests at once a webhook may have to begin with. */
  usual: number
  /** How many one that answers fast may have. */
  most: number
}

/**
 * How many requests at once each lane may have: one more after each fast response, up to the most; one after a failure,
 * and twice as many after each success until it is the usual number again. A batch is one request, so a lane that is
 * written in batches may have as many deliveries as fit into one.
 */
function createCaps({ usual, most }: Concurrency) {
  const caps = new LRUCache<string, number>({ max: LANES_KNOWN_MAX })
  const batches = new LRUCache<string, number>({ max: LANES_KNOWN_MAX })
  return {
    of: (laneId: string): number => batches.get(laneId) ?? caps.get(laneId) ?? usual,
    batchOf: (laneId: string): number | undefined => batches.get(laneId),
    learnBatch: (laneId: string, most: number): void => void batches.set(laneId, most),
    forgetBatch: (laneId: string): void => void batches.delete(laneId),
    learn(laneId: string, succeeded: boolean, durationMs: number): void {
      const cap = caps.get(laneId) ?? usual
      if (!succeeded) caps.set(laneId, 1)
      else if (cap < usual) caps.set(laneId, Math.min(cap * 2, usual))
      else caps.set(laneId, durationMs > FAST_MS ? usual : Math.min(cap + 1, Math.max(most, usual)))
    },
  }
}

/**
 * Keeps each lane's cap inside this process. A lane that answers promptly has more rows leased than may be sent at
 * once, so that it need not go back to the database for every few of them; the rest waits here.
 */
export function createGates(concurrency: Concurrency) {
  const caps = createCaps(concurrency)
  const gates = new Map<string, Gate>()
  /** The weighted average response time in milliseconds, for lanes whose last send succeeded. */
  const paces = new LRUCache<string, number>({ max: LANES_KNOWN_MAX })
  let waiting = 0

  function release(gate: Gate, laneId: string): void {
    gate.running -= 1
    const next = gate.queue.shift()
    if (next !== undefined) {
      waiting -= 1
      gate.running += 1
      next.begin(true)
    } else if (gate.running === 0) gates.delete(laneId)
  }

  return {
    /** How many requests at once a lane may have. */
    capOf: caps.of,

    /** How many rows of a lane this process may hold, if it alone holds any; 0 for no more than the cap. */
    ahead(laneId: string, cap: number): number {
      const batch = caps.batchOf(laneId)
      if (batch !== undefined) return batch
      const paceMs = paces.get(laneId)
      if (paceMs === undefined || waiting >= WAITING_MAX) return 0
      const rows = Math.floor((cap * AHEAD_MS) / Math.max(paceMs, 0.1))
      return rows > cap ? Math.min(rows, AHEAD_ROWS_MAX) : 0
    },

    learn(laneId: string, { next, durationMs, batchMax }: Outcome): void {
      const succeeded = next.kind === 'succeeded'
      // One that failed is tried again as the same batch, however long that took: who only hangs is sent singles by its timeouts.
      if (batchMax !== null && (durationMs <= BATCH_MS || !succeeded)) {
        caps.learnBatch(laneId, batchMax)
        return
      }
      // A slow one holds its places for long: it gets no more of them than a URL.
      caps.forgetBatch(laneId)
      caps.learn(laneId, succeeded, durationMs)
      const before = paces.get(laneId) ?? durationMs
      if (!succeeded) return void paces.delete(laneId)
      paces.set(laneId, before + (durationMs - before) * NEWEST)
    },

    /** Waits for the row's turn. @returns false when it waited too long, or everything is being let go: do not send it */
    async enter(row: Claimed): Promise<boolean> {
      const gate = gates.get(row.lane_id) ?? { running: 0, queue: [] }
      gates.set(row.lane_id, gate)
      if (gate.running < row.cap) {
        gate.running += 1
        return true
      }
      waiting += 1
      return new Promise((resolve) => gate.queue.push({ row, sinceMs: performance.now(), begin: resolve }))
    },

    leave(row: Claimed): void {
      const gate = gates.get(row.lane_id)
      if (gate !== undefined) release(gate, row.lane_id)
    },

    waiting: () => waiting,

    /** Releases rows that have waited too long, and forgets their lane's speed. With `all`, releases everything. */
    drain(all: boolean): void {
      const oldest = performance.now() - WAIT_MAX_MS
      for (const [laneId, gate] of gates) {
        // In order of arrival: if the first may stay, all may.
        if (gate.queue[0] === undefined || !(all || gate.queue[0].sinceMs < oldest)) continue
        paces.delete(laneId)
        waiting -= gate.queue.length
        for (const { begin } of gate.queue.splice(0)) begin(false)
      }
    },
  }
}
