import { type Db, isoTime, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, ordering } from '../../platform/db/page.ts'
import { insertion } from '../../platform/db/rows.ts'
import type { StoredEvent } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { type Shape, shapeOf } from '../engine/content/message.ts'
import { testLaneId } from '../engine/lanes.ts'
import type { Delivery } from './schema.ts'

/** A delivery with this many attempts is not retried, which limits its history and the cost of showing it. */
const ATTEMPTS_MAX = 100
const LISTED_ATTEMPTS_MAX = 10
/** With the cycle that began below the limit, which has at most 21 sends. */
const SHOWN_ATTEMPTS_MAX = ATTEMPTS_MAX + 20

const PENDING_STATUS = sql`case when lease_id is not null then 'delivering' when retry > 0 then 'retrying' else 'pending' end`

const PENDING_COLUMNS = sql`id, webhook_id, event_id, event_type, ${PENDING_STATUS} as status, retry,
  case when lease_id is null and next_at < 'infinity' then next_at end as next_at,
  case when next_at = 'infinity' then ordering_key end as held_by_key, created_at, created_at as updated_at`

const DONE_COLUMNS = sql`id, webhook_id, event_id, event_type, status, retry, null::timestamptz as next_at,
  null::text as held_by_key, created_at, done_at as updated_at`

/** The owner of the deliveries. */
export interface OfWebhook {
  tenantId: Id<'ten'>
  webhookId: Id<'wh'>
}

/** One delivery of a webhook. */
export interface DeliveryRef extends OfWebhook {
  id: string
}

/** The conditions that rows are a webhook's, or one of its deliveries. */
const ofWebhook = ({ tenantId, webhookId }: OfWebhook) => sql`tenant_id = ${tenantId} and webhook_id = ${webhookId}`
const isDelivery = (ref: DeliveryRef) => sql`${ofWebhook(ref)} and id = ${ref.id}`

/** A webhook's deliveries to look through. Null means any. */
export interface DeliveryFilter extends OfWebhook {
  status: Delivery['status'] | null
  eventType: string | null
  /** Ascending for the oldest first. */
  sort: 'createdAt' | '-createdAt' | undefined
}

/** Part of a list: the rows of the table of what is pending, or of that of what has ended. */
interface Part {
  table: Sql
  columns: Sql
  where: Sql
}

/** The tables in which a filter can match. */
function partsOf(filter: DeliveryFilter): Part[] {
  const { status, eventType } = filter
  const shared = eventType === null ? ofWebhook(filter) : sql`${ofWebhook(filter)} and event_type = ${eventType}`
  const pending = (where: Sql) => ({ table: sql`deliveries`, columns: PENDING_COLUMNS, where })
  const done = (where: Sql) => ({ table: sql`deliveries_done`, columns: DONE_COLUMNS, where })
  if (status === null) return [pending(shared), done(shared)]
  if (['pending', 'delivering', 'retrying'].includes(status))
    return [pending(sql`${shared} and ${PENDING_STATUS} = ${status}`)]
  // Written out, so that the planner sees the partial index over dead letters.
  const ended = status === 'dead_letter' ? sql`status = 'dead_letter'` : sql`status = ${status}`
  return [done(sql`${shared} and ${ended}`)]
}

const ATTEMPT = sql`json_build_object('number', a.number, 'at', ${isoTime(sql`a.at`)}, 'statusCode', a.status_code,
  'durationMs', a.duration_ms, 'error', a.error, 'responseSnippet', a.response_snippet)`

/** Rows as a `Delivery`, with the newest of its attempts, in the order in which they were made. */
function withAttempts(page: Sql, attemptsMax: number, direction = sql`desc`): Sql {
  return sql`
    select p.id, p.webhook_id as "webhookId", p.event_id as "eventId", p.event_type as "eventType", p.status, p.retry as "retryCount",
      ${isoTime(sql`p.next_at`)} as "nextAttemptAt", p.held_by_key as "heldByKey", coalesce(t.attempts, '[]') as attempts,
      ${isoTime(sql`p.created_at`)} as "createdAt", ${isoTime(sql`p.updated_at`)} as "updatedAt"
    from (${page}) p
    left join lateral (
      select json_agg(${ATTEMPT} order by a.number) as attempts from (
        select * from attempts a where a.tenant_id = p.tenant_id and a.delivery_id = p.id order by number desc limit ${attemptsMax}) a) t on true
    order by p.id ${direction}`
}

/** A page of deliveries, by default newest first, each with its last ten attempts, and how many there are. */
export async function listDeliveries(
  db: Db,
  filter: DeliveryFilter,
  offset: number,
  limit: number,
): Promise<{ items: Delivery[]; total: number }> {
  const parts = partsOf(filter)
  const sum = parts
    .map(({ table, where }) => sql`(select count(*) from ${table} where ${where})`)
    .reduce((all, one) => sql`${all} + ${one}`)
  const total = await db.count(sql`select ${sum} as n`)
  // Past the end. Finding that out with an offset would read all rows before it.
  if (offset >= total) return { items: [], total }
  const { direction } = ordering(filter.sort)
  const union = parts
    .map(
      ({ table, columns, where }) =>
        sql`(select tenant_id, ${columns} from ${table} where ${where} order by id ${direction} limit ${offset + limit})`,
    )
    .reduce((all, one) => sql`${all} union all ${one}`)
  const page = sql`select * from (${union}) u order by id ${direction} offset ${offset} limit ${limit}`
  return { items: await db.query<Delivery>(withAttempts(page, LISTED_ATTEMPTS_MAX, direction)), total }
}

/**
 * A page of the deliveries of one event, to the webhooks that a key sees. A delivery's id begins with its event's time, so that
 * each webhook costs one look into an index.
 */
export async function listDeliveriesOfEvent(
  db: Db,
  { tenantId, appId }: AppScope,
  eventId: Id<'evt'>,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ items: Delivery[]; total: number }> {
  const first = `dlv_${eventId.slice(4, 14)}`
  const own = sql`tenant_id = ${tenantId} and webhook_id = w.id and id >= ${first} and id < ${`${first}~`} and event_id = ${eventId}`
  const found = sql`
    select d.* from webhooks w cross join lateral (
      select tenant_id, ${PENDING_COLUMNS} from deliveries where ${own}
      union all select tenant_id, ${DONE_COLUMNS} from deliveries_done where ${own}) d
    where w.tenant_id = ${tenantId} and w.deleted_at is null and (${appId}::text is null or w.app_id = ${appId})
      and (w.subscriber_id is null or w.subscriber_id = (
        select e.subscriber_id from events e where e.tenant_id = ${tenantId} and e.id = ${eventId}))`
  const total = await db.count(sql`select count(*) as n from (${found}) f`)
  const page = sql`select * from (${found}) f order by id desc offset ${offset} limit ${pageSize}`
  return { items: await db.query<Delivery>(withAttempts(page, LISTED_ATTEMPTS_MAX)), total }
}

/** A delivery with all its attempts. */
interface FoundDelivery {
  delivery: Delivery
  /** The event's; null when its retention is over. */
  body: string | null
  /** The event's. */
  appId: string | null
  /** Of the last attempt; null without one. */
  shape: Shape | null
}

/** One delivery with all its attempts and its event. */
export async function findDelivery(db: Db, ref: DeliveryRef): Promise<FoundDelivery | undefined> {
  const own = isDelivery(ref)
  const found = sql`
    select tenant_id, ${PENDING_COLUMNS} from deliveries where ${own}
    union all select tenant_id, ${DONE_COLUMNS} from deliveries_done where ${own}`
  const row = await db.one<Delivery & { body: string | null; app_id: string | null; shape: string | null }>(sql`
    select d.*, e.body, e.app_id, (
      select shape from attempts a where a.tenant_id = ${ref.tenantId} and a.delivery_id = d.id order by number desc limit 1) as shape
    from (${withAttempts(found, SHOWN_ATTEMPTS_MAX)}) d
    left join events e on e.tenant_id = ${ref.tenantId} and e.id = d."eventId" limit 1`)
  if (row === undefined) return undefined
  const { body, app_id: appId, shape, ...delivery } = row
  return { delivery, body, appId, shape: delivery.attempts.length === 0 ? null : shapeOf(shape) }
}

/** Whether a delivery has ended. */
export async function isDone(db: Db, ref: DeliveryRef): Promise<boolean> {
  return (await db.one(sql`select 1 from deliveries_done where ${isDelivery(ref)}`)) !== undefined
}

const RESTART_COLUMNS = sql`tenant_id, webhook_id, id, webhook_id, event_id, event_type, cycle + 1, attempts, now(), created_at`

/**
 * A `with` part, `gone`: takes ended deliveries out, if they may be sent again and their event is there. The event's row is
 * locked, so that retention does not take it away before the delivery needs it.
 */
function takeRestartable(which: Sql): Sql {
  return sql`
    held as materialized (
      select d.tenant_id, d.webhook_id, d.id from deliveries_done d join events e on e.tenant_id = d.tenant_id and e.id = d.event_id
      where ${which} and not d.test and d.attempts < ${ATTEMPTS_MAX} order by e.id for key share of e),
    gone as (
      delete from deliveries_done d using held h where d.tenant_id = h.tenant_id and d.webhook_id = h.webhook_id and d.id = h.id returning d.*)`
}

/**
 * Starts a new cycle for an ended delivery: only one of two callers at once finds it to move. A test stays as it ended, and
 * so does what has had 100 attempts or has lost its event.
 */
export async function restartDelivery(tx: Db, { tenantId, webhookId, id }: DeliveryRef): Promise<boolean> {
  const moved = await tx.run(sql`
    with ${takeRestartable(sql`d.tenant_id = ${tenantId} and d.webhook_id = ${webhookId} and d.id = ${id}`)}
    insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, cycle, attempts, next_at, created_at)
    select ${RESTART_COLUMNS} from gone`)
  return moved > 0
}

/**
 * Moves a waiting delivery's next attempt to now. One that waits for others with its ordering key waits no longer. A delivery
 * that is being sent is not changed.
 */
export async function sendNow(tx: Db, ref: DeliveryRef): Promise<void> {
  await tx.run(sql`
    update deliveries set next_at = now(), ordering_key = case when next_at < 'infinity' then ordering_key end
    where ${isDelivery(ref)} and lease_id is null and next_at > now()`)
}

/** Deletes a batch of a webhook's dead letters with their attempts. @returns how many */
export function purgeDeadLetters(db: Db, of: OfWebhook, limit: number): Promise<number> {
  const dead = sql`${ofWebhook(of)} and status = 'dead_letter'`
  // By a range of ids: joined with the picked rows, a planner with old statistics compares each with each.
  return db.count(sql`
    with old as (select id from deliveries_done where ${dead} order by id limit ${limit}),
    gone as (delete from deliveries_done where ${dead} and id <= (select max(id) from old) returning id),
    tried as (delete from attempts a using gone g where a.tenant_id = ${of.tenantId} and a.delivery_id = g.id)
    select count(*) as n from gone`)
}

/** Dead letters in a range of ids; with `eventType` only those of that type. */
export interface DeadLetters extends OfWebhook {
  afterId: string
  untilId: string
  eventType: string | null
}

const isDeadLetter = ({ afterId, untilId, eventType, ...of }: DeadLetters) =>
  sql`${ofWebhook(of)} and status = 'dead_letter' and id > ${afterId} and id <= ${untilId}
    and (${eventType}::text is null or event_type = ${eventType})`

/** The dead letters that there were when a job was asked for. */
export interface CountedDeadLetters {
  total: number
  /** When they were counted, by the database's clock, which also says when deliveries end. With microseconds. */
  endedUntil: string
}

/** Counts these dead letters. The time is read after them: all that were counted ended before it. */
export async function countDeadLetters(db: Db, which: DeadLetters): Promise<CountedDeadLetters> {
  const row = await db.one<CountedDeadLetters>(sql`
    select count(*)::int as total, clock_timestamp()::text as "endedUntil" from deliveries_done where ${isDeadLetter(which)}`)
  return row as CountedDeadLetters
}

/** The ids of the first of these dead letters that ended until a time, or at any time, in ascending order. */
export async function findDeadLetters(
  db: Db,
  { endedUntil = 'infinity', ...which }: DeadLetters & { endedUntil: string | undefined },
  limit: number,
): Promise<string[]> {
  const rows = await db.query<{ id: string }>(sql`
    select id from deliveries_done where ${isDeadLetter(which)} and done_at <= ${endedUntil}::timestamptz order by id limit ${limit}`)
  return rows.map(({ id }) => id)
}

/**
 * Starts new cycles for those of these deliveries that are dead letters; those that may not be sent again stay.
 * @returns the ids of the former
 */
export async function restartDeadLetters(tx: Db, of: OfWebhook, ids: readonly string[]): Promise<string[]> {
  const { tenantId, webhookId } = of
  const rows = await tx.query<{ id: string }>(sql`
    with ${takeRestartable(sql`d.tenant_id = ${tenantId} and d.webhook_id = ${webhookId} and d.status = 'dead_letter'
      and d.id = any(${ids}::text[])`)}
    insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, cycle, attempts, next_at, created_at)
    select ${RESTART_COLUMNS} from gone returning id`)
  return rows.map(({ id }) => id)
}

/** Deletes those of these deliveries that are dead letters, with their attempts. @returns their ids */
export async function deleteDeadLetters(tx: Db, of: OfWebhook, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(sql`
    with gone as (
      delete from deliveries_done where ${ofWebhook(of)} and status = 'dead_letter' and id = any(${ids}::text[]) returning id),
    tried as (delete from attempts a using gone g where a.tenant_id = ${of.tenantId} and a.delivery_id = g.id)
    select id from gone`)
  return rows.map(({ id }) => id)
}

/** The status of each of these deliveries; of those that have not ended: `pending`. */
export async function findStatuses(db: Db, of: OfWebhook, ids: readonly string[]): Promise<Map<string, string>> {
  const which = sql`${ofWebhook(of)} and id = any(${ids}::text[])`
  const rows = await db.query<{ id: string; status: string }>(sql`
    select id, 'pending' as status from deliveries where ${which}
    union all select id, status from deliveries_done where ${which}`)
  return new Map(rows.map(({ id, status }) => [id, status]))
}

/** How many test deliveries of a webhook have not ended. */
export function countOpenTests(tx: Db, { tenantId, webhookId }: OfWebhook): Promise<number> {
  const own = sql`lane_id = ${testLaneId(webhookId)} and tenant_id = ${tenantId}`
  // Each half has its own index.
  return tx.count(sql`
    select (select count(*) from deliveries where ${own} and lease_id is null)
      + (select count(*) from deliveries where ${own} and lease_id is not null) as n`)
}

/** Writes a test event for one webhook alone: without the outbox, so that no other webhook gets it, and in a separate lane. */
export async function insertTestDelivery(
  tx: Db,
  webhookId: Id<'wh'>,
  deliveryId: Id<'dlv'>,
  event: StoredEvent,
): Promise<void> {
  const laneId = testLaneId(webhookId)
  const { tenantId: tenant_id, id, appId: app_id, subscriberId: subscriber_id, createdAt: created_at } = event
  const { type, body, context } = event
  await tx.run(insertion('events', { tenant_id, id, app_id, subscriber_id, type, body, created_at, context }))
  await tx.run(sql`
    insert into lanes (tenant_id, id, webhook_id, due_at) values (${event.tenantId}, ${laneId}, ${webhookId}, now())
    on conflict (tenant_id, id) do update set due_at = now(), floor_at = '-infinity', saturated = false`)
  await tx.run(sql`
    insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, next_at, created_at)
    values (${event.tenantId}, ${webhookId}, ${deliveryId}, ${laneId}, ${event.id}, ${event.type}, now(), now())`)
}
