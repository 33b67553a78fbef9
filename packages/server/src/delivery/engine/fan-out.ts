import { type Db, sql } from '../../platform/db/db.ts'
import { idTime } from '../../platform/ids.ts'
import { type Candidate, createFilters } from './content/filter-matches.ts'
import { ALERT_TYPES } from './health/alerts.ts'
import { inTurn } from './ordered.ts'
import { column, type Leasing, type NewClaim, writeDeliveries } from './write-deliveries.ts'

/** How many webhooks of one event a transaction serves. */
const CHUNK = 500
/** About how many deliveries a transaction makes. */
const DELIVERIES_A_BATCH = 1_000
/** A webhook with a filter counts as so many without: the most expensive filter takes about 0.1 ms. */
const FILTER_WEIGHT = 8
const EVENTS_A_BATCH_MAX = 256
const TENANTS_A_BATCH = 64
/**
 * Most visits skip what is older than this: the index there is dead rows only. Ids carry the time at which their
 * transaction began, so a slower commit is found by the visits that look at everything.
 */
const RECENT_MS = 2_000
/** How long after everything was fanned out a visit looks at everything again. */
const EVERYTHING_MS = 1_000

/** The webhook that an alert is about, which does not get it. */
const SUBJECT = sql`
  select e.body::json -> 'data' ->> 'webhookId' from events e where e.tenant_id = o.tenant_id and e.id = o.event_id`

interface OutboxRow {
  tenant_id: string
  event_id: string
  app_id: string | null
  type: string
  after_webhook_id: string
  ordering_key: string | null
  /** One that it must not overtake is not in the batch: another process has it, or the visit did not look so far back. */
  blocked: boolean
  /** How many tenants the batch is from. */
  tenants: number
  /** Counted from 1 among the events of its tenant in the batch. */
  place: number
}

/** An event with one of its webhooks, or with null if it has none. */
type FoundRow = OutboxRow & Pick<Candidate, 'status' | 'idle' | 'filter_version'> & { webhook_id: string | null }

/** The version of a webhook's filter; null without one. */
const FILTER_VERSION = sql`case when w.filter is not null then w.filter_version end as filter_version`

/** The condition that a webhook `w` is still to get an event `o`, whoever its subscriber is. */
const SUBSCRIBES = sql`w.id > o.after_webhook_id and w.deleted_at is null and (w.app_id is null or w.app_id = o.app_id)
  and w.events && array[o.type, split_part(o.type, '.', 1) || '.*', '*']
  and case when o.type = any(${[...ALERT_TYPES]}::text[]) then w.id is distinct from (${SUBJECT}) else true end`

/**
 * Takes the oldest events of the next tenants behind `after`, every tenant's first one before anyone's second: none waits
 * behind another's flood. From one tenant to the next the index is skipped through. Locks the lanes of their webhooks, in
 * id order as every writer does, before anything else is locked: whoever counts what is leased does so afterwards. Returns
 * a chunk more than a batch can serve, so that it is known that something is left, and no more.
 *
 * An event of a subscriber reaches that subscriber's webhooks and those of the tenant that ask for subscribers' events. All
 * other events reach the tenant's webhooks alone: a subscriber is not trusted with them, whatever its webhook subscribes to.
 */
function takeEvents(tx: Db, since: string, after: string, limit: number): Promise<FoundRow[]> {
  return tx.query<FoundRow>(sql`
    with recursive t(tenant_id, n) as (
      (select tenant_id, 1 from outbox where tenant_id > ${after} and event_id >= ${since} order by tenant_id limit 1)
      union all
      select (select o.tenant_id from outbox o where o.tenant_id > t.tenant_id and o.event_id >= ${since} order by o.tenant_id limit 1), t.n + 1
      from t where t.tenant_id is not null and t.n < ${TENANTS_A_BATCH}),
    found as (select tenant_id, count(*) over () as tenants from t where tenant_id is not null),
    o as materialized (
      select o.* from found
      cross join lateral (
        select x.*, row_number() over (order by x.event_id) as place, found.tenants from (
          select tenant_id, event_id, app_id, subscriber_id, type, after_webhook_id, ordering_key from outbox
          where tenant_id = found.tenant_id and event_id >= ${since} order by event_id
          limit ceil(${limit}::float8 / found.tenants) for update skip locked) x) o),
    s as materialized (
      select k.*, (
        select f.event_id from outbox f where f.tenant_id = k.tenant_id and f.ordering_key = k.ordering_key
          and not exists (select from o where o.tenant_id = f.tenant_id and o.event_id = f.event_id)
        order by f.event_id limit 1) as first_left
      from (select distinct tenant_id, ordering_key from o where ordering_key is not null) k),
    m as materialized (
      select o.*, coalesce(s.first_left < o.event_id, false) as blocked, w.id as webhook_id, w.status, w.filter_version from o
      left join s on s.tenant_id = o.tenant_id and s.ordering_key = o.ordering_key
      left join lateral (
        (select w.id, w.status, ${FILTER_VERSION} from webhooks w
        where w.tenant_id = o.tenant_id and w.subscriber_id is null and (o.subscriber_id is null or w.include_subscribers)
          and s.first_left < o.event_id is not true and ${SUBSCRIBES} order by w.id limit ${CHUNK})
        union all
        (select w.id, w.status, ${FILTER_VERSION} from webhooks w
        where w.tenant_id = o.tenant_id and w.subscriber_id is not null and w.subscriber_id = o.subscriber_id
          and s.first_left < o.event_id is not true and ${SUBSCRIBES} order by w.id limit ${CHUNK})
        order by id limit ${CHUNK}) w on true),
    k as materialized (
      select l.* from (select distinct tenant_id, webhook_id from m where status <> 'disabled' order by tenant_id, webhook_id) x
      cross join lateral (
        select id, due_at > now() and not (saturated or held or slow) and timeouts = 0 as idle from lanes
        where tenant_id = x.tenant_id and id = x.webhook_id for no key update) l)
    select * from (
      select m.*, coalesce(k.idle, false) as idle, count(*) over (order by m.place, m.event_id)::int as upto
      from m left join k on k.id = m.webhook_id) r
    where upto <= ${DELIVERIES_A_BATCH + CHUNK}::int
    order by place, event_id, webhook_id`)
}

interface Taken {
  event: OutboxRow
  /** The last webhook of the chunk, if the event may have further ones for the next batch; null if not. */
  after: string | null
  matches: readonly Candidate[]
}

const weightOf = (matches: readonly Candidate[]): number =>
  matches.reduce((sum, { filter_version }) => sum + (filter_version === null ? 1 : FILTER_WEIGHT), 0)

/** The events with their webhooks, as many as the batch can serve: those behind are left in the outbox for the next one. */
function fitting(found: readonly FoundRow[]): Taken[] {
  const taken: Taken[] = []
  let weight = 0
  for (const [event, ...more] of Map.groupBy(found, (row) => row.event_id).values() as Iterable<
    [FoundRow, ...FoundRow[]]
  >) {
    const matches = [event, ...more].filter((row): row is FoundRow & Candidate => row.webhook_id !== null)
    weight += weightOf(matches)
    if (taken.length > 0 && weight > DELIVERIES_A_BATCH) break
    // What filters leave out is served too: the next batch begins behind it.
    taken.push({ event, after: matches.length === CHUNK ? (matches.at(-1)?.webhook_id as string) : null, matches })
  }
  return taken
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
  /** Events were left because they must not overtake others, which another process is about to have served. */
  blocked: boolean
  /** Deliveries that this worker may send now; null if it leased none. */
  claimed: NewClaim | null
  /** The oldest event of the batch; null without one. */
  oldestId: string | null
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
  const filtered = createFilters()

  function visit(since: string): Promise<FannedOut> {
    return asyncCommit.tx(async (tx) => {
      const restart = turnOf !== ''
      const looked = await takeEvents(tx, since, turnOf, limit)
      turnOf = looked[0]?.tenants === TENANTS_A_BATCH ? (column(looked, 'tenant_id').sort().at(-1) as string) : ''
      const found = looked.filter((row) => !row.blocked)
      const blocked = found.length < looked.length
      if (found.length === 0) return { events: 0, deliveries: 0, more: restart, blocked, claimed: null, oldestId: null }
      const fit = fitting(found)
      const taken = inTurn(column(fit, 'event'), await filtered(tx, fit))
      const matches = taken.flatMap((each) => each.matches)
      const unfinished = taken.flatMap(({ event, after }) => (after === null ? [] : { event, after }))
      const claimed = await writeDeliveries(tx, {
        done: taken.filter(({ after }) => after === null).map(({ event }) => event),
        unfinished,
        matches,
        leasing: leasing?.() ?? null,
        now: now(),
      })
      const left = found.at(-1)?.event_id !== fit.at(-1)?.event.event_id || taken.length < fit.length
      const more = restart || fillsShare(looked, limit) || left || unfinished.length > 0
      const weightAnEvent = Math.max(1, weightOf(fit.flatMap((each) => each.matches)) / fit.length)
      const next = Math.min(EVENTS_A_BATCH_MAX, Math.floor(DELIVERIES_A_BATCH / weightAnEvent))
      // Slowly up: an event that had no webhooks left says nothing about the one behind it, which may have 500.
      limit = Math.max(1, Math.min(next, 2 * limit))
      const oldestId = column(found, 'event_id').sort()[0] as string
      return { events: taken.length, deliveries: matches.length, more, blocked, claimed, oldestId }
    })
  }

  return async function fanOut(): Promise<FannedOut> {
    const startedAt = monotonicMs()
    const everything = startedAt - everythingAt > EVERYTHING_MS
    const done = await visit(everything ? '' : `evt_${idTime(Date.now() - RECENT_MS)}`)
    // While something is left, the next visit looks at everything too: old events are seen by no other.
    if (everything && !done.more) everythingAt = startedAt
    if (!done.blocked) return done
    everythingAt = Number.NEGATIVE_INFINITY
    // After a look at everything, only what another process has in its batch is missing.
    return { ...done, more: done.more || !everything }
  }
}
