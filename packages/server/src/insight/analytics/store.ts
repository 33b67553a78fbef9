import { type Db, type Sql, sql, unprepared } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import {
  type ActiveDays,
  COUNTERS,
  type CountedEvent,
  type Day,
  type DayCounts,
  READ_TYPES,
  WHOLE_TENANT,
} from './counters.ts'

/** Part of a statement: the names of all counters. */
const COLUMNS: Sql = { text: COUNTERS.join(', '), values: [], name: '' }

/** A tenant's or an app's rows of these days, the earliest first; days without activity have no row. */
export function listDays(db: Db, tenantId: Id<'ten'>, appId: string, from: Day, to: Day): Promise<DayCounts[]> {
  return db.query<DayCounts>(sql`
    select tenant_id, app_id, day::text as day, ${COLUMNS} from analytics_daily
    where tenant_id = ${tenantId} and app_id = ${appId} and day between ${from}::date and ${to}::date order by day`)
}

/** Part of a statement: adds to each counter of a day. */
const ADDED: Sql = {
  text: COUNTERS.map((name) => `${name} = a.${name} + excluded.${name}`).join(', '),
  values: [],
  name: '',
}

/** Adds to days. Locks the rows in the given order. */
export async function addCounts(tx: Db, rows: readonly DayCounts[]): Promise<void> {
  if (rows.length === 0) return
  await tx.run(sql`
    insert into analytics_daily as a select * from json_populate_recordset(null::analytics_daily, ${JSON.stringify(rows)})
    on conflict (tenant_id, app_id, day) do update set ${ADDED}`)
}

/** When these users were active, by id. */
export async function findActiveDays(
  tx: Db,
  tenantId: Id<'ten'>,
  userIds: readonly string[],
): Promise<Map<string, ActiveDays>> {
  const rows = await tx.query<ActiveDays & { userId: string }>(sql`
    select user_id as "userId", last_day::text as "lastDay", days from analytics_active_users
    where tenant_id = ${tenantId} and user_id = any (${userIds}::text[])`)
  return new Map(rows.map((row) => [row.userId, row]))
}

/** A user's active days, to be kept. */
export interface KeptActivity extends ActiveDays {
  userId: string
  appId: string
}

/** Stores users' active days. The caller has locked the tenant's cursor. */
export async function keepActiveDays(tx: Db, tenantId: Id<'ten'>, rows: readonly KeptActivity[]): Promise<void> {
  if (rows.length === 0) return
  await tx.run(sql`
    insert into analytics_active_users (tenant_id, user_id, app_id, last_day, days)
    select ${tenantId}, user_id, app_id, last_day, days
    from unnest(${rows.map((row) => row.userId)}::text[], ${rows.map((row) => row.appId)}::text[], ${rows.map((row) => row.lastDay)}::date[],
      ${rows.map((row) => row.days)}::integer[]) as t(user_id, app_id, last_day, days) order by user_id
    on conflict (tenant_id, user_id) do update set last_day = excluded.last_day, days = excluded.days`)
}

/** A place in `analytics_active_users`. */
export interface ActivePlace {
  tenantId: string
  userId: string
}

/**
 * Reads the next `limit` users after a place, and deletes those who were not active since `since`.
 * @returns the last user read; undefined at the end
 */
export async function deleteOldActivity(
  db: Db,
  after: ActivePlace,
  since: Day,
  limit: number,
): Promise<ActivePlace | undefined> {
  return db.one<ActivePlace>(sql`
    with seen as materialized (
      select tenant_id, user_id from analytics_active_users where (tenant_id, user_id) > (${after.tenantId}, ${after.userId})
      order by tenant_id, user_id limit ${limit}),
    gone as (
      delete from analytics_active_users a using seen s
      where a.tenant_id = s.tenant_id and a.user_id = s.user_id and a.last_day < ${since}::date)
    select tenant_id as "tenantId", user_id as "userId" from seen order by tenant_id desc, user_id desc limit 1`)
}

/** The tenants that ever had an event; with `tenantId`, only that one. */
export async function listFedTenants(db: Db, tenantId: Id<'ten'> | null): Promise<Id<'ten'>[]> {
  const rows = await db.query<{ tenant_id: Id<'ten'> }>(sql`
    select tenant_id from feed_heads where ${tenantId}::text is null or tenant_id = ${tenantId} order by tenant_id`)
  return rows.map((row) => row.tenant_id)
}

/** Later than any requested day. */
const NEVER = new Date('9000-01-01T00:00:00Z')

/**
 * The time since which all events of a tenant are kept: its feed has no gap after the event of that time. Null if no event
 * was ever deleted.
 */
export async function keptSince(tx: Db, tenantId: Id<'ten'>): Promise<Date | null> {
  const row = await tx.one<{ since: Date | null; gap: boolean; empty: boolean }>(sql`
    with numbered as (
      select seq, event_id, lag(seq, 1, 0::bigint) over (order by seq) as before from feed where tenant_id = ${tenantId}),
    behind as (select seq, event_id from numbered where seq > before + 1 order by seq desc limit 1)
    select exists (select from behind) as gap,
      (select e.created_at from behind b join events e on e.tenant_id = ${tenantId} and e.id = b.event_id) as since,
      coalesce((select h.seq > coalesce((select max(seq) from feed where tenant_id = ${tenantId}), 0) from feed_heads h
        where h.tenant_id = ${tenantId}), false) as empty`)
  if (row?.empty) return NEVER
  return row?.gap === true ? (row.since ?? NEVER) : null
}

/** The day of the oldest event of a tenant; undefined without events. */
export async function firstDay(tx: Db, tenantId: Id<'ten'>): Promise<Day | undefined> {
  const row = await tx.one<{ day: Day }>(sql`
    select (created_at at time zone 'UTC')::date::text as day from events where tenant_id = ${tenantId} order by id limit 1`)
  return row?.day
}

/** Resets the counters of a day that follow from events; `last_active_users` follows from the users' rows. */
export async function clearEventCounts(tx: Db, tenantId: Id<'ten'>, day: Day): Promise<void> {
  await tx.run(sql`
    with held as materialized (
      select app_id from analytics_daily where tenant_id = ${tenantId} and day = ${day}::date order by app_id for update)
    update analytics_daily a set new_users = 0, active_users = 0, sign_ins_passkey = 0, sign_ins_messenger = 0, sign_ins_email = 0, sign_ins_exchange = 0, sign_ins_provider = 0, sign_ins_wallet = 0, guests = 0,
      guests_converted = 0, wallets_created = 0, transactions_completed = 0, transactions_failed = 0
    from held h where a.tenant_id = ${tenantId} and a.app_id = h.app_id and a.day = ${day}::date`)
}

/** Recounts from the users' rows how many of a tenant's users were last active on each day. */
export async function recountLastActive(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`
    with held as materialized (
      select app_id, day, last_active_users as n from analytics_daily where tenant_id = ${tenantId} order by app_id, day for update),
    counted as (
      select coalesce(app_id, ${WHOLE_TENANT}) as app_id, last_day as day, count(*) as n from analytics_active_users
      where tenant_id = ${tenantId} group by grouping sets ((last_day), (app_id, last_day)))
    insert into analytics_daily as a (tenant_id, app_id, day, last_active_users)
    select ${tenantId}, app_id, day, coalesce(c.n, 0) from counted c full join held h using (app_id, day)
    where coalesce(c.n, 0) <> coalesce(h.n, 0) order by app_id, day
    on conflict (tenant_id, app_id, day) do update set last_active_users = excluded.last_active_users`)
}

/**
 * A tenant's events between two times and up to a place in its feed, a thousand at a time, in no order. Only types in
 * `READ_TYPES` have their body. Once per transaction.
 */
export async function* readEvents(
  tx: Db,
  where: { tenantId: Id<'ten'>; upTo: number; from: Date; until: Date },
): AsyncGenerator<CountedEvent[]> {
  const { tenantId, upTo, from, until } = where
  await tx.run(
    unprepared(sql`
      declare counted_events no scroll cursor for
      select e.app_id as "appId", e.type, case when e.type = any (${READ_TYPES}::text[]) then e.body else '' end as body,
        e.created_at as "createdAt", e.context ->> 'actor' as actor
      from events e
      where e.tenant_id = ${tenantId} and e.created_at >= ${from}::timestamptz and e.created_at < ${until}::timestamptz
        and e.type <> 'webhook.test'
        and not exists (
          select from outbox o where o.tenant_id = e.tenant_id and o.event_id = e.id and o.after_webhook_id = '')
        and not exists (
          select from feed f where f.tenant_id = ${tenantId} and f.seq > ${upTo} and f.event_id = e.id)`),
  )
  for (;;) {
    const events = await tx.query<CountedEvent>(unprepared(sql`fetch 1000 from counted_events`))
    if (events.length === 0) break
    yield events
  }
  await tx.run(unprepared(sql`close counted_events`))
}
