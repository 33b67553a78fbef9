import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope } from '../../platform/db/page.ts'
import { type Id, idTime } from '../../platform/ids.ts'

/** A selection of events. */
export interface FeedFilter {
  tenantId: Id<'ten'>
  /** Only events of this app; null for all events of the tenant. */
  appId: Id<'app'> | null
  /** Only events for this subscriber; null for all. */
  subscriberId: string | null
  /** Types, families and `*`; null for all. */
  types: readonly string[] | null
}

/** How many places of the feed one call reads if a filter excludes events. */
const SCANNED_MAX = 2_000
/** The maximum text of a page. At least one event is returned, however long it is. */
const PAGE_BYTES = 1024 * 1024

/** A part of a feed. */
export interface FeedPortion {
  /** Where the feed ends. */
  head: number
  /** The place of the last event that was looked at; `head` at the feed's end. */
  seq: number
  bodies: string[]
  more: boolean
  /** How many places were looked at that still have their event. */
  kept: number
  /** Everything read here is durable when the database's log is durable up to this position. */
  written: string
}

interface Row {
  head: number
  kept: number
  scanned: number
  scanned_to: number | null
  fitting: number
  seq: number | null
  nth: number | null
  body: string | null
  written: string
}

const isFull = ({ appId, subscriberId, types }: FeedFilter) => appId === null && subscriberId === null && types === null

/** The conditions of a filter on `e`, an event. */
function fits({ appId, subscriberId, types }: FeedFilter) {
  const families = sql`array[e.type, split_part(e.type, '.', 1) || '.*', '*']`
  return sql`(${appId}::text is null or e.app_id = ${appId}) and (${subscriberId}::text is null or e.subscriber_id = ${subscriberId})
    and (${types}::text[] is null or ${families} && ${types}::text[])`
}

/** The event of a place `f`, looked up by its key whatever old statistics tell the planner: `limit` sees to it. */
const eventOf = (tenantId: Id<'ten'>) =>
  sql`select * from events where tenant_id = ${tenantId} and id = f.event_id limit 1`

/**
 * The events after a place, in the feed's order. Cut where their text gets long, measured before any of it is read.
 * Undefined where the tenant has had no event yet.
 */
export async function readPortion(
  db: Db,
  filter: FeedFilter,
  after: number,
  limit: number,
): Promise<FeedPortion | undefined> {
  const { tenantId } = filter
  const places = isFull(filter) ? limit + 1 : SCANNED_MAX
  const rows = await db.query<Row>(sql`
    with scanned as materialized (
      select f.seq, f.event_id, e.id, count(e.id) over (order by f.seq) as nth, octet_length(e.body) as bytes, ${fits(filter)} as fits
      from (select seq, event_id from feed where tenant_id = ${tenantId} and seq > ${after} order by seq limit ${places}) f
      left join lateral (${eventOf(tenantId)}) e on true),
    fitting as (
      select seq, event_id, nth, row_number() over (order by seq) as place, sum(bytes) over (order by seq) - bytes as bytes_before
      from scanned where id is not null and fits),
    taken as (select * from fitting where place <= ${limit} and bytes_before < ${PAGE_BYTES})
    select h.seq as head, pg_current_wal_insert_lsn()::text as written, s.kept, s.scanned, s.scanned_to,
      (select count(*) from fitting) as fitting, t.seq, t.nth, e.body
    from feed_heads h
    cross join (select count(*) as scanned, count(id) as kept, max(seq) as scanned_to from scanned) s
    left join taken t on true
    left join events e on e.tenant_id = h.tenant_id and e.id = t.event_id
    where h.tenant_id = ${tenantId} order by t.seq`)
  const [first] = rows
  if (first === undefined) return undefined
  const { head, written, kept, scanned, fitting, scanned_to } = first
  const bodies = rows.flatMap(({ body }) => body ?? [])
  const last = rows.at(-1) as Row
  const shared = { head, written, bodies }
  if (bodies.length < fitting) return { ...shared, seq: last.seq ?? after, more: true, kept: last.nth ?? 0 }
  const more = scanned === places
  return { ...shared, seq: more ? (scanned_to ?? head) : head, more, kept }
}

/** An event's body, if the key sees the event and its retention is not over. */
export function findEvent(db: Db, scope: AppScope, id: Id<'evt'>): Promise<{ body: string | null } | undefined> {
  return db.one(sql`select body from events where ${inScope(scope)} and id = ${id}`)
}

/** Where a tenant's feed ends, and up to where the log must be durable for that; undefined before its first event. */
export function findHead(db: Db, tenantId: Id<'ten'>): Promise<{ head: number; written: string } | undefined> {
  return db.one(sql`
    select seq as head, pg_current_wal_insert_lsn()::text as written from feed_heads where tenant_id = ${tenantId}`)
}

/** Where the feeds of these tenants end. */
export function findHeads(db: Db, tenantIds: readonly Id<'ten'>[]): Promise<{ tenant_id: Id<'ten'>; seq: number }[]> {
  return db.query(sql`select tenant_id, seq from feed_heads where tenant_id = any(${tenantIds}::text[])`)
}

/** The place before the last `count` events that fit; before the last 2 000 of all where not so many do. */
export async function placeBeforeLast(db: Db, filter: FeedFilter, count: number): Promise<number> {
  const places = isFull(filter) ? count : SCANNED_MAX
  const row = await db.one<{ nth: number | null; oldest: number | null }>(sql`
    with scanned as materialized (
      select f.seq, ${fits(filter)} as fits
      from (select seq, event_id from feed where tenant_id = ${filter.tenantId} order by seq desc limit ${places}) f
      cross join lateral (${eventOf(filter.tenantId)}) e)
    select (select seq from scanned where fits order by seq desc offset ${count - 1} limit 1) as nth,
      (select min(seq) from scanned) as oldest`)
  return Math.max(0, (row?.nth ?? row?.oldest ?? 1) - 1)
}

/** The first place at `seq` or after it that still has its event. */
export function findPlace(
  db: Db,
  tenantId: Id<'ten'>,
  seq: number,
): Promise<{ seq: number; event_id: Id<'evt'> } | undefined> {
  return db.one(sql`
    select seq, event_id from feed where tenant_id = ${tenantId} and seq >= ${seq} order by seq limit 1`)
}

/**
 * The last event of each key that waits for the fan-out: a new one with the key must sort after it, whatever the clocks of
 * the processes say. What the fan-out has taken needs no such care, for a later event is behind it.
 */
export async function lastEvents(
  db: Db,
  tenantId: string,
  orderingKeys: readonly string[],
): Promise<[orderingKey: string, eventId: string][]> {
  if (orderingKeys.length === 0) return []
  // An id that is made from now on sorts after those of before by itself. Without this bound, a key's dead index entries were read.
  const now = `evt_${idTime(Date.now())}`
  const rows = await db.query<{ ordering_key: string; event_id: string }>(sql`
    select k.ordering_key, o.event_id from (select distinct * from unnest(${[...orderingKeys]}::text[])) k(ordering_key)
    cross join lateral (
      select event_id from outbox where tenant_id = ${tenantId} and ordering_key = k.ordering_key and event_id >= ${now}
      order by event_id desc limit 1) o`)
  return rows.map((row) => [row.ordering_key, row.event_id])
}
