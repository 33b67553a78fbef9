import { type Db, sql, unprepared } from '../../platform/db/db.ts'
import type { FeedEvent } from '../../platform/events/feed.ts'
import type { Id } from '../../platform/ids.ts'
import type { ActiveDays, CountedEvent, Day, DayCounts } from './counters.ts'
import { READ_TYPES, WHOLE_TENANT } from './counters.ts'

/** Whether the app is the tenant's. */
export async function hasApp(db: Db, tenantId: Id<'ten'>, appId: string): Promise<boolean> {
  return (await db.one(sql`select 1 from apps where tenant_id = ${tenantId} and id = ${appId}`)) !== undefined
}

/** A tenant's or an app's rows of these days, the earliest first; there are none of days on which nothing was. */
export function listDays(db: Db, tenantId: Id<'ten'>, appId: string, from: Day, to: Day): Promise<DayCounts[]> {
  return db.query<DayCounts>(sql`
    select tenant_id, app_id, day::text as day, new_users, users_imported, active_users, last_active_users, sign_ins_passkey, sign_ins_messenger, guests,
      guests_converted, wallets_created, transactions_completed, transactions_failed, deliveries_succeeded, deliveries_failed, api_requests
    from analytics_daily where tenant_id = ${tenantId} and app_id = ${appId} and day between ${from}::date and ${to}::date order by day`)
}

/** Adds to days. The rows come, and are locked, in their order. */
export async function addCounts(tx: Db, rows: readonly DayCounts[]): Promise<void> {
  if (rows.length === 0) return
  await tx.run(sql`
    insert into analytics_daily as a select * from json_populate_recordset(null::analytics_daily, ${JSON.stringify(rows)})
    on conflict (tenant_id, app_id, day) do update set
      new_users = a.new_users + excluded.new_users,
      users_imported = a.users_imported + excluded.users_imported,
      active_users = a.active_users + excluded.active_users,
      last_active_users = a.last_active_users + excluded.last_active_users,
      sign_ins_passkey = a.sign_ins_passkey + excluded.sign_ins_passkey,
      sign_ins_messenger = a.sign_ins_messenger + excluded.sign_ins_messenger,
      guests = a.guests + excluded.guests,
      guests_converted = a.guests_converted + excluded.guests_converted,
      wallets_created = a.wallets_created + excluded.wallets_created,
      transactions_completed = a.transactions_completed + excluded.transactions_completed,
      transactions_failed = a.transactions_failed + excluded.transactions_failed,
      deliveries_succeeded = a.deliveries_succeeded + excluded.deliveries_succeeded,
      deliveries_failed = a.deliveries_failed + excluded.deliveries_failed,
      api_requests = a.api_requests + excluded.api_requests`)
}

/** When these users were active, by id. */
export async function findActiveDays(
  tx: Db,
  tenantId: Id<'ten'>,
  userIds: readonly string[],
): Promise<Map<string, ActiveDays>> {
  const rows = await tx.query<{ user_id: string; last_day: Day; days: number }>(sql`
    select user_id, last_day::text as last_day, days from analytics_active_users
    where tenant_id = ${tenantId} and user_id = any (${userIds}::text[])`)
  return new Map(rows.map((row) => [row.user_id, { lastDay: row.last_day, days: row.days }]))
}

/** A user's active days, to be kept. */
export interface KeptActivity extends ActiveDays {
  userId: string
  appId: string
}

/** Keeps users' active days. Only whoever holds the tenant's cursor does. */
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
 * Looks at the next `limit` users behind a place, and forgets those who were not active since `since`.
 * @returns the last one that it looked at; undefined at the end
 */
export async function deleteOldActivity(
  db: Db,
  after: ActivePlace,
  since: Day,
  limit: number,
): Promise<ActivePlace | undefined> {
  const row = await db.one<{ tenant_id: string; user_id: string }>(sql`
    with seen as materialized (
      select tenant_id, user_id from analytics_active_users where (tenant_id, user_id) > (${after.tenantId}, ${after.userId})
      order by tenant_id, user_id limit ${limit}),
    gone as (
      delete from analytics_active_users a using seen s
      where a.tenant_id = s.tenant_id and a.user_id = s.user_id and a.last_day < ${since}::date)
    select tenant_id, user_id from seen order by tenant_id desc, user_id desc limit 1`)
  return row && { tenantId: row.tenant_id, userId: row.user_id }
}

/** The tenants that have ever had an event; of them the named one alone where `tenantId` is not null. */
export async function listFedTenants(db: Db, tenantId: string | null): Promise<Id<'ten'>[]> {
  const rows = await db.query<{ tenant_id: Id<'ten'> }>(sql`
    select tenant_id from feed_heads where ${tenantId}::text is null or tenant_id = ${tenantId} order by tenant_id`)
  return rows.map((row) => row.tenant_id)
}

/** Whether there is such a tenant. */
export async function hasTenant(db: Db, tenantId: string): Promise<boolean> {
  return (await db.one(sql`select 1 from tenants where id = ${tenantId}`)) !== undefined
}

/** After every day that anyone asks for. */
const NEVER = new Date('9000-01-01T00:00:00Z')

/**
 * From when on a tenant's events are all there: behind the event of then its feed has no gap. Null where none has ever
 * gone.
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

/** The day of the first event that a tenant has left; undefined if it has none. */
export async function firstDay(tx: Db, tenantId: Id<'ten'>): Promise<Day | undefined> {
  const row = await tx.one<{ day: Day }>(sql`
    select (created_at at time zone 'UTC')::date::text as day from events where tenant_id = ${tenantId} order by id limit 1`)
  return row?.day
}

/** Sets what is counted from events back to nothing, on one day of a tenant; `last_active_users` goes by the users' rows. */
export async function clearEventCounts(tx: Db, tenantId: Id<'ten'>, day: Day): Promise<void> {
  await tx.run(sql`
    with held as materialized (
      select app_id from analytics_daily where tenant_id = ${tenantId} and day = ${day}::date order by app_id for update)
    update analytics_daily a set new_users = 0, active_users = 0, sign_ins_passkey = 0, sign_ins_messenger = 0, guests = 0,
      guests_converted = 0, wallets_created = 0, transactions_completed = 0, transactions_failed = 0
    from held h where a.tenant_id = ${tenantId} and a.app_id = h.app_id and a.day = ${day}::date`)
}

/** Counts anew on which day each of a tenant's users was last active, out of the users' rows. */
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

interface EventRow {
  app_id: Id<'app'> | null
  type: FeedEvent['type']
  body: string
  created_at: Date
  actor: string | null
}

/**
 * The events of a tenant between two times that stand in its feed up to a place, a thousand at a time, in no order. Bodies
 * are there for the kinds alone that are looked into. Once a transaction.
 */
export async function* readEvents(
  tx: Db,
  where: { tenantId: Id<'ten'>; upTo: number; from: Date; until: Date },
): AsyncGenerator<CountedEvent[]> {
  const { tenantId, upTo, from, until } = where
  await tx.run(
    unprepared(sql`
      declare counted_events no scroll cursor for
      select e.app_id, e.type, case when e.type = any (${READ_TYPES}::text[]) then e.body else '' end as body, e.created_at,
        e.context ->> 'actor' as actor
      from events e
      where e.tenant_id = ${tenantId} and e.created_at >= ${from}::timestamptz and e.created_at < ${until}::timestamptz
        and e.type <> 'webhook.test'
        and not exists (
          select from outbox o where o.tenant_id = e.tenant_id and o.event_id = e.id and o.after_webhook_id = '')
        and not exists (
          select from feed f where f.tenant_id = ${tenantId} and f.seq > ${upTo} and f.event_id = e.id)`),
  )
  for (;;) {
    const rows = await tx.query<EventRow>(unprepared(sql`fetch 1000 from counted_events`))
    if (rows.length === 0) break
    yield rows.map(({ app_id, created_at, ...row }) => ({ ...row, appId: app_id, createdAt: created_at }))
  }
  await tx.run(unprepared(sql`close counted_events`))
}
