import { type Db, sql } from '../db/db.ts'

/** The current contents of the queues. Counts stop at `COUNT_MAX`. Ages use the database's clock, and are 0 if nothing waits. */
export interface QueueFigures {
  /** Events that are not with their subscribers yet. */
  outboxEvents: number
  outboxAgeSeconds: number
  deliveriesPending: number
  deliveriesLeased: number
  /** For how long the longest-waiting lane has had something to send and was not taken up. */
  deliveryDueAgeSeconds: number
  /** With an open episode: `webhook.failing` without `webhook.recovered` so far. */
  webhooksFailing: number
  /** Gave a sign of life within 15 s. */
  workersAlive: number
}

/** How far a follower of the feed is behind, over all tenants. */
export interface FollowerLag {
  follower: string
  tenantsBehind: number
  events: number
  /** Age of the oldest event that it has not folded. */
  ageSeconds: number
}

/** Counts stop here and mean "at least": a longer queue must not make a figure more expensive. */
export const COUNT_MAX = 10_000
/** Tenants whose oldest event is looked at. */
const TENANTS_MAX = 1_000

const age = (at: ReturnType<typeof sql>) =>
  sql`coalesce(greatest(0, extract(epoch from clock_timestamp() - ${at}))::float8, 0)`

/** Reads the engine's queues: index look-ups and bounded counts. */
export function readQueueFigures(db: Db): Promise<QueueFigures> {
  return db.tx(async (tx) => {
    // The tables turn over faster than their statistics: none is to be read whole because it is thought to be empty.
    await tx.run(sql`select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`)
    return readQueues(tx)
  })
}

async function readQueues(tx: Db): Promise<QueueFigures> {
  const row = await tx.one<QueueFigures>(sql`
    with recursive waiting(tenant_id, event_id, n) as (
      (select tenant_id, event_id, 1 from outbox order by tenant_id, event_id limit 1)
      union all
      select o.tenant_id, o.event_id, w.n + 1 from waiting w
      cross join lateral (
        select tenant_id, event_id from outbox where tenant_id > w.tenant_id order by tenant_id, event_id limit 1) o
      where w.n < ${TENANTS_MAX}),
    oldest as (
      select min(e.created_at) as at from waiting w join events e on e.tenant_id = w.tenant_id and e.id = w.event_id),
    due as (select due_at as at from lanes where not held order by due_at limit 1)
    select
      (select count(*) from (select from outbox limit ${COUNT_MAX}) c) as "outboxEvents",
      (select ${age(sql`at`)} from oldest) as "outboxAgeSeconds",
      (select count(*) from (select from deliveries limit ${COUNT_MAX}) c) as "deliveriesPending",
      (select count(*) from (select from deliveries where lease_id is not null limit ${COUNT_MAX}) c) as "deliveriesLeased",
      coalesce((select ${age(sql`at`)} from due where at < 'infinity'), 0) as "deliveryDueAgeSeconds",
      (select count(*) from (select from webhook_alerts limit ${COUNT_MAX}) c) as "webhooksFailing",
      (select count(*) from workers where heartbeat_at > clock_timestamp() - interval '15 seconds') as "workersAlive"`)
  return row as QueueFigures
}

/** How far each follower that has ever run is behind. Costs a row of `feed_heads` for each tenant and follower. */
export function readFollowerLags(db: Db): Promise<FollowerLag[]> {
  return db.query<FollowerLag>(sql`
    with followers as (select distinct follower from feed_cursors),
    behind as (
      select f.follower, h.tenant_id, coalesce(c.seq, 0) as seq, h.seq - coalesce(c.seq, 0) as lag
      from followers f cross join feed_heads h
      left join feed_cursors c on c.tenant_id = h.tenant_id and c.follower = f.follower
      where h.seq > coalesce(c.seq, 0)),
    oldest as (
      select b.follower, min(e.created_at) as at from (select * from behind limit ${TENANTS_MAX}) b
      cross join lateral (
        select event_id from feed f where f.tenant_id = b.tenant_id and f.seq > b.seq order by f.seq limit 1) n
      join events e on e.tenant_id = b.tenant_id and e.id = n.event_id
      group by b.follower)
    select f.follower, count(b.tenant_id) as "tenantsBehind", coalesce(sum(b.lag), 0)::float8 as events,
      ${age(sql`max(o.at)`)} as "ageSeconds"
    from followers f left join behind b on b.follower = f.follower left join oldest o on o.follower = f.follower
    group by f.follower order by f.follower`)
}

/** How far the follower of a ledger's tokens is behind. */
export interface TokenLag {
  ledger: string
  /** Since the ledger's updates were last read. */
  ageSeconds: number
  /** Holdings or offers of a wallet that were not read yet, or have to be read again: as many as were counted. */
  unread: number
}

/** How far each ledger whose tokens were ever followed is behind. */
export function readTokenLags(db: Db): Promise<TokenLag[]> {
  return db.query<TokenLag>(sql`
    select c.ledger, ${age(sql`c.read_at`)} as "ageSeconds",
      (select count(*) from (
        select from token_views v where v.ledger = c.ledger and v.generation < c.generation limit ${COUNT_MAX}) u) as unread
    from token_cursors c order by c.ledger`)
}

/** How much later (negative: earlier) this process's clock is than the database's, to about the time of a round trip. */
export async function readClockSkewSeconds(db: Db): Promise<number> {
  const before = Date.now()
  const row = await db.one<{ ms: number }>(sql`select extract(epoch from clock_timestamp()) * 1000::float8 as ms`)
  const middle = (before + Date.now()) / 2
  return (middle - Number(row?.ms)) / 1_000
}
