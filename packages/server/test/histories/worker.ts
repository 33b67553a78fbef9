import { createDispatch } from '../../src/delivery/engine/dispatch.ts'
import { createFanOut } from '../../src/delivery/engine/fan-out.ts'
import { createAttemptCounts } from '../../src/delivery/engine/health/attempt-counts.ts'
import { createHeartbeat, HEARTBEAT_MS, signOff } from '../../src/delivery/engine/upkeep/leases.ts'
import { createMaintenance } from '../../src/delivery/engine/upkeep/maintenance.ts'
import { webhookSlice } from '../../src/delivery/webhooks/slice.ts'
import type { Db } from '../../src/platform/db/db.ts'
import { createSignal } from '../../src/platform/events/signal.ts'
import { newId } from '../../src/platform/ids.ts'
import type { Network } from './network.ts'
import type { Stage } from './stage.ts'

/** A worker whose loops a history turns by hand: each call is one turn, and none waits. */
export interface SteppedWorker {
  id: string
  /** A frozen one does nothing, not even beat. */
  frozen: boolean
  beatAtMs: number
  /** Beats if that is due. */
  beat(): Promise<void>
  fanOut(): Promise<void>
  claim(): Promise<void>
  flush(): Promise<void>
  upkeep(): Promise<void>
  /** Ends as a process that was asked to. */
  stop(): Promise<void>
}

/** Puts a worker together as `createWorker` does, without its loops. */
export async function startWorker(stage: Stage, network: Network): Promise<SteppedWorker> {
  const { engineDb, asyncCommit, log, nowMs } = stage
  const id = newId('job')
  const deps = { ...stage.deps, db: engineDb, log, egress: network.egressOf(id, stage.deps.egress) }
  const heartbeat = createHeartbeat(engineDb, id)
  const due = createSignal()
  const publisher = { now: deps.now, wake: { outbox() {} } }
  const counts = createAttemptCounts(engineDb, publisher)
  const dispatch = createDispatch(deps, { workerId: id, heartbeat, due, publisher, asyncCommit, counts })
  let stopping = false
  const fanOut = createFanOut({ asyncCommit, now: deps.now, leasing: () => (stopping ? null : dispatch.leasing()) })
  const jobs = webhookSlice.tasks?.(deps) ?? []
  const tasks = jobs.map((task) => async (db: Db) => stage.hasJobs && task(db))
  const upkeep = createMaintenance(deps, publisher, heartbeat, { tasks, followers: [], counts })
  const worker: SteppedWorker = {
    id,
    frozen: false,
    beatAtMs: Number.NEGATIVE_INFINITY,
    async beat() {
      if (nowMs() - worker.beatAtMs < HEARTBEAT_MS) return
      await heartbeat.beat()
      worker.beatAtMs = nowMs()
    },
    async fanOut() {
      const startedAt = performance.now()
      const { claimed } = await fanOut()
      if (claimed !== null) dispatch.begin(claimed, startedAt)
    },
    async claim() {
      // A signal that is raised already is not waited for.
      due.raise()
      await dispatch.claimTurn(0)
    },
    async flush() {
      const storing = network.storing(id)
      if (storing.length === 0) return
      await dispatch.flushTurn(0)
      for (const send of storing) send.stored = 'yes'
    },
    async upkeep() {
      await upkeep()
    },
    async stop() {
      stopping = true
      dispatch.windUp()
      await settled()
      network.storing(id)
      await dispatch.flushTurn(0)
      await signOff(engineDb, id)
    },
  }
  await worker.beat()
  return worker
}

/** Everything has happened that does not wait for a step. */
export async function settled(): Promise<void> {
  for (let turns = 0; turns < 2; turns += 1) await new Promise((resolve) => setImmediate(resolve))
}
