import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Publisher } from '../../platform/events/events.ts'
import { createSignal, type Signal } from '../../platform/events/signal.ts'
import { type Claimed, claim, type DatabaseClock, databaseNow, LEASE_SECONDS } from './claim.ts'
import { completeEach, notSent, type Outcome } from './complete.ts'
import { createGates } from './gates.ts'
import type { AttemptCounts } from './health/attempt-counts.ts'
import { createSender, isSendable } from './send.ts'
import type { Heartbeat } from './upkeep/leases.ts'
import { disableFailing } from './upkeep/sweep.ts'
import type { Leasing, NewClaim } from './write-deliveries.ts'

/** The longest pause between two database calls. */
const GAP_MAX_MS = 10
const OUTCOMES_A_FLUSH = 400
const UNFLUSHED_MAX = 1_000
/** With less of the lease left than this, a send could outlive it. */
const LEASE_LEFT_MIN_MS = 35_000
const BLOCKED_PAUSE_MS = 250
/** How many sends one process runs at once. */
const SLOTS = 4_096
/** How many of them one tenant may have. */
const SLOTS_A_TENANT = SLOTS / 4
/** How many of them slow webhooks, which take seconds, may have together. */
const SLOTS_SLOW = SLOTS / 2

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/**
 * The pause after a batch. Work that arrives meanwhile joins the next one, so that load makes batches larger, not more
 * frequent; where each is a single row, none waits.
 */
export async function pauseAfter(rows: number): Promise<void> {
  if (rows > 1) await pause(Math.min(rows - 1, GAP_MAX_MS))
}

export interface DispatchOptions {
  workerId: string
  heartbeat: Heartbeat
  due: Signal
  publisher: Publisher
  /** See `EngineDbs`. */
  asyncCommit: Db
  counts: AttemptCounts
}

interface Holder {
  tenant_id: string
  slow: boolean
}

/** Counts a process's sends, so that neither one tenant nor the slow receivers can use all of them. */
function createDispatchQuota() {
  const byTenant = new Map<string, number>()
  let taken = 0
  let slow = 0
  let full = false
  return {
    take(row: Holder): void {
      taken += 1
      if (row.slow) slow += 1
      byTenant.set(row.tenant_id, (byTenant.get(row.tenant_id) ?? 0) + 1)
      full ||= taken >= SLOTS
    },
    release(row: Holder): void {
      taken -= 1
      if (row.slow) slow -= 1
      const left = (byTenant.get(row.tenant_id) ?? 1) - 1
      if (left === 0) byTenant.delete(row.tenant_id)
      else byTenant.set(row.tenant_id, left)
      if (left === SLOTS_A_TENANT - 1) full = true
    },
    taken: () => taken,
    /** Two loops lease at once, so that together they may take more than there are. */
    free: () => Math.max(0, SLOTS - taken),
    /** How many more sends a tenant may have. */
    roomOf: (tenantId: string) => Math.max(0, SLOTS_A_TENANT - (byTenant.get(tenantId) ?? 0)),
    fullTenants: () => [...byTenant].filter(([, count]) => count >= SLOTS_A_TENANT).map(([tenant]) => tenant),
    slowFull: () => slow >= SLOTS_SLOW,
    /** Whether a limit was reached since the last call. Somebody may then be waiting for a free slot. */
    wasFull(): boolean {
      const was = full
      full = false
      return was
    },
  }
}

interface SendOptions extends Pick<DispatchOptions, 'heartbeat' | 'due' | 'counts'> {
  slots: ReturnType<typeof createDispatchQuota>
  gates: ReturnType<typeof createGates>
  /** Stores an outcome, soon. */
  keep(outcome: Outcome): void
}

/** Sends what was leased, each delivery when its turn comes. `leasedAt`: before the lease, by the monotonic clock. */
function createSends(deps: Deps, { heartbeat, due, counts, slots, gates, keep }: SendOptions) {
  const { metrics } = deps
  const send = createSender(deps)

  /** Sends a row when its turn comes. If it is too late, or the database is unreachable, nothing is sent: the lease expires or is returned. */
  async function attempt(row: Claimed, clock: DatabaseClock, leasedAt: number): Promise<Outcome | undefined> {
    const age = () => performance.now() - leasedAt
    if (!isSendable(row))
      return notSent(row, databaseNow(clock), 'dead_letter', 'the event is older than the retention period')
    if (!(await gates.enter(row))) return notSent(row, databaseNow(clock), 'released', null)
    try {
      if (age() > LEASE_SECONDS * 1000 - LEASE_LEFT_MIN_MS || !heartbeat.alive()) return undefined
      const outcome = await send(row, databaseNow(clock))
      gates.learn(row.lane_id, outcome)
      counts.count(row, outcome.next.kind === 'succeeded')
      metrics.attempts.inc({ outcome: outcome.next.kind })
      metrics.attemptSeconds.observe(outcome.durationMs / 1000)
      return outcome
    } finally {
      gates.leave(row)
    }
  }

  async function deliver(row: Claimed, clock: DatabaseClock, leasedAt: number): Promise<void> {
    try {
      const outcome = await attempt(row, clock, leasedAt)
      if (outcome === undefined) return
      keep(outcome)
    } finally {
      slots.release(row)
      metrics.inFlight.set(slots.taken())
      // A process at its limit waits for a free slot, not for a due lane.
      if (slots.wasFull()) due.raise()
    }
  }

  return function begin(claimed: NewClaim, leasedAt: number): void {
    for (const row of claimed.rows) {
      slots.take(row)
      void deliver(row, claimed.clock, leasedAt)
    }
    metrics.inFlight.set(slots.taken())
  }
}

/** Claims, sends and completes: the middle of the engine, for one process. */
export function createDispatch(
  deps: Deps,
  { workerId, heartbeat, due, publisher, asyncCommit, counts }: DispatchOptions,
) {
  const { db, log, metrics, config } = deps
  const slots = createDispatchQuota()
  const gates = createGates({ usual: config.webhookConcurrency, most: config.webhookConcurrencyMax })
  const flush = createSignal()
  const unflushed: Outcome[] = []
  const keep = (outcome: Outcome) => {
    unflushed.push(outcome)
    flush.raise()
  }
  const begin = createSends(deps, { heartbeat, due, counts, slots, gates, keep })

  const isBlocked = () => unflushed.length >= UNFLUSHED_MAX || !heartbeat.alive() || slots.free() === 0

  const refused = ({ row }: Outcome, error: unknown) =>
    log.error({ err: error, deliveryId: row.id }, 'an outcome could not be stored')

  return {
    /** What may be leased without a claim; null while nothing may. */
    leasing(): Leasing | null {
      if (isBlocked()) return null
      const { roomOf } = slots
      return { workerId, capOf: gates.capOf, free: slots.free(), roomOf, ahead: gates.ahead }
    },
    begin,
    /** Leases what is due and sends it, or waits for something to be. */
    async claimTurn(pollMs: number): Promise<void> {
      gates.drain(false)
      if (isBlocked()) {
        await due.wait(BLOCKED_PAUSE_MS)
        return
      }
      // Before the claim: the lease as this process counts it never outlasts the database's.
      const leasedAt = performance.now()
      const claimed = await claim(asyncCommit, workerId, {
        capOf: gates.capOf,
        free: slots.free(),
        withoutTenants: slots.fullTenants(),
        withoutSlow: slots.slowFull(),
        roomOf: slots.roomOf,
        ahead: gates.ahead,
      })
      metrics.stageSeconds.observe({ stage: 'claim' }, (performance.now() - leasedAt) / 1000)
      begin(claimed, leasedAt)
      if (claimed.more) return
      await pauseAfter(claimed.rows.length)
      await due.wait(Math.min(pollMs, claimed.nextInMs ?? pollMs, gates.waiting() > 0 ? BLOCKED_PAUSE_MS : pollMs))
    },
    /** Stores outcomes, or waits for some. */
    async flushTurn(pollMs: number): Promise<void> {
      if (unflushed.length === 0) {
        await flush.wait(pollMs)
        if (unflushed.length > 0 && unflushed.length < OUTCOMES_A_FLUSH) await pause(GAP_MAX_MS)
        return
      }
      const batch = unflushed.slice(0, OUTCOMES_A_FLUSH)
      const wasBlocked = isBlocked()
      const startedAt = performance.now()
      const done = await completeEach({ db, asyncCommit }, publisher, batch, config.webhookDisableAfterMs, refused)
      metrics.stageSeconds.observe({ stage: 'complete' }, (performance.now() - startedAt) / 1000)
      // Only now: while the database is unreachable they are kept, and stored when it is reachable again.
      unflushed.splice(0, batch.length)
      metrics.deadLetters.inc(done.deadLettered)
      if (done.settled < batch.length) {
        log.warn(
          { late: batch.length - done.settled },
          'outcomes arrived after their lease had expired and were dropped',
        )
      }
      if (done.woken || wasBlocked) due.raise()
      for (const lane of done.failing) await disableFailing(db, publisher, lane, config.webhookDisableAfterMs)
    },
    /** Whether anything is being sent or waits to be stored. */
    busy: () => unflushed.length > 0 || slots.taken() > 0,
    /** Returns the leases of unsent deliveries, and stores the other outcomes as they arrive. */
    windUp() {
      gates.drain(true)
      flush.raise()
    },
  }
}
