import { type Db, isTransient, type Sql, sql } from '../../platform/db/db.ts'
import { countEnded } from '../../platform/events/counters.ts'
import { type Publisher, publish } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import type { Claimed } from './claim.ts'
import { shapeText } from './content/message.ts'
import { lockLanes } from './lanes.ts'
import { releaseNext } from './ordered.ts'

/** How one attempt ended, and what happens to its delivery next. */
export interface Outcome {
  row: Claimed
  /** Unix milliseconds, by the database's clock. */
  startedAtMs: number
  durationMs: number
  statusCode: number | null
  error: string | null
  responseSnippet: string | null
  timedOut: boolean
  /** How many deliveries are written together at most; null where each is sent by itself. */
  batchMax: number | null
  /** `released`: it was not sent, and is due at once. */
  next: { kind: 'succeeded' | 'dead_letter' | 'failed' | 'released' } | { kind: 'retry'; inMs: number }
}

/** The outcome of a delivery that was claimed and not sent. */
export function notSent(row: Claimed, atMs: number, kind: 'released' | 'dead_letter', error: string | null): Outcome {
  return {
    row,
    startedAtMs: atMs,
    durationMs: 0,
    statusCode: null,
    error,
    responseSnippet: null,
    timedOut: false,
    batchMax: null,
    next: { kind },
  }
}

/** A webhook whose deliveries have all failed for longer than allowed. */
export interface FailingLane {
  tenantId: Id<'ten'>
  webhookId: Id<'wh'>
  failingSince: Date
}

export interface Completed {
  /** The outcomes whose lease was still valid. The others changed nothing. */
  settled: number
  deadLettered: number
  failing: FailingLane[]
  /** Whether a lane was changed, which may be due sooner than the claims know. */
  woken: boolean
}

/** The engine's two connections to the database. */
export interface EngineDbs {
  /** Commits are durable when they return. */
  db: Db
  /** Commits may be lost in a crash of the database. Only for work that is then repeated. */
  asyncCommit: Db
}

const SLOW_MS = 5_000

function outcomeRows(outcomes: readonly Outcome[]) {
  return sql`unnest(
    ${outcomes.map((o) => o.row.tenant_id)}::text[], ${outcomes.map((o) => o.row.webhook_id)}::text[], ${outcomes.map((o) => o.row.id)}::text[],
    ${outcomes.map((o) => o.row.lease_id)}::text[], ${outcomes.map((o) => new Date(o.startedAtMs))}::timestamptz[],
    ${outcomes.map((o) => o.statusCode)}::int[], ${outcomes.map((o) => Math.round(o.durationMs))}::int[],
    ${outcomes.map((o) => o.error)}::text[], ${outcomes.map((o) => o.responseSnippet)}::text[],
    ${outcomes.map((o) => o.next.kind)}::text[], ${outcomes.map((o) => ('inMs' in o.next ? o.next.inMs : 0))}::float8[],
    ${outcomes.map((o) => o.row.event_app_id)}::text[], ${outcomes.map((o) => shapeText(o.row))}::text[])
    as o(tenant_id, webhook_id, id, lease_id, at, status_code, duration_ms, error, snippet, status, in_ms, app_id, shape)`
}

const OWN_ROW = sql`d.tenant_id = o.tenant_id and d.webhook_id = o.webhook_id and d.id = o.id and d.lease_id = o.lease_id`

interface Settled {
  id: string
  lane_id: string
  /** The lease that the outcome was fenced by. */
  lease_id: string
  status: string
}

const leaseOf = ({ id, lease_id }: Pick<Settled, 'id' | 'lease_id'>) => `${id} ${lease_id}`

/** Part of a statement: ends the deliveries of `gone`, rows of `deliveries` with the `status` that they end in. */
export const endGone = (attempts: Sql) => sql`
  insert into deliveries_done (tenant_id, webhook_id, id, event_id, event_type, status, cycle, retry, attempts, test, created_at, done_at)
  select tenant_id, webhook_id, id, event_id, event_type, status, cycle, retry, ${attempts}, lane_id <> webhook_id, created_at, clock_timestamp() from gone`

/** Part of a statement: counts the deliveries of `gone` for the apps of their events; tests are not counted. */
export const countGone = (now: Date) =>
  countEnded(
    sql`
    select g.tenant_id, e.app_id, g.status from gone g left join events e on e.tenant_id = g.tenant_id and e.id = g.event_id
    where g.lane_id = g.webhook_id`,
    now,
  )

/**
 * Moves what ended to `deliveries_done`, and counts it. The `returning` carries on only rows that still have the claim's
 * lease.
 */
function settleEnded(tx: Db, outcomes: readonly Outcome[], now: Date): Promise<Settled[]> {
  return tx.query<Settled>(sql`
    with gone as (
      delete from deliveries d using ${outcomeRows(outcomes)} where ${OWN_ROW}
      returning d.*, o.at, o.status_code, o.duration_ms, o.error, o.snippet, o.status, o.app_id, o.shape),
    tried as (
      insert into attempts (tenant_id, delivery_id, number, at, status_code, duration_ms, error, response_snippet, shape)
      select tenant_id, id, attempts, at, status_code, duration_ms, error, snippet, shape from gone),
    ended as (${endGone(sql`attempts + 1`)}),
    ${countEnded(sql`select tenant_id, app_id, status from gone where lane_id = webhook_id`, now)}
    select id, lane_id, lease_id, status from gone`)
}

/** Schedules retries, counted from the failure by the database's clock. */
function settleRetried(tx: Db, outcomes: readonly Outcome[]): Promise<Settled[]> {
  return tx.query<Settled>(sql`
    with kept as (
      update deliveries d set lease_id = null, lease_until = null, leases_lost = 0, retry = d.retry + 1, attempts = d.attempts + 1,
        next_at = now() + o.in_ms * interval '1 millisecond'
      from ${outcomeRows(outcomes)} where ${OWN_ROW}
      returning d.tenant_id, d.id, d.lane_id, o.lease_id, d.attempts, o.at, o.status_code, o.duration_ms, o.error, o.snippet, o.shape),
    tried as (
      insert into attempts (tenant_id, delivery_id, number, at, status_code, duration_ms, error, response_snippet, shape)
      select tenant_id, id, attempts - 1, at, status_code, duration_ms, error, snippet, shape from kept)
    select id, lane_id, lease_id, 'retry' as status from kept`)
}

/** Returns leases: the rows are due now, which is no earlier than before. */
function settleReleased(tx: Db, outcomes: readonly Outcome[]): Promise<Settled[]> {
  return tx.query<Settled>(sql`
    update deliveries d set lease_id = null, lease_until = null, next_at = now() from ${outcomeRows(outcomes)} where ${OWN_ROW}
    returning d.id, d.lane_id, o.lease_id, 'released' as status`)
}

interface LaneResult {
  tenantId: string
  laneId: string
  nextInMs: number | null
  succeeded: boolean
  failed: boolean
  timeouts: number
  slow: boolean
}

function byLane(outcomes: readonly Outcome[]): LaneResult[] {
  const lanes = new Map<string, LaneResult>()
  for (const { row, next, timedOut, durationMs, batchMax } of outcomes) {
    const lane = lanes.get(row.lane_id) ?? {
      tenantId: row.tenant_id,
      laneId: row.lane_id,
      nextInMs: null,
      succeeded: false,
      failed: false,
      timeouts: 0,
      slow: false,
    }
    if (next.kind === 'retry') lane.nextInMs = Math.min(lane.nextInMs ?? Number.POSITIVE_INFINITY, next.inMs)
    if (next.kind === 'released') lane.nextInMs = 0
    else if (next.kind === 'succeeded') lane.succeeded = true
    else lane.failed = true
    // A batch times out as one request.
    if (timedOut && (batchMax === null || lane.timeouts === 0)) lane.timeouts += 1
    if (durationMs > SLOW_MS) lane.slow = true
    lanes.set(row.lane_id, lane)
  }
  return [...lanes.values()]
}

interface LaneState {
  tenant_id: Id<'ten'>
  webhook_id: Id<'wh'>
  failing_since: Date | null
  test: boolean
  overdue: boolean
}

/**
 * Wakes lanes that were at their cap or have a retry, and keeps what is known of their health. A healthy lane is only
 * locked, not written; but locked it must be: a claim that counted rows which have ended meanwhile is waited for, and
 * what it left behind is seen.
 */
function settleLanes(db: Db, lanes: readonly LaneResult[], disableAfterMs: number): Promise<LaneState[]> {
  return db.query<LaneState>(sql`
    with r as (
      select tenant_id, id, now() + in_ms * interval '1 millisecond' as next_at, succeeded, failed, timeouts, slow
      from unnest(${lanes.map((l) => l.tenantId)}::text[], ${lanes.map((l) => l.laneId)}::text[], ${lanes.map((l) => l.nextInMs)}::float8[],
        ${lanes.map((l) => l.succeeded)}::boolean[], ${lanes.map((l) => l.failed)}::boolean[],
        ${lanes.map((l) => l.timeouts)}::int[], ${lanes.map((l) => l.slow)}::boolean[]) as t(tenant_id, id, in_ms, succeeded, failed, timeouts, slow)),
    k as materialized (
      select tenant_id, id, saturated, slow, timeouts, failing_since from lanes
      where (tenant_id, id) in (select tenant_id, id from r) order by tenant_id, id for no key update)
    update lanes l set
      due_at = least(l.due_at, r.next_at, case when k.saturated then now() end),
      floor_at = least(l.floor_at, r.next_at),
      saturated = false,
      slow = case when r.succeeded or r.failed then r.slow else l.slow end,
      timeouts = case when r.succeeded then 0 else least(l.timeouts + r.timeouts, 1000) end,
      failing_since = case when r.succeeded then null when r.failed then coalesce(l.failing_since, now()) else l.failing_since end
    from r join k on k.tenant_id = r.tenant_id and k.id = r.id
    where l.tenant_id = k.tenant_id and l.id = k.id
      and (k.saturated or r.next_at is not null or r.failed or k.failing_since is not null or k.timeouts > 0 or k.slow <> r.slow)
    returning l.tenant_id, l.webhook_id, l.failing_since, l.id <> l.webhook_id as test,
      coalesce(l.failing_since <= now() - ${disableAfterMs} * interval '1 millisecond', false) as overdue`)
}

/** A delivery that has no attempts left. */
export interface DeadLetter {
  tenant_id: string
  webhook_id: string
  id: string
  event_id: string
  event_type: string
  /** The app that its webhook is bound to, or null. */
  app_id: string | null
}

/** Publishes an event for each dead letter, except for events about webhooks: those would multiply without end. */
export async function announceDeadLetters(tx: Db, publisher: Publisher, letters: readonly DeadLetter[]): Promise<void> {
  for (const letter of letters) {
    if (letter.event_type.startsWith('webhook.')) continue
    await publish(tx, publisher, {
      tenantId: letter.tenant_id as Id<'ten'>,
      appId: letter.app_id as Id<'app'> | null,
      type: 'webhook.delivery_dead_lettered',
      data: {
        webhookId: letter.webhook_id,
        deliveryId: letter.id,
        eventId: letter.event_id,
        eventType: letter.event_type,
      },
    })
  }
}

function completedOf(settled: readonly Settled[], lanes: readonly LaneState[]): Completed {
  return {
    settled: settled.length,
    deadLettered: settled.filter((each) => each.status === 'dead_letter').length,
    failing: lanes
      .filter((lane) => lane.overdue && !lane.test)
      .map((lane) => ({
        tenantId: lane.tenant_id,
        webhookId: lane.webhook_id,
        failingSince: lane.failing_since as Date,
      })),
    woken: lanes.length > 0,
  }
}

/**
 * The usual case, in two statements instead of a transaction: nothing becomes due by a success, so the outcomes need no
 * lane. Waking the lanes afterwards may be lost in a crash; the sweeper finds what that strands.
 */
async function completeSucceeded(
  dbs: EngineDbs,
  outcomes: readonly Outcome[],
  disableAfterMs: number,
  now: Date,
): Promise<Completed> {
  const settled = await settleEnded(dbs.db, outcomes, now)
  // All lanes of the batch, fenced or not: when this statement failed before, the rows are gone by now, and a success
  // only wakes a lane and clears its failures.
  return completedOf(settled, await settleLanes(dbs.asyncCommit, byLane(outcomes), disableAfterMs))
}

/** Stores a batch of outcomes, each fenced by its lease: a late worker changes and adds nothing. */
export function complete(
  dbs: EngineDbs,
  publisher: Publisher,
  batch: readonly Outcome[],
  disableAfterMs: number,
): Promise<Completed> {
  const outcomes = [...batch].sort((a, b) => (a.row.id < b.row.id ? -1 : 1))
  const now = publisher.now()
  if (outcomes.every(({ next, row }) => next.kind === 'succeeded' && row.ordering_key === null))
    return completeSucceeded(dbs, outcomes, disableAfterMs, now)
  return dbs.db.tx(async (tx) => {
    const claimed = outcomes.map(({ row }) => row)
    await lockLanes(tx, claimed)
    const of = (...kinds: Outcome['next']['kind'][]) => outcomes.filter((outcome) => kinds.includes(outcome.next.kind))
    const settle = async (
      some: Outcome[],
      write: (tx: Db, outcomes: readonly Outcome[], now: Date) => Promise<Settled[]>,
    ) => (some.length > 0 ? write(tx, some, now) : [])
    const endings = of('succeeded', 'dead_letter', 'failed')
    const gone = await settle(endings, settleEnded)
    const settled = [
      ...gone,
      ...(await settle(of('retry'), settleRetried)),
      ...(await settle(of('released'), settleReleased)),
    ]
    // By lease: a batch may also hold a late outcome of the same delivery, which is fenced off.
    const among = (some: readonly Settled[]) => {
      const leases = new Set(some.map(leaseOf))
      return ({ row }: Outcome) => leases.has(leaseOf(row))
    }
    const released = await releaseNext(
      tx,
      endings.filter(among(gone)).map(({ row }) => row),
    )
    const lanes = await settleLanes(tx, byLane(outcomes.filter(among(settled))), disableAfterMs)
    const dead = among(settled.filter((each) => each.status === 'dead_letter'))
    await announceDeadLetters(
      tx,
      publisher,
      outcomes.filter(dead).map(({ row }) => row),
    )
    const completed = completedOf(settled, lanes)
    return { ...completed, woken: completed.woken || released }
  })
}

/**
 * The same for a batch in which the database may refuse an outcome: the others are stored, and that one is left to its
 * lease. A fault of the connection is thrown, and the whole batch is tried again.
 */
export async function completeEach(
  dbs: EngineDbs,
  publisher: Publisher,
  batch: readonly Outcome[],
  disableAfterMs: number,
  refused: (outcome: Outcome, error: unknown) => void,
): Promise<Completed> {
  try {
    return await complete(dbs, publisher, batch, disableAfterMs)
  } catch (error) {
    if (isTransient(error)) throw error
    const sum: Completed = { settled: 0, deadLettered: 0, failing: [], woken: true }
    if (batch.length === 1) refused(batch[0] as Outcome, error)
    else {
      for (const outcome of batch) {
        const part = await completeEach(dbs, publisher, [outcome], disableAfterMs, refused)
        sum.settled += part.settled
        sum.deadLettered += part.deadLettered
        sum.failing.push(...part.failing)
      }
    }
    return sum
  }
}
