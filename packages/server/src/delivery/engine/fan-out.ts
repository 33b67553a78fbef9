import { type Db, sql } from '../../platform/db/db.ts'
import { idTime } from '../../platform/ids.ts'
import { column, type Leasing, type Match, type NewClaim, writeDeliveries } from './write-deliveries.ts'

/** How many webhooks of one event a transaction serves. */
const CHUNK = 500
/** About how many deliveries a transaction makes. */
const DELIVERIES_A_BATCH = 1_000
const EVENTS_A_BATCH_MAX = 256
const TENANTS_A_BATCH = 64
/**
 * Most visits skip what is older than this: the index there is dead rows only. Ids carry the time at which their
 * transaction began, so a slower commit is found by the visits that look at everything.
 */
const RECENT_MS = 2_000
/** How long after everything was fanned out a visit looks at everything again. */
const EVERYTHING_MS = 1_000

interface OutboxRow {
  tenant_id: string
  event_id: string
  app_id: string | null
  type: string
  after_webhook_id: string
  /** How many tenants the batch is from. */
  tenants: number
  /** Counted from 1 among the events of its tenant in the batch. */
  place: number
}

/**
 * The oldest events of the next tenants behind `after`, every tenant's first one before anyone's second: none waits
 * behind another's flood. From one tenant to the next the index is skipped through.
 */
function takeEvents(tx: Db, since: string, after: string, limit: number): Promise<OutboxRow[]> {
  return tx.query<OutboxRow>(sql`
    with recursive t(tenant_id, n) as (
      (select tenant_id, 1 from outbox where tenant_id > ${after} and event_id >= ${since} order by tenant_id limit 1)
      union all
      select (select o.tenant_id from outbox o where o.tenant_id > t.tenant_id and o.event_id >= ${since} order by o.tenant_id limit 1), t.n + 1
      from t where t.tenant_id is not null and t.n < ${TENANTS_A_BATCH}),
    found as (select tenant_id, count(*) over () as tenants from t where tenant_id is not null)
    select o.* from found
    cross join lateral (
      select x.*, row_number() over (order by x.event_id) as place, found.tenants from (
        select tenant_id, event_id, app_id, type, after_webhook_id from outbox
        where tenant_id = found.tenant_id and event_id >= ${since} order by event_id
        limit ceil(${limit}::float8 / found.tenants) for update skip locked) x) o
    order by o.place, o.event_id`)
}

function findSubscribers(tx: Db, events: readonly OutboxRow[]): Promise<Match[]> {
  return tx.query<Match>(sql`
    select o.tenant_id, o.event_id, o.type, o.app_id, w.id as webhook_id, w.status
    from unnest(${column(events, 'tenant_id')}::text[], ${column(events, 'event_id')}::text[], ${column(events, 'app_id')}::text[],
      ${column(events, 'type')}::text[], ${column(events, 'after_webhook_id')}::text[]) with ordinality
      as o(tenant_id, event_id, app_id, type, after, position)
    cross join lateral (
      select w.id, w.status from webhooks w
      where w.tenant_id = o.tenant_id and w.id > o.after and w.deleted_at is null
        and (w.app_id is null or w.app_id = o.app_id)
        and w.events && array[o.type, split_part(o.type, '.', 1) || '.*', '*']
      order by w.id limit ${CHUNK}) w
    order by o.position, w.id`)
}

/**
 * Takes finished events out of the outbox, moves the others' cursor, and gives each event its place in its tenant's
 * feed. The feed's head is locked until the commit, and always before any lane.
 */
async function settleOutbox(
  tx: Db,
  done: readonly OutboxRow[],
  unfinished: readonly { row: OutboxRow; after: string }[],
): Promise<void> {
  const fresh = [...done, ...unfinished.map(({ row }) => row)].filter((event) => event.after_webhook_id === '')
  await tx.run(sql`
    with gone as (
      delete from outbox where (tenant_id, event_id) in (
        select * from unnest(${column(done, 'tenant_id')}::text[], ${column(done, 'event_id')}::text[]))),
    moved as (
      update outbox o set after_webhook_id = u.after
      from unnest(${unfinished.map((each) => each.row.event_id)}::text[], ${unfinished.map((each) => each.row.tenant_id)}::text[],
        ${unfinished.map((each) => each.after)}::text[]) as u(event_id, tenant_id, after)
      where o.event_id = u.event_id and o.tenant_id = u.tenant_id),
    e as (
      select tenant_id, event_id, row_number() over (partition by tenant_id order by event_id) as place
      from unnest(${column(fresh, 'tenant_id')}::text[], ${column(fresh, 'event_id')}::text[]) as t(tenant_id, event_id)),
    n as (select tenant_id, count(*) as n from e group by tenant_id order by tenant_id),
    h as (
      insert into feed_heads as f (tenant_id, seq) select tenant_id, n from n order by tenant_id
      on conflict (tenant_id) do update set seq = f.seq + excluded.seq returning f.tenant_id, f.seq)
    insert into feed (tenant_id, seq, event_id)
    select e.tenant_id, h.seq - n.n + e.place, e.event_id from e join n using (tenant_id) join h using (tenant_id)`)
}

/** As many events as the batch can serve: those behind are left in the outbox for the next one. */
function fitting(events: readonly OutboxRow[], matches: readonly Match[]) {
  const byEvent = Map.groupBy(matches, (match) => match.event_id)
  const taken: OutboxRow[] = []
  let deliveries = 0
  for (const event of events) {
    const own = byEvent.get(event.event_id)?.length ?? 0
    if (taken.length > 0 && deliveries + own > DELIVERIES_A_BATCH) break
    taken.push(event)
    deliveries += own
  }
  return { taken, byEvent }
}

/** Whether some tenant has given as many events as a batch takes of it: it may have more, even if the others have few. */
function fillsShare(events: readonly OutboxRow[], limit: number): boolean {
  const share = Math.ceil(limit / (events[0]?.tenants ?? 1))
  return events.some(({ place }) => place >= share)
}

export interface FannedOut {
  events: number
  deliveries: number
  /** There is more to do at once. */
  more: boolean
  /** Deliveries that this worker may send now; null if it leased none. */
  claimed: NewClaim | null
}

export interface FanOutOptions {
  asyncCommit: Db
  now(): Date
  /** What this worker may lease at once; null if it may not. Without it, all deliveries are left to the claims. */
  leasing?(): Leasing | null
  monotonicMs?(): number
}

/**
 * Turns events into deliveries, one transaction a call: deliveries, lanes, feed and the outbox commit together. It need
 * not wait for the disk: lost in a crash of the database, the outbox rows are back, and the same deliveries follow. A
 * reader outside the database must not be told a feed position before it is durable.
 */
export function createFanOut({ asyncCommit, now, leasing, monotonicMs = () => performance.now() }: FanOutOptions) {
  let limit = EVENTS_A_BATCH_MAX
  /** When a visit that looked at everything began and left nothing behind. */
  let everythingAt = Number.NEGATIVE_INFINITY
  /** The tenants up to this one had their turn; the next batch begins behind it, and from the start when there is none. */
  let turnOf = ''

  function visit(since: string): Promise<FannedOut> {
    return asyncCommit.tx(async (tx) => {
      const restart = turnOf !== ''
      const events = await takeEvents(tx, since, turnOf, limit)
      turnOf = events[0]?.tenants === TENANTS_A_BATCH ? (column(events, 'tenant_id').sort().at(-1) as string) : ''
      if (events.length === 0) return { events: 0, deliveries: 0, more: restart, claimed: null }
      const { taken, byEvent } = fitting(events, await findSubscribers(tx, events))
      const served = taken.flatMap((event) => byEvent.get(event.event_id) ?? [])
      const full = (event: OutboxRow) => (byEvent.get(event.event_id)?.length ?? 0) === CHUNK
      const unfinished = taken
        .filter(full)
        .map((row) => ({ row, after: byEvent.get(row.event_id)?.at(-1)?.webhook_id ?? '' }))
      await settleOutbox(
        tx,
        taken.filter((event) => !full(event)),
        unfinished,
      )
      const claimed = await writeDeliveries(tx, served, leasing?.() ?? null, now())
      const more = restart || fillsShare(events, limit) || taken.length < events.length || unfinished.length > 0
      const deliveriesAnEvent = Math.max(1, served.length) / taken.length
      limit = Math.max(1, Math.min(EVENTS_A_BATCH_MAX, Math.floor(DELIVERIES_A_BATCH / deliveriesAnEvent)))
      return { events: taken.length, deliveries: served.length, more, claimed }
    })
  }

  return async function fanOut(): Promise<FannedOut> {
    const startedAt = monotonicMs()
    const everything = startedAt - everythingAt > EVERYTHING_MS
    const done = await visit(everything ? '' : `evt_${idTime(Date.now() - RECENT_MS)}`)
    // While something is left, the next visit looks at everything too: old events are seen by no other.
    if (everything && !done.more) everythingAt = startedAt
    return done
  }
}
