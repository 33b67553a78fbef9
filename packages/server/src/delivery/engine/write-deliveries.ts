import { type Db, sql } from '../../platform/db/db.ts'
import { countEnded } from '../../platform/events/counters.ts'
import { newId } from '../../platform/ids.ts'
import { CLAIMED_FIELDS, type Claim, type Claimed, EVENT_OF, HELD, LEASE_SECONDS, LIMIT, WEBHOOK_OF } from './claim.ts'

/** An event and a webhook that subscribes to it. */
export interface Match {
  tenant_id: string
  event_id: string
  type: string
  /** The event's. */
  app_id: string | null
  webhook_id: string
  status: 'active' | 'paused' | 'disabled'
  /** The webhook is healthy and has nothing due: nobody waits there. */
  idle: boolean
  /** The event's. */
  ordering_key: string | null
}

/** An event of the outbox. */
interface OutboxEvent {
  tenant_id: string
  event_id: string
  /** The webhooks up to this one were served by earlier batches; '' for a new event. */
  after_webhook_id: string
}

/** What a batch of the fan-out writes. */
export interface Batch {
  /** Events that leave the outbox. */
  done: readonly OutboxEvent[]
  /** Events that stay in it, with the last webhook that is served now. */
  unfinished: readonly { event: OutboxEvent; after: string }[]
  matches: readonly Match[]
  /** Null if nothing may be leased. */
  leasing: Leasing | null
  now: Date
}

/** What a worker may lease when it writes deliveries. */
export interface Leasing {
  workerId: string
  /** See `ClaimLimits`. */
  capOf(laneId: string): number
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

/** Which matches this process has room to send now. */
function wantedOf(matches: readonly Match[], leasing: Leasing | null): boolean[] {
  if (leasing === null) return matches.map(() => false)
  const room = new Map<string, number>()
  let { free } = leasing
  return matches.map(({ tenant_id, idle }) => {
    const left = room.get(tenant_id) ?? leasing.roomOf(tenant_id)
    if (!idle || left <= 0 || free <= 0) return false
    room.set(tenant_id, left - 1)
    free -= 1
    return true
  })
}

/**
 * Parts of a statement: takes finished events out of the outbox, moves the others' cursor, and gives each event its place
 * in its tenant's feed. The feed's head is locked until the commit.
 */
function settleOutbox({ done, unfinished }: Pick<Batch, 'done' | 'unfinished'>) {
  const fresh = [...done, ...unfinished.map(({ event }) => event)].filter((event) => event.after_webhook_id === '')
  const moved = unfinished.map(({ event }) => event)
  return sql`
    gone as (
      delete from outbox where (tenant_id, event_id) in (
        select * from unnest(${column(done, 'tenant_id')}::text[], ${column(done, 'event_id')}::text[]))),
    moved as (
      update outbox o set after_webhook_id = u.after
      from unnest(${column(moved, 'event_id')}::text[], ${column(moved, 'tenant_id')}::text[], ${column(unfinished, 'after')}::text[])
        as u(event_id, tenant_id, after)
      where o.event_id = u.event_id and o.tenant_id = u.tenant_id),
    fresh as (
      select tenant_id, event_id, row_number() over (partition by tenant_id order by event_id) as place
      from unnest(${column(fresh, 'tenant_id')}::text[], ${column(fresh, 'event_id')}::text[]) as t(tenant_id, event_id)),
    counted as (select tenant_id, count(*) as n from fresh group by tenant_id order by tenant_id),
    head as (
      insert into feed_heads as f (tenant_id, seq) select tenant_id, n from counted order by tenant_id
      on conflict (tenant_id) do update set seq = f.seq + excluded.seq returning f.tenant_id, f.seq),
    fed as (
      insert into feed (tenant_id, seq, event_id)
      select e.tenant_id, h.seq - n.n + e.place, e.event_id from fresh e join counted n using (tenant_id) join head h using (tenant_id))`
}

/**
 * Writes the deliveries of a batch, in one statement. What this worker may send at once is leased as it is written, and
 * its lane stays as it is; the other lanes become due. The caller has locked the lanes, so that the cap is exact: what is
 * leased is counted by a statement that began after the locks.
 * @returns what the worker sends once the transaction has committed
 */
export async function writeDeliveries(tx: Db, batch: Batch): Promise<NewClaim | null> {
  const { leasing, now } = batch
  const matches = batch.matches.filter(({ status }) => status !== 'disabled')
  const missed = batch.matches.filter(({ status }) => status === 'disabled')
  const workerId = leasing?.workerId ?? ''
  const caps = matches.map(({ webhook_id }) => leasing?.capOf(webhook_id) ?? 0)
  const ahead = matches.map(({ webhook_id }, at) => leasing?.ahead(webhook_id, caps[at] as number) ?? 0)
  const rows = await tx.query<Claimed & { now_ms: number }>(sql`
    with ${settleOutbox(batch)},
    m as (
      select * from unnest(${column(matches, 'tenant_id')}::text[], ${column(matches, 'event_id')}::text[], ${column(matches, 'type')}::text[],
        ${column(matches, 'webhook_id')}::text[], ${column(matches, 'ordering_key')}::text[], ${wantedOf(matches, leasing)}::boolean[],
        ${caps}::int[], ${ahead}::int[]) with ordinality
        as m(tenant_id, event_id, type, webhook_id, ordering_key, wanted, cap, ahead, position)),
    waiting as materialized (
      select k.*, p.place from (select distinct tenant_id, webhook_id, ordering_key from m where ordering_key is not null) k
      cross join lateral (
        select d.place from deliveries d
        where d.tenant_id = k.tenant_id and d.webhook_id = k.webhook_id and d.ordering_key = k.ordering_key
        order by d.place desc limit 1) p),
    placed as materialized (
      select m.*, case when m.ordering_key is not null then
        coalesce(w.place, 0) + row_number() over (partition by m.webhook_id, m.ordering_key order by m.position) end as place
      from m left join waiting w on w.webhook_id = m.webhook_id and w.ordering_key = m.ordering_key),
    n as materialized (
      select p.*, coalesce(p.place > 1, false) as behind from placed p),
    l as (select distinct tenant_id, webhook_id as id, cap, ahead from m where wanted),
    room as materialized (select l.id, l.cap, ${LIMIT} - h.all_held as places from l cross join lateral (${HELD(workerId)}) h),
    r as materialized (
      select n.*, n.wanted and not n.behind
        and row_number() over (partition by n.webhook_id, n.wanted and not n.behind order by n.position) <= room.places as leased
      from n left join room on room.id = n.webhook_id),
    d as (
      insert into deliveries
        (tenant_id, webhook_id, id, lane_id, event_id, event_type, ordering_key, place, next_at, created_at, lease_id, lease_until)
      select m.tenant_id, m.webhook_id, ${DELIVERY_ID}, m.webhook_id, m.event_id, m.type, m.ordering_key, m.place,
        case when m.behind then 'infinity' else now() end, now(),
        case when m.leased then ${`${workerId}/${newId('job')}`} end,
        case when m.leased then clock_timestamp() + ${LEASE_SECONDS} * interval '1 second' end
      from r m on conflict do nothing returning *),
    woken as (
      update lanes l set due_at = least(l.due_at, now()), floor_at = least(l.floor_at, now())
      from (select distinct tenant_id, webhook_id from r where leased is not true and not behind) w
      where l.tenant_id = w.tenant_id and l.id = w.webhook_id)
    select ${CLAIMED_FIELDS}, false as slow, room.cap, extract(epoch from clock_timestamp())::float8 * 1000 as now_ms
    from d join room on room.id = d.webhook_id
      cross join lateral (${WEBHOOK_OF(sql`d`)}) w
      cross join lateral (${EVENT_OF(sql`d`)}) e
    where d.lease_id is not null`)
  const clock = { ms: rows[0]?.now_ms ?? 0, readAt: performance.now() }
  if (missed.length > 0) await recordMissed(tx, missed, now)
  return rows.length === 0 ? null : { rows, clock }
}
