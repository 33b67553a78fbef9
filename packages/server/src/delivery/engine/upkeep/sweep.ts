import { type Db, sql } from '../../../platform/db/db.ts'
import { type Publisher, publish } from '../../../platform/events/events.ts'
import { countGone, endGone, type FailingLane } from '../complete.ts'
import { type LaneRef, lockLanes } from '../lanes.ts'
import { type Ended, releaseNext } from '../ordered.ts'

const ROWS_A_SWEEP = 500
const LANES_A_SWEEP = 20
/** How many deleted or disabled webhooks a sweep asks for. Thousands of disabled ones may stay for years. */
const WEBHOOKS_A_SWEEP = 1_000
const ROWS_A_DELETION = 5_000

/** Only one process sweeps at a time; the others lose nothing by not waiting. */
export async function withSweepLock(db: Db, lock: number, work: (tx: Db) => Promise<number>): Promise<number> {
  return db.tx(async (tx) => {
    const row = await tx.one<{ held: boolean }>(sql`select pg_try_advisory_xact_lock(${lock}::bigint) as held`)
    return row?.held === true ? await work(tx) : 0
  })
}

/** Disables a webhook that failed for too long, once, with an event. `settleHeld` then ends its pending deliveries. */
export async function disableFailing(
  db: Db,
  publisher: Publisher,
  lane: FailingLane,
  disableAfterMs: number,
): Promise<void> {
  const reason = `Every delivery has failed since ${lane.failingSince.toISOString()}.`
  await db.tx(async (tx) => {
    const webhook = await tx.one<{ url: string; app_id: `app_${string}` | null }>(sql`
      update webhooks set status = 'disabled', disabled_reason = ${reason}, updated_at = ${publisher.now()}
      where tenant_id = ${lane.tenantId} and id = ${lane.webhookId} and status = 'active' and deleted_at is null
        and exists (
          select from lanes l where l.tenant_id = ${lane.tenantId} and l.id = ${lane.webhookId}
            and l.failing_since <= now() - ${disableAfterMs} * interval '1 millisecond')
      returning url, app_id`)
    if (webhook === undefined) return
    await tx.run(sql`update lanes set held = true where tenant_id = ${lane.tenantId} and id = ${lane.webhookId}`)
    await publish(tx, publisher, {
      tenantId: lane.tenantId,
      appId: webhook.app_id,
      type: 'webhook.disabled',
      data: { webhookId: lane.webhookId, url: webhook.url, reason },
    })
  })
}

/** A webhook that is deleted or disabled, with the lane of something that waits for it; null where nothing does. */
interface Held {
  tenant_id: string
  id: string
  lane_id: string | null
}

const NO_WEBHOOK: Held = { tenant_id: '', id: '', lane_id: null }

/** Ends a portion of what waits in these lanes, which are locked first. */
async function endWaiting(tx: Db, held: readonly LaneRef[], now: Date): Promise<number> {
  await lockLanes(tx, held)
  const lanes = sql`unnest(${held.map((row) => row.tenant_id)}::text[], ${held.map((row) => row.lane_id)}::text[]) as l(tenant_id, id)`
  const gone = await tx.query<Ended>(sql`
    with picked as (
      select d.tenant_id, d.webhook_id, d.id, case when w.deleted_at is null then 'dead_letter' else 'cancelled' end as status
      from ${lanes} join deliveries d on d.lane_id = l.id and d.tenant_id = l.tenant_id and d.lease_id is null
      join webhooks w on w.tenant_id = d.tenant_id and w.id = d.webhook_id and (w.deleted_at is not null or w.status = 'disabled')
      limit ${ROWS_A_SWEEP}),
    gone as (
      delete from deliveries d using picked p where d.tenant_id = p.tenant_id and d.webhook_id = p.webhook_id and d.id = p.id
      returning d.*, p.status),
    ended as (${endGone(sql`attempts`)}),
    ${countGone(now)}
    select tenant_id, webhook_id, ordering_key, null as place from gone`)
  // If the webhook is enabled again meanwhile, what is left is sent.
  await releaseNext(tx, gone)
  return gone.length
}

/**
 * Looks through the webhooks that are deleted or disabled, some at a time, and ends what waits for them: cancelled for
 * deleted ones, dead letters for disabled ones. By the webhook's state, so that it goes on after a crash half-way.
 */
export function createEndOfHeld(now: () => Date) {
  /** The last webhook of the look before; the next one begins behind it. */
  let behind = NO_WEBHOOK

  /** @returns how many deliveries ended now */
  return async function endHeld(tx: Db): Promise<number> {
    const looked = await tx.query<Held>(sql`
      select w.tenant_id, w.id, d.lane_id from (
        select tenant_id, id, deleted_at from webhooks
        where (deleted_at is not null or status = 'disabled') and (tenant_id, id) > (${behind.tenant_id}, ${behind.id})
        order by tenant_id, id limit ${WEBHOOKS_A_SWEEP}) w
      left join lateral (
        select lane_id from deliveries d
        where d.tenant_id = w.tenant_id and d.webhook_id = w.id and d.lease_id is null
          and (d.lane_id = d.webhook_id or w.deleted_at is not null) limit 1) d on true
      order by w.tenant_id, w.id`)
    const waiting = looked.filter((row): row is Held & LaneRef => row.lane_id !== null).slice(0, LANES_A_SWEEP)
    const ended = waiting.length > 0 ? await endWaiting(tx, waiting, now()) : 0
    if (ended > 0) return ended
    behind = looked.length === WEBHOOKS_A_SWEEP ? (looked.at(-1) as Held) : NO_WEBHOOK
    return 0
  }
}

/** Removes deleted webhooks once nothing of theirs is pending, minutes later: a fan-out that saw them alive is over by then. */
export function removeDeleted(tx: Db): Promise<number> {
  return tx.run(sql`
    with gone as (
      delete from webhooks w where w.deleted_at < now() - interval '5 minutes'
        and not exists (select from deliveries d where d.tenant_id = w.tenant_id and d.webhook_id = w.id)
      returning w.tenant_id, w.id)
    delete from lanes l using gone g where l.tenant_id = g.tenant_id and l.webhook_id = g.id`)
}

/**
 * Deletes a portion of the deliveries that have been kept long enough, with their attempts: of those alone that are
 * really gone, for a retry may be moving one at this moment.
 */
async function deleteOldDeliveries(tx: Db, retentionMs: number, deadLetterRetentionMs: number): Promise<number> {
  return tx.count(sql`
    with old as (
      select tenant_id, webhook_id, id from deliveries_done
      where done_at < now() - ${retentionMs} * interval '1 millisecond' and status <> 'dead_letter'
        or done_at < now() - ${deadLetterRetentionMs} * interval '1 millisecond'
      limit ${ROWS_A_DELETION} for update skip locked),
    gone as (
      delete from deliveries_done d using old o where d.tenant_id = o.tenant_id and d.webhook_id = o.webhook_id and d.id = o.id
      returning d.tenant_id, d.id),
    tried as (delete from attempts a using gone g where a.tenant_id = g.tenant_id and a.delivery_id = g.id)
    select count(*) as n from gone`)
}

/** The tenants of whose feed some follower has not folded all, each with the first event that is still to be folded. */
function findUnfolded(tx: Db, followers: readonly string[]): Promise<{ tenant_id: string; seq: number; id: string }[]> {
  return tx.query(sql`
    select h.tenant_id, m.seq, f.event_id as id from feed_heads h
    cross join lateral (
      select min(coalesce(c.seq, 0)) as seq from unnest(${followers}::text[]) as n(name)
      left join feed_cursors c on c.tenant_id = h.tenant_id and c.follower = n.name) m
    cross join lateral (
      select event_id from feed where tenant_id = h.tenant_id and seq > m.seq order by seq limit 1) f
    where h.seq > m.seq`)
}

/**
 * Deletes a portion of the events that have been kept long enough and that nothing needs: locked first, so that no
 * retry can take one up, and then, in a statement that sees what was retried before, looked at again. Those that some
 * follower has still to fold stay.
 */
async function deleteOldEvents(tx: Db, retentionMs: number, followers: readonly string[]): Promise<number> {
  const unneeded = sql`
    not exists (select from deliveries d where d.tenant_id = e.tenant_id and d.event_id = e.id)
    and not exists (select from outbox o where o.tenant_id = e.tenant_id and o.event_id = e.id)
    and not exists (
      select from deliveries_done d where d.tenant_id = e.tenant_id and d.event_id = e.id and d.status = 'dead_letter')`
  const unfolded = await findUnfolded(tx, followers)
  const tenants = unfolded.map((row) => row.tenant_id)
  // Skipped by their ids: otherwise a portion could consist of them alone, and nothing would ever be deleted.
  const old = await tx.query<{ tenant_id: string; id: string }>(sql`
    select e.tenant_id, e.id from events e
    where e.created_at < now() - ${retentionMs} * interval '1 millisecond' and ${unneeded}
      and not exists (
        select from unnest(${tenants}::text[], ${unfolded.map((row) => row.id)}::text[]) as u(tenant_id, id)
        where u.tenant_id = e.tenant_id and e.id >= u.id)
    limit ${ROWS_A_DELETION} for update skip locked`)
  if (old.length === 0) return 0
  const ids = old.map((event) => event.id).sort()
  // Asked again: what was still to be fanned out before is in the feed by now. The feed's order is not quite that of ids, so
  // what is left is held against the feed itself.
  const late = await findUnfolded(tx, followers)
  return tx.count(sql`
    with late as materialized (
      select f.tenant_id, f.event_id
      from unnest(${late.map((row) => row.tenant_id)}::text[], ${late.map((row) => row.seq)}::bigint[]) as u(tenant_id, seq)
      join feed f on f.tenant_id = u.tenant_id and f.seq > u.seq and f.event_id >= ${ids[0]} and f.event_id <= ${ids.at(-1)}),
    gone as (
      delete from events e using unnest(${old.map((event) => event.tenant_id)}::text[], ${old.map((event) => event.id)}::text[]) as o(tenant_id, id)
      where e.tenant_id = o.tenant_id and e.id = o.id and ${unneeded}
        and not exists (select from late l where l.tenant_id = e.tenant_id and l.event_id = e.id)
      returning e.tenant_id, e.id),
    fed as (
      delete from feed f using gone g where f.tenant_id = g.tenant_id and f.event_id = g.id
        and f.event_id >= ${ids[0]} and f.event_id <= ${ids.at(-1)})
    select count(*) as n from gone`)
}

/** How long finished records are kept, and which followers must have processed an event before it is deleted. */
export interface Retention {
  retentionMs: number
  deadLetterRetentionMs: number
  /** Names of the feed's followers. */
  followers: readonly string[]
}

/** Deletes a batch of rows past their retention. @returns how many; call again until it is 0 */
export async function deleteExpired(tx: Db, retention: Retention): Promise<number> {
  const { retentionMs, deadLetterRetentionMs, followers } = retention
  // Old rows are found with a BRIN index, which can only be read by a bitmap scan.
  await tx.run(sql`select set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'auto', true)`)
  const deliveries = await deleteOldDeliveries(tx, retentionMs, deadLetterRetentionMs)
  return deliveries + (await deleteOldEvents(tx, retentionMs, followers))
}
