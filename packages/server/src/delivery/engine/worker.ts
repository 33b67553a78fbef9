import { type Db, isOutage } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Bell, createBell } from '../../platform/events/signal.ts'
import { newId } from '../../platform/ids.ts'
import { createDispatch, GAP_MS, pause } from './dispatch.ts'
import { createFanOut } from './fan-out.ts'
import { signOff } from './leases.ts'
import { createPulse, HEARTBEAT_MS } from './pulse.ts'
import { type Chore, createUpkeep } from './upkeep.ts'

const POLL_LISTENING_MS = 1_000
const POLL_DEAF_MS = 250
const FAULT_PAUSE_MS = 250
/** How often the fan-out looks at the whole outbox, and not only at what is recent. */
const EVERYTHING_MS = 1_000
const UPKEEP_MS = 1_000
const STOP_MS = 7_000

export interface WorkerOptions {
  /** Whether other processes' rings are heard now. */
  listening(): boolean
  chores: readonly Chore[]
  /** Names of the feed's followers: no event goes before they have folded it. */
  followers: readonly string[]
  /** Connections whose commits need not be durable at once; `deps.db` has the others. */
  hasty: Db
}

export interface Worker {
  bells: { outbox: Bell; due: Bell }
  start(): Promise<void>
  /** Claims nothing more, waits a while for what is in flight, stores its outcomes. */
  stop(): Promise<void>
  /** Whether this worker has lately reached the database. */
  alive(): boolean
}

/** One process's share of the delivery engine: five loops, each with a bell of its own, for a bell has one listener. */
export function createWorker(deps: Deps, options: WorkerOptions): Worker {
  const { db, log, metrics } = deps
  const workerId = newId('job')
  const bells = { outbox: createBell(), due: createBell() }
  const rest = { beat: createBell(), upkeep: createBell() }
  const pulse = createPulse(db, workerId)
  const publisher = { now: deps.now, wake: { outbox: bells.outbox.ring } }
  const dispatch = createDispatch(deps, { workerId, pulse, due: bells.due, publisher, hasty: options.hasty })
  const fanOut = createFanOut(options.hasty, deps.now)
  const upkeep = createUpkeep(deps, publisher, pulse, options)
  const pollMs = () => (options.listening() ? POLL_LISTENING_MS : POLL_DEAF_MS)
  let stopping = false
  let abandoned = false
  let loops: Promise<unknown>[] = []
  let everythingAt = 0

  /** Runs until told to stop; a fault (the database is away) is logged and waited out, never fatal. */
  async function loop(name: string, turn: () => Promise<void>, goOn: () => boolean = () => !stopping): Promise<void> {
    while (goOn()) {
      try {
        await turn()
      } catch (error) {
        if (isOutage(error)) pulse.fault()
        log.warn({ err: error, loop: name }, 'delivery engine waits')
        await pause(FAULT_PAUSE_MS)
      }
    }
  }

  async function fanOutTurn(): Promise<void> {
    const everything = performance.now() - everythingAt > EVERYTHING_MS
    const done = await fanOut(everything)
    if (everything) everythingAt = performance.now()
    metrics.fannedOut.inc(done.events)
    if (done.deliveries > 0) bells.due.ring()
    if (done.more) return
    await pause(GAP_MS)
    await bells.outbox.wait(pollMs())
  }

  async function upkeepTurn(): Promise<void> {
    const done = await upkeep()
    if (done.due) bells.due.ring()
    if (!done.more) await rest.upkeep.wait(UPKEEP_MS)
  }

  async function beatTurn(): Promise<void> {
    await pulse.beat()
    await rest.beat.wait(HEARTBEAT_MS)
  }

  return {
    bells,
    async start() {
      await pulse.beat()
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
      for (const bell of [bells.outbox, bells.due, rest.beat, rest.upkeep]) bell.ring()
      dispatch.windUp()
      // What a receiver that hangs still holds is left to the lease: it is sent again, not waited for.
      await Promise.race([Promise.all(loops), pause(STOP_MS)])
      abandoned = true
      await signOff(db, workerId).catch((error: unknown) => log.warn({ err: error }, 'worker not signed off'))
    },
    alive: pulse.alive,
  }
}
