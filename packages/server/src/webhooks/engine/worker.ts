import { type Bell, createBell } from '../../core/bell.ts'
import type { Db } from '../../core/db.ts'
import type { Deps } from '../../core/deps.ts'
import { newId } from '../../core/ids.ts'
import { type Claim, type Claimed, claim, LEASE_SECONDS } from './claim.ts'
import { complete, type Outcome } from './complete.ts'
import { createFanOut } from './fan-out.ts'
import { forgetDeadWorkers, heartbeat, reap, signOff, wakeStrandedLanes } from './leases.ts'
import { createSender } from './send.ts'
import { createSlots } from './slots.ts'
import { alone, deleteExpired, disableFailing, removeDeleted, settleHeld } from './sweep.ts'

const POLL_LISTENING_MS = 1_000
const POLL_DEAF_MS = 250
/** Between two visits to the database: what comes meanwhile goes along, so that load makes batches larger, not more. */
const GAP_MS = 4
const FLUSH_MS = 4
const OUTCOMES_A_FLUSH = 400
const UNFLUSHED_MAX = 1_000
const HEARTBEAT_MS = 5_000
const HEARTBEAT_TRUST_MS = 10_000
/** With less of the lease left than this, a send could outlive it. */
const LEASE_LEFT_MIN_MS = 35_000
const FAULT_PAUSE_MS = 250
const SILENCE_AFTER_FAULT_MS = 15_000
const EVERYTHING_MS = 1_000
const STOP_MS = 7_000
const MINUTE_MS = 60_000
const LOCK_SWEEP = 4_812_570_347
const LOCK_RETENTION = 4_812_570_348

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

export interface WorkerOptions {
  /** Whether other processes' rings are heard now. */
  listening(): boolean
  /** More periodic work, such as recover jobs; answers whether there is more at once. */
  chores: readonly ((db: Db) => Promise<boolean>)[]
}

export interface Worker {
  bells: { outbox: Bell; due: Bell }
  start(): Promise<void>
  /** Claims nothing more, waits for what is in flight, stores its outcomes. */
  stop(): Promise<void>
  /** Whether this worker has lately reached the database. */
  alive(): boolean
}

/** One process's share of the delivery engine: loops that fan out, claim and send, flush, beat and sweep. */
export function createWorker(deps: Deps, options: WorkerOptions): Worker {
  const { db, log, metrics, config } = deps
  const workerId = newId('job')
  const bells = { outbox: createBell(), due: createBell() }
  // One bell a loop: a bell has one listener.
  const flushBell = createBell()
  const beatBell = createBell()
  const choreBell = createBell()
  const slots = createSlots()
  const fanOut = createFanOut(db)
  const send = createSender(deps)
  const unflushed: Outcome[] = []
  const publisher = { now: deps.now, wake: { outbox: bells.outbox.ring } }
  let stopping = false
  let abandoned = false
  let confirmedAt = Number.NEGATIVE_INFINITY
  let faultAt = Number.NEGATIVE_INFINITY
  let loops: Promise<unknown>[] = []

  const beating = () => performance.now() - confirmedAt < HEARTBEAT_TRUST_MS
  const pollMs = () => (options.listening() ? POLL_LISTENING_MS : POLL_DEAF_MS)

  /** Runs until told to stop; a fault (the database is away) is logged and waited out, never fatal. */
  async function loop(name: string, turn: () => Promise<void>, goOn: () => boolean = () => !stopping): Promise<void> {
    while (goOn()) {
      try {
        await turn()
      } catch (error) {
        faultAt = performance.now()
        log.warn({ err: error, loop: name }, 'delivery engine waits')
        await pause(FAULT_PAUSE_MS)
      }
    }
  }

  let everythingAt = 0
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

  async function deliver(row: Claimed, claimed: Claim, leasedAt: number): Promise<void> {
    try {
      const age = performance.now() - leasedAt
      // Too late or out of touch: nothing is sent; the lease runs out and another worker takes over.
      if (age > LEASE_SECONDS * 1000 - LEASE_LEFT_MIN_MS || !beating()) return
      const outcome = await send(row, claimed.databaseNowMs + age)
      metrics.attempts.inc({ outcome: outcome.next.kind })
      metrics.attemptSeconds.observe(outcome.durationMs / 1000)
      unflushed.push(outcome)
      flushBell.ring()
    } finally {
      slots.release(row)
      metrics.inFlight.set(slots.taken())
      // A process at its limit waits for a free slot, not for a due lane.
      if (slots.wasFull()) bells.due.ring()
    }
  }

  async function claimTurn(): Promise<void> {
    if (unflushed.length >= UNFLUSHED_MAX || !beating() || slots.free() === 0) {
      await bells.due.wait(FAULT_PAUSE_MS)
      return
    }
    const leasedAt = performance.now()
    const claimed = await claim(db, workerId, {
      perLane: config.webhookConcurrency,
      free: slots.free(),
      withoutTenants: slots.fullTenants(),
      withoutSlow: slots.slowFull(),
    })
    for (const row of claimed.rows) {
      slots.take(row)
      void deliver(row, claimed, leasedAt)
    }
    metrics.inFlight.set(slots.taken())
    if (claimed.more) return
    await pause(GAP_MS)
    await bells.due.wait(pollMs())
  }

  async function flushTurn(): Promise<void> {
    if (unflushed.length === 0) {
      await flushBell.wait(pollMs())
      if (unflushed.length > 0 && unflushed.length < OUTCOMES_A_FLUSH) await pause(FLUSH_MS)
      return
    }
    const batch = unflushed.slice(0, OUTCOMES_A_FLUSH)
    const done = await complete(db, publisher, batch, config.webhookDisableAfterMs)
    // Only now: while the database is away they stay, and are stored when it is back.
    unflushed.splice(0, batch.length)
    metrics.deadLetters.inc(done.deadLettered)
    if (done.settled < batch.length)
      log.warn({ late: batch.length - done.settled }, 'outcomes came after their lease and were dropped')
    bells.due.ring()
    for (const lane of done.failing) await disableFailing(db, publisher, lane)
  }

  async function beatTurn(): Promise<void> {
    const startedAt = performance.now()
    await heartbeat(db, workerId)
    confirmedAt = startedAt
    await beatBell.wait(HEARTBEAT_MS)
  }

  let minuteAt = performance.now()
  async function choreTurn(): Promise<void> {
    // After a fault others may be as silent as we were: their leases are left alone until they had time to come back.
    if (performance.now() - faultAt > SILENCE_AFTER_FAULT_MS) {
      const lost = await reap(db)
      if (lost > 0) {
        metrics.leasesLost.inc(lost)
        log.warn({ lost }, 'leases lost')
        bells.due.ring()
      }
    }
    let more = (await alone(db, LOCK_SWEEP, settleHeld)) > 0
    for (const chore of options.chores) more = (await chore(db)) || more
    if (performance.now() - minuteAt > MINUTE_MS) {
      minuteAt = performance.now()
      await housekeep()
    }
    if (!more) await choreBell.wait(POLL_LISTENING_MS)
  }

  async function housekeep(): Promise<void> {
    const stranded = await wakeStrandedLanes(db)
    if (stranded > 0) log.warn({ stranded }, 'lanes had due work and were not due')
    await alone(db, LOCK_SWEEP, removeDeleted)
    await forgetDeadWorkers(db)
    await alone(db, LOCK_RETENTION, (tx) => deleteExpired(tx, config.retentionMs, config.deadLetterRetentionMs))
  }

  return {
    bells,
    async start() {
      await heartbeat(db, workerId)
      confirmedAt = performance.now()
      const flushing = () => !stopping || (!abandoned && (unflushed.length > 0 || slots.taken() > 0))
      loops = [
        loop('beat', beatTurn),
        loop('fan-out', fanOutTurn),
        loop('claim', claimTurn),
        loop('chores', choreTurn),
        loop('flush', flushTurn, flushing),
      ]
    },
    async stop() {
      stopping = true
      for (const bell of [bells.outbox, bells.due, flushBell, beatBell, choreBell]) bell.ring()
      // What a receiver that hangs still holds is left to the lease: it is sent again, not waited for.
      const ended = Promise.all(loops)
      await Promise.race([ended, pause(STOP_MS)])
      abandoned = true
      await signOff(db, workerId).catch((error: unknown) => log.warn({ err: error }, 'worker not signed off'))
    },
    alive: beating,
  }
}
