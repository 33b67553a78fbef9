import { type Db, isOutage } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { createSignal, type Signal, type SignalName } from '../../platform/events/signal.ts'
import { idMs, newId } from '../../platform/ids.ts'
import type { Metrics } from '../../platform/observability/metrics.ts'
import { createDispatch, pause, pauseAfter } from './dispatch.ts'
import { createFanOut, type FannedOut } from './fan-out.ts'
import { createAttemptCounts } from './health/attempt-counts.ts'
import { createHeartbeat, HEARTBEAT_MS, signOff } from './upkeep/leases.ts'
import { createMaintenance, type EngineTask } from './upkeep/maintenance.ts'

/** About as long as another process needs for a batch. */
const BLOCKED_MS = 20
const POLL_LISTENING_MS = 1_000
const POLL_DEAF_MS = 250
const FAULT_PAUSE_MS = 250
const UPKEEP_MS = 1_000
const STOP_MS = 7_000
/** Loops that rest while the database may be behind its floor: nothing is sent or derived from an earlier state. */
const BELIEVING = new Set(['fan-out', 'claim', 'upkeep'])

/**
 * Settings of the engine's connections. Its tables turn over faster than their statistics, so its plans are index scans
 * whatever those say: a scan of an index clears dead entries out of its way, which one by bitmap never does, and a table
 * that is thought empty is not read whole. None of its statements is long enough to be worth compiling.
 */
export const ENGINE_SETTINGS = {
  jit: 'off',
  enable_bitmapscan: 'off',
  enable_seqscan: 'off',
  plan_cache_mode: 'force_generic_plan',
}

/** For work that may be lost in a crash of the database, because it is then repeated. */
export const ASYNC_COMMIT_SETTINGS = { ...ENGINE_SETTINGS, synchronous_commit: 'off' }

export interface WorkerOptions {
  /** Whether notifications of other processes are received now. */
  listening(): boolean
  tasks: readonly EngineTask[]
  /** Names of the feed's followers. No event is deleted before they have processed it. */
  followers: readonly string[]
  /** Connections whose commits need not be durable at once; `deps.db` has the others. */
  asyncCommit: Db
}

export interface Worker {
  signals: Record<SignalName, Signal>
  start(): Promise<void>
  /** Claims nothing more, waits a while for running sends, and stores their outcomes. */
  stop(): Promise<void>
  /** Whether this worker has lately reached the database. */
  alive(): boolean
}

function observeFanOut(metrics: Metrics, { events, oldestId }: FannedOut, startedAt: number): void {
  metrics.fannedOut.inc(events)
  if (oldestId === null) return
  const seconds = (performance.now() - startedAt) / 1000
  metrics.stageSeconds.observe({ stage: 'fan_out' }, seconds)
  metrics.stageSeconds.observe({ stage: 'outbox' }, Math.max(0, (Date.now() - idMs(oldestId)) / 1000 - seconds))
}

/** One process's share of the delivery engine: five loops, each with its own signal, since a signal has one listener. */
export function createWorker(deps: Deps, options: WorkerOptions): Worker {
  const { db, log, metrics } = deps
  const workerId = newId('job')
  const signals = { outbox: createSignal(), due: createSignal(), tasks: createSignal() }
  const rest = { beat: createSignal() }
  const heartbeat = createHeartbeat(db, workerId)
  const publisher = { now: deps.now, wake: { outbox: signals.outbox.raise } }
  const counts = createAttemptCounts(db, publisher)
  const dispatch = createDispatch(deps, {
    workerId,
    heartbeat,
    due: signals.due,
    publisher,
    asyncCommit: options.asyncCommit,
    counts,
  })
  let stopping = false
  const fanOut = createFanOut({
    asyncCommit: options.asyncCommit,
    now: deps.now,
    leasing: () => (stopping ? null : dispatch.leasing()),
  })
  const upkeep = createMaintenance(deps, publisher, heartbeat, { ...options, counts })
  const pollMs = () => (options.listening() ? POLL_LISTENING_MS : POLL_DEAF_MS)
  let abandoned = false
  let loops: Promise<unknown>[] = []

  /** Runs until told to stop; a fault (the database is away) is logged and waited out, never fatal. */
  async function loop(name: string, turn: () => Promise<void>, goOn: () => boolean = () => !stopping): Promise<void> {
    while (goOn()) {
      try {
        await (BELIEVING.has(name) && deps.floor.closed() !== null ? pause(FAULT_PAUSE_MS) : turn())
      } catch (error) {
        if (isOutage(error)) heartbeat.fault()
        log.warn({ err: error, loop: name }, 'delivery engine failed and will retry')
        await pause(FAULT_PAUSE_MS)
      }
    }
  }

  async function fanOutTurn(): Promise<void> {
    // Before the lease: as this process counts it, it never outlasts the database's.
    const startedAt = performance.now()
    const done = await fanOut()
    if (done.claimed !== null) dispatch.begin(done.claimed, startedAt)
    observeFanOut(metrics, done, startedAt)
    if (done.deliveries > (done.claimed?.rows.length ?? 0)) signals.due.raise()
    if (done.more) return
    await pauseAfter(done.events)
    await signals.outbox.wait(done.blocked ? BLOCKED_MS : pollMs())
  }

  async function upkeepTurn(): Promise<void> {
    const done = await upkeep()
    if (done.due) signals.due.raise()
    if (!done.more) await signals.tasks.wait(UPKEEP_MS)
  }

  async function beatTurn(): Promise<void> {
    await heartbeat.beat()
    await rest.beat.wait(HEARTBEAT_MS)
  }

  return {
    signals,
    async start() {
      await heartbeat.beat()
      loops = [
        loop('beat', beatTurn),
        loop('fan-out', fanOutTurn),
        loop('claim', () => dispatch.claimTurn(pollMs())),
        loop('upkeep', upkeepTurn),
        loop(
          'flush',
          () => dispatch.flushTurn(pollMs()),
          () => !stopping || (!abandoned && dispatch.busy()),
        ),
      ]
    },
    async stop() {
      stopping = true
      for (const signal of [...Object.values(signals), rest.beat]) signal.raise()
      dispatch.windUp()
      // Sends to a hanging receiver are not awaited: their leases expire, and they are sent again.
      await Promise.race([Promise.all(loops), pause(STOP_MS)])
      abandoned = true
      await counts.record().catch((error: unknown) => log.warn({ err: error }, 'attempts not counted'))
      await signOff(db, workerId).catch((error: unknown) => log.warn({ err: error }, 'worker not signed off'))
    },
    alive: heartbeat.alive,
  }
}
