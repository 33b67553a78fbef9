import { type Db, sql } from '../../platform/db/db.ts'
import { countEnded } from '../../platform/events/counters.ts'
import { newId } from '../../platform/ids.ts'
import { CLAIMED_FIELDS, type Claim, type Claimed, HELD, LEASE_SECONDS, LIMIT } from './claim.ts'

/** An event and a webhook that subscribes to it. */
export interface Match {
  tenant_id: string
  event_id: string
  type: string
  /** The event's. */
  app_id: string | null
  webhook_id: string
  status: 'active' | 'paused' | 'disabled'
}

/** What a worker may lease when it writes deliveries. */
export interface Leasing {
  workerId: string
  /** How many deliveries of one webhook may be sent at once, over all processes. */
  perLane: number
  /** Free slots of this process. */
  free: number
  /** How much of this process a tenant may still take. */
  roomOf(tenantId: string): number
  /** See `ClaimLimits`. */
  ahead(laneId: string, cap: number): number
}

/** Deliveries that were leased as they were written. */
export type NewClaim = Pick<Claim, 'rows' | 'clock'>

export const column = <T, K extends keyof T>(rows: readonly T[], key: K): T[K][] => rows.map((row) => row[key])

/** The delivery's id follows from event and webhook, so that fanning out twice makes it once. Hex digits are base-32 digits. */
const DELIVERY_ID = sql`'dlv_' || substr(m.event_id, 5, 10) || substr(encode(sha256(convert_to(m.event_id || m.webhook_id, 'UTF8')), 'hex'), 1, 16)`

function matchRows(matches: readonly Match[]) {
  return sql`unnest(${column(matches, 'tenant_id')}::text[], ${column(matches, 'event_id')}::text[], ${column(matches, 'type')}::text[],
    ${column(matches, 'webhook_id')}::text[])`
}

/** Events of disabled webhooks become dead letters at once. */
async function recordMissed(tx: Db, missed: readonly Match[], now: Date): Promise<void> {
  const apps = [...new Map(missed.map((match) => [match.event_id, match])).values()]
  await tx.run(sql`
    with ended as (
      insert into deliveries_done (tenant_id, webhook_id, id, event_id, event_type, status, cycle, retry, attempts, created_at, done_at)
      select m.tenant_id, m.webhook_id, ${DELIVERY_ID}, m.event_id, m.type, 'dead_letter', 0, 0, 0, now(), now()
      from ${matchRows(missed)} as m(tenant_id, event_id, type, webhook_id)
      on conflict do nothing returning tenant_id, event_id),
    a as (
      select * from unnest(${column(apps, 'event_id')}::text[], ${column(apps, 'app_id')}::text[]) as a(event_id, app_id)),
    ${countEnded(sql`select tenant_id, app_id, 'dead_letter' from ended join a using (event_id)`, now)}
    select`)
}

/** Locks the lanes of these matches in id order. @returns those that are healthy and have nothing due: nobody waits there */
async function lockIdleLanes(tx: Db, matches: readonly Match[]): Promise<Set<string>> {
  const lanes = [...new Map(matches.map((match) => [match.webhook_id, match])).values()]
  const rows = await tx.query<{ id: string; idle: boolean }>(sql`
    select id, due_at > now() and not (saturated or held or slow) and timeouts = 0 as idle from lanes
    where (tenant_id, id) in (select * from unnest(${column(lanes, 'tenant_id')}::text[], ${column(lanes, 'webhook_id')}::text[]))
    order by tenant_id, id for no key update`)
  return new Set(rows.filter((row) => row.idle).map((row) => row.id))
}

/** Which matches this process has room to send now. */
function wantedOf(matches: readonly Match[], idle: ReadonlySet<string>, leasing: Leasing | null): boolean[] {
  if (leasing === null) return matches.map(() => false)
  const room = new Map<string, number>()
  let { free } = leasing
  return matches.map(({ tenant_id, webhook_id }) => {
    const left = room.get(tenant_id) ?? leasing.roomOf(tenant_id)
    if (!idle.has(webhook_id) || left <= 0 || free <= 0) return false
    room.set(tenant_id, left - 1)
    free -= 1
    return true
  })
}

/**
 * Writes the deliveries of active webhooks. What may be sent at once is leased as it is written and its lane stays as it
 * is; the other lanes become due. The cap is exact: this statement counts what is leased after the lanes were locked.
 */
async function insertDeliveries(tx: Db, matches: readonly Match[], leasing: Leasing | null): Promise<NewClaim | null> {
  const wanted = wantedOf(matches, await lockIdleLanes(tx, matches), leasing)
  const { workerId, perLane } = leasing ?? { workerId: '', perLane: 0 }
  const ahead = matches.map(({ webhook_id }) => leasing?.ahead(webhook_id, perLane) ?? 0)
  const rows = await tx.query<Claimed & { now_ms: number }>(sql`
    with m as (
      select * from unnest(${column(matches, 'tenant_id')}::text[], ${column(matches, 'event_id')}::text[], ${column(matches, 'type')}::text[],
        ${column(matches, 'webhook_id')}::text[], ${wanted}::boolean[], ${ahead}::int[]) with ordinality
        as m(tenant_id, event_id, type, webhook_id, wanted, ahead, position)),
    l as (select distinct tenant_id, webhook_id as id, ${perLane}::int as cap, ahead from m where wanted),
    room as materialized (select l.id, ${LIMIT} - h.all_held as places from l cross join lateral (${HELD(workerId)}) h),
    r as materialized (
      select m.*, m.wanted and row_number() over (partition by m.webhook_id, m.wanted order by m.position) <= room.places as leased
      from m left join room on room.id = m.webhook_id),
    d as (
      insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, next_at, created_at, lease_id, lease_until)
      select m.tenant_id, m.webhook_id, ${DELIVERY_ID}, m.webhook_id, m.event_id, m.type, now(), now(),
        case when m.leased then ${`${workerId}/${newId('job')}`} end,
        case when m.leased then clock_timestamp() + ${LEASE_SECONDS} * interval '1 second' end
      from r m on conflict do nothing returning *),
    woken as (
      update lanes l set due_at = least(l.due_at, now()), floor_at = least(l.floor_at, now())
      from (select distinct tenant_id, webhook_id from r where leased is not true) w
      where l.tenant_id = w.tenant_id and l.id = w.webhook_id)
    select ${CLAIMED_FIELDS}, false as slow, ${perLane}::int as cap, extract(epoch from clock_timestamp())::float8 * 1000 as now_ms
    from d join webhooks w on w.tenant_id = d.tenant_id and w.id = d.webhook_id
      join events e on e.tenant_id = d.tenant_id and e.id = d.event_id
    where d.lease_id is not null`)
  return rows[0] === undefined ? null : { rows, clock: { ms: rows[0].now_ms, readAt: performance.now() } }
}

/**
 * Writes the deliveries of some events, and makes their lanes due where they cannot be sent at once.
 * @returns those that the worker has leased: it sends them once the transaction has committed
 */
export async function writeDeliveries(
  tx: Db,
  matches: readonly Match[],
  leasing: Leasing | null,
  now: Date,
): Promise<NewClaim | null> {
  const live = matches.filter((match) => match.status !== 'disabled')
  const claimed = live.length > 0 ? await insertDeliveries(tx, live, leasing) : null
  const missed = matches.filter((match) => match.status === 'disabled')
  if (missed.length > 0) await recordMissed(tx, missed, now)
  return claimed
}
