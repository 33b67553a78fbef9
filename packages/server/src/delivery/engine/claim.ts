import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { newId } from '../../platform/ids.ts'
import type { Shape } from './content/message.ts'

/** How long a claimed delivery belongs to its worker, by the database's clock. */
export const LEASE_SECONDS = 60
const LANES_A_CLAIM = 64
const ROWS_A_VISIT = 8
/** A test never waits behind more than one other test. */
const TEST_CAP = 2
/** After this many time-outs in a row, a webhook gets one request at a time until it responds. */
const TIMEOUTS_UNTIL_SINGLE = 3

/** A delivery to send, with everything that the send needs. */
export interface Claimed {
  tenant_id: string
  webhook_id: string
  id: string
  lane_id: string
  event_id: string
  event_type: string
  /** The app of the event, which the delivery is counted for. */
  event_app_id: string | null
  ordering_key: string | null
  /** In its sequence; null without a key. */
  place: number | null
  lease_id: string
  cycle: number
  retry: number
  attempts: number
  /** Null if the event is older than the retention period: there is nothing left to send. */
  body: string | null
  /** The trace of the request that caused the event, or null. */
  traceparent: string | null
  /** Null, like the secret, if the webhook no longer exists. */
  url: string | null
  app_id: string | null
  /** Null for a webhook of the tenant. */
  subscriber_id: string | null
  secret_sealed: Buffer | null
  /** Null outside the grace period of a rotation. */
  previous_secret_sealed: Buffer | null
  /** Null, like the payload, if the webhook no longer exists. */
  format: Shape['format'] | null
  payload: Shape['payload'] | null
  /** Null for a webhook without own headers, OAuth or a client certificate. */
  options_sealed: Buffer | null
  slow: boolean
  /** How many deliveries of the lane may be sent at once. */
  cap: number
}

export interface ClaimLimits {
  /** How many deliveries of a lane may be sent at once, over all processes. */
  capOf(laneId: string): number
  /** Free slots of this process. */
  free: number
  /** Tenants that already have their share of this process. */
  withoutTenants: readonly string[]
  withoutSlow: boolean
  /** How much of this process a tenant may still take. */
  roomOf(tenantId: string): number
  /** How many rows of a lane this process can use, judging by its response times; 0 for no more than the cap. */
  ahead(laneId: string, cap: number): number
}

/** What the database's clock said, Unix milliseconds, and when it did, by this process's monotonic one. */
export interface DatabaseClock {
  ms: number
  readAt: number
}

/** The time now by the database's clock: the process's own may be wrong. */
export const databaseNow = ({ ms, readAt }: DatabaseClock): number => ms + performance.now() - readAt

export interface Claim {
  rows: Claimed[]
  clock: DatabaseClock
  /** More lanes may be due. */
  more: boolean
  /** Time until the next lane is due, by the database's clock; null if nothing is scheduled or it is due now. */
  nextInMs: number | null
}

interface DueLane {
  tenant_id: string
  id: string
  floor_at: string
  timeouts: number
  slow: boolean
  now_ms: number
}

function lockDueLanes(tx: Db, limits: ClaimLimits, count: number): Promise<DueLane[]> {
  return tx.query<DueLane>(sql`
    select tenant_id, id, floor_at::text as floor_at, timeouts, slow, extract(epoch from clock_timestamp())::float8 * 1000 as now_ms
    from lanes
    where due_at <= now() and not held and tenant_id <> all(${limits.withoutTenants}::text[]) and not (slow and ${limits.withoutSlow}::boolean)
    order by due_at limit ${count} for no key update skip locked`)
}

/** How much of a lane this process may hold: `cap` at once over all processes, or `ahead` if it holds the lane alone. */
interface Allowance {
  cap: number
  ahead: number
  /** The most rows of this claim, so that its tenant stays within its share of the process. */
  rows: number
}

/**
 * How many of a lane's rows are leased, by this worker and in all. The cap stays exact: rows are leased ahead only
 * while no other worker holds any, and while more than the cap are leased nobody else gets one.
 */
export const HELD = (workerId: string) => sql`
  select count(*)::int as all_held, count(*) filter (where split_part(f.lease_id, '/', 1) = ${workerId})::int as own_held
  from deliveries f where f.lane_id = l.id and f.lease_id is not null`

/** How many rows of a lane this worker may hold. */
export const LIMIT = sql`(case when l.ahead > l.cap and h.all_held = h.own_held then l.ahead else l.cap end)`

/** What a send needs of a delivery `d`, its event `e` and its webhook `w`. */
export const CLAIMED_FIELDS = sql`
  d.tenant_id, d.webhook_id, d.id, d.lane_id, d.event_id, d.event_type, d.ordering_key, d.place, d.lease_id, d.cycle, d.retry, d.attempts,
  e.body, e.context->>'traceparent' as traceparent, e.app_id as event_app_id,
  w.url, w.app_id, w.subscriber_id, w.secret_sealed, w.format, w.payload, w.options_sealed,
  case when w.previous_secret_until > now() then w.previous_secret_sealed end as previous_secret_sealed`

/**
 * The webhook and the event of a delivery. Each is looked up by its key, as `limit` tells the planner: statistics from
 * before a flood of events would have it read all of the tenant's for each delivery.
 */
export const WEBHOOK_OF = (d: Sql) =>
  sql`select * from webhooks where tenant_id = ${d}.tenant_id and id = ${d}.webhook_id limit 1`
export const EVENT_OF = (d: Sql) =>
  sql`select * from events where tenant_id = ${d}.tenant_id and id = ${d}.event_id limit 1`

function leaseRows(
  tx: Db,
  lanes: readonly DueLane[],
  allowances: readonly Allowance[],
  workerId: string,
  total: number,
): Promise<Claimed[]> {
  return tx.query<Claimed>(sql`
    with picked as (
      select d.tenant_id, d.webhook_id, d.id, d.event_id, l.slow, l.cap
      from unnest(${lanes.map((lane) => lane.id)}::text[], ${lanes.map((lane) => lane.floor_at)}::timestamptz[],
        ${allowances.map((each) => each.cap)}::int[], ${allowances.map((each) => each.ahead)}::int[],
        ${allowances.map((each) => each.rows)}::int[], ${lanes.map((lane) => lane.slow)}::boolean[]) as l(id, floor_at, cap, ahead, rows, slow)
      cross join lateral (${HELD(workerId)}) h
      cross join lateral (
        select d.tenant_id, d.webhook_id, d.id, d.event_id from deliveries d
        where d.lane_id = l.id and d.lease_id is null and d.next_at >= l.floor_at and d.next_at <= now()
        order by d.next_at limit greatest(0, least(greatest(${ROWS_A_VISIT}::int, l.ahead), l.rows, ${LIMIT} - h.all_held))) d
      limit ${total})
    update deliveries d set lease_id = ${`${workerId}/${newId('job')}`}, lease_until = clock_timestamp() + ${LEASE_SECONDS} * interval '1 second'
    from picked p
      left join lateral (${WEBHOOK_OF(sql`p`)}) w on true
      left join lateral (${EVENT_OF(sql`p`)}) e on true
    where d.tenant_id = p.tenant_id and d.webhook_id = p.webhook_id and d.id = p.id
    returning ${CLAIMED_FIELDS}, p.slow, p.cap`)
}

/**
 * A separate statement after the lease: it must see rows that committed while it waited for the lanes' locks. A
 * lane at its limit sleeps until one of its sends ends; a backlogged one is due again behind the others.
 */
async function rescheduleLanes(
  tx: Db,
  lanes: readonly DueLane[],
  allowances: readonly Allowance[],
  workerId: string,
): Promise<Set<string>> {
  const rows = await tx.query<{ id: string; due: boolean }>(sql`
    update lanes t set saturated = s.saturated,
      due_at = case when s.saturated or s.next_at is null then 'infinity' else greatest(clock_timestamp(), s.next_at) end,
      floor_at = coalesce(s.next_at, 'infinity')
    from (
      select l.tenant_id, l.id, n.next_at, coalesce(n.next_at <= now(), false) and h.all_held >= ${LIMIT} as saturated
      from unnest(${lanes.map((lane) => lane.tenant_id)}::text[], ${lanes.map((lane) => lane.id)}::text[],
        ${lanes.map((lane) => lane.floor_at)}::timestamptz[], ${allowances.map((each) => each.cap)}::int[],
        ${allowances.map((each) => each.ahead)}::int[]) as l(tenant_id, id, floor_at, cap, ahead)
      cross join lateral (${HELD(workerId)}) h
      left join lateral (
        select d.next_at from deliveries d where d.lane_id = l.id and d.lease_id is null and d.next_at >= l.floor_at
        order by d.next_at limit 1) n on true) s
    where t.tenant_id = s.tenant_id and t.id = s.id
    returning t.id, (not s.saturated and coalesce(s.next_at <= now(), false)) as due`)
  return new Set(rows.filter((row) => row.due).map((row) => row.id))
}

/** Lanes that are due but held back (locked, or of a tenant at its share) do not count: their holder handles them. */
async function untilNextLane(tx: Db): Promise<number | null> {
  const row = await tx.one<{ ms: number | null }>(sql`
    select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as ms from lanes
    where not held and due_at > now() and due_at < 'infinity'`)
  return row?.ms ?? null
}

function limitsOf(lane: DueLane, limits: ClaimLimits): Omit<Allowance, 'rows'> {
  if (lane.timeouts >= TIMEOUTS_UNTIL_SINGLE) return { cap: 1, ahead: 0 }
  if (lane.id.startsWith('test:')) return { cap: TEST_CAP, ahead: 0 }
  const cap = limits.capOf(lane.id)
  return { cap, ahead: limits.ahead(lane.id, cap) }
}

/** A tenant's room is divided among its lanes of this claim; where it is less than a row for each, the first ones get it. */
function allowancesOf(lanes: readonly DueLane[], limits: ClaimLimits): Allowance[] {
  const counts = new Map<string, number>()
  for (const lane of lanes) counts.set(lane.tenant_id, (counts.get(lane.tenant_id) ?? 0) + 1)
  const room = new Map([...counts.keys()].map((tenantId) => [tenantId, limits.roomOf(tenantId)]))
  return lanes.map((lane) => {
    const left = room.get(lane.tenant_id) as number
    const rows = Math.min(
      left,
      Math.max(1, Math.floor(limits.roomOf(lane.tenant_id) / (counts.get(lane.tenant_id) as number))),
    )
    room.set(lane.tenant_id, left - rows)
    return { ...limitsOf(lane, limits), rows }
  })
}

/**
 * Leases what is due, fairly: every due lane gets a visit before any gets a second one. Lanes that another process
 * holds are passed over. Losing this commit in a crash only means that the rows are claimed again, so it is not waited
 * for; a send whose claim was lost is fenced off when it completes.
 */
export function claim(asyncCommit: Db, workerId: string, limits: ClaimLimits): Promise<Claim> {
  const count = Math.min(LANES_A_CLAIM, limits.free)
  return asyncCommit.tx(async (tx) => {
    const lanes = await lockDueLanes(tx, limits, count)
    const clock = { ms: lanes[0]?.now_ms ?? Date.now(), readAt: performance.now() }
    if (lanes.length === 0) return { rows: [], clock, more: false, nextInMs: await untilNextLane(tx) }
    const allowances = allowancesOf(lanes, limits)
    const rows = await leaseRows(tx, lanes, allowances, workerId, limits.free)
    const stillDue = await rescheduleLanes(tx, lanes, allowances, workerId)
    // A lane that is due but returned nothing is no reason to claim again at once.
    const more = rows.some((row) => stillDue.has(row.lane_id)) || lanes.length === count
    return { rows, clock, more, nextInMs: null }
  })
}
