import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import type { Subscription } from '../../platform/ports/payment-processor.ts'
import type { Meter, Period } from './plans.ts'

/** The data of a tenant that decides its quotas. */
export interface Account {
  tenantId: Id<'ten'>
  /** As stored. For the plan in force, see `planInForce`. */
  plan: string
  /** The known period of the tenant's subscription. Null if it has none. */
  subscribed: Period | null
}

/** The accounts of these tenants that still exist, by tenant. */
export async function findAccounts(db: Db, tenantIds: Iterable<Id<'ten'>>): Promise<Map<Id<'ten'>, Account>> {
  const rows = await db.query<{ id: Id<'ten'>; plan: string; start: Date | null; end: Date | null }>(sql`
    select t.id, t.plan, s.period_start as start, s.period_end as end
    from tenants t left join subscriptions s on s.tenant_id = t.id where t.id = any(${[...new Set(tenantIds)]}::text[])`)
  return new Map(
    rows.map(({ id, plan, start, end }) => {
      const subscribed = start === null || end === null ? null : { start, end }
      return [id, { tenantId: id, plan, subscribed }]
    }),
  )
}

/** A tenant's customer and subscription at the processor. */
export interface SubscriptionRow {
  tenant_id: Id<'ten'>
  customer_id: string
  /** Whether a paid plan is in force. */
  in_force: boolean
  version: number
}

const SELECT_SUBSCRIPTION = sql`
  select tenant_id, customer_id, period_start is not null as in_force, version from subscriptions`

/** A tenant's row, which exists after its first checkout. */
export function findSubscription(db: Db, tenantId: Id<'ten'>): Promise<SubscriptionRow | undefined> {
  return db.one<SubscriptionRow>(sql`${SELECT_SUBSCRIPTION} where tenant_id = ${tenantId}`)
}

/** The row of a customer: the processor knows no tenants. */
export function findSubscriptionOf(db: Db, customerId: string): Promise<SubscriptionRow | undefined> {
  return db.one<SubscriptionRow>(sql`${SELECT_SUBSCRIPTION} where customer_id = ${customerId}`)
}

/** A tenant's row, locked until the transaction ends. */
export function lockSubscription(tx: Db, tenantId: Id<'ten'>): Promise<SubscriptionRow | undefined> {
  return tx.one<SubscriptionRow>(sql`${SELECT_SUBSCRIPTION} where tenant_id = ${tenantId} for update`)
}

/** Up to `limit` rows whose state was not requested since a time. In random order, so that none delays the others. */
export function findUnasked(db: Db, since: Date, limit: number): Promise<SubscriptionRow[]> {
  return db.query<SubscriptionRow>(sql`
    ${SELECT_SUBSCRIPTION} where updated_at < ${since} order by random() limit ${limit}`)
}

/** Stores a tenant's customer, or replaces the one that is `gone`. Of concurrent calls the first wins. */
export async function putCustomer(
  db: Db,
  tenantId: Id<'ten'>,
  { customerId, gone }: { customerId: string; gone: string | null },
  now: Date,
): Promise<void> {
  // Any conflict: of two concurrent calls the later may conflict on the customer before the tenant.
  const added = await db.run(sql`
    insert into subscriptions (tenant_id, customer_id, created_at, updated_at)
    values (${tenantId}, ${customerId}, ${now}, ${now}) on conflict do nothing`)
  if (added === 1 || gone === null) return
  // The next version: a state of the old customer must not be stored for the new one.
  await db.run(sql`
    update subscriptions set
      customer_id = ${customerId}, subscription_id = null, status = null, version = version + 1, updated_at = ${now}
    where tenant_id = ${tenantId} and customer_id = ${gone} and period_start is null`)
}

/** Stores a state as the next version; null if no subscription is left. */
export async function updateSubscription(
  tx: Db,
  tenantId: Id<'ten'>,
  state: Subscription | null,
  now: Date,
): Promise<void> {
  const period = state?.plan == null ? null : { start: state.periodStart, end: state.periodEnd }
  await tx.run(sql`
    update subscriptions set
      subscription_id = coalesce(${state?.id ?? null}, subscription_id),
      status = coalesce(${state?.status ?? null}, case when subscription_id is not null then 'canceled' end),
      period_start = ${period?.start ?? null}, period_end = ${period?.end ?? null},
      version = version + 1, updated_at = ${now}
    where tenant_id = ${tenantId}`)
}

/** Whether an event of the processor was processed. Without a lock. */
export async function isTaken(db: Db, eventId: string): Promise<boolean> {
  return (await db.one(sql`select 1 from processor_events where id = ${eventId}`)) !== undefined
}

/** Marks an event as processed. @returns false if it was already */
export async function takeEvent(tx: Db, eventId: string, now: Date): Promise<boolean> {
  return (
    (await tx.run(sql`
      insert into processor_events (id, received_at) values (${eventId}, ${now}) on conflict (id) do nothing`)) === 1
  )
}

/** Deletes at most `limit` events that were processed before a time. @returns how many */
export function deleteEvents(db: Db, before: Date, limit: number): Promise<number> {
  return db.run(sql`
    delete from processor_events where id in
      (select id from processor_events where received_at < ${before} order by received_at limit ${limit})`)
}

/** Whether an origin belongs to a tenant: to one of its apps, or to a custom domain that it has verified. */
export async function isOwnOrigin(
  db: Db,
  tenantId: Id<'ten'>,
  origin: string,
  { host, anyLoopback }: { host: string | null; anyLoopback: boolean },
): Promise<boolean> {
  const row = await db.one<{ own: boolean }>(sql`
    select exists (
      select 1 from apps where tenant_id = ${tenantId} and (
        ${origin} = any(allowed_origins) or (${anyLoopback}::boolean and allowed_origins = '{}') or exists (
          select 1 from unnest(allowed_redirect_urls) as u(url) where url = ${origin} or starts_with(url, ${`${origin}/`}))))
    or exists (
      select 1 from custom_domains where tenant_id = ${tenantId} and status = 'verified' and domain = ${host}) as own`)
  return row?.own === true
}

/** A meter of a period. `announced` is the highest threshold that was published. */
export interface MeterRow {
  tenant_id: Id<'ten'>
  meter: Meter
  /** Null for a current figure, which has no period. */
  period_start: Date | null
  used: number
  announced: number
}

/** Something to be added to a meter. */
export type Addition = Pick<MeterRow, 'tenant_id' | 'meter' | 'used'> & { period_start: Date }

/** Adds to meters, at most one addition to each. @returns their new state, locked */
export function addToMeters(tx: Db, additions: readonly Addition[]): Promise<MeterRow[]> {
  // Always in the same order, to avoid deadlocks.
  return tx.query<MeterRow>(sql`
    insert into usage_meters as m (tenant_id, meter, period_start, used)
    select a.* from unnest(
      ${additions.map((one) => one.tenant_id)}::text[], ${additions.map((one) => one.meter)}::text[],
      ${additions.map((one) => one.period_start.toISOString())}::timestamptz[], ${additions.map((one) => one.used)}::bigint[]
    ) as a(tenant_id, meter, period_start, used) order by 1, 2, 3
    on conflict (tenant_id, meter, period_start) do update set used = m.used + excluded.used
    returning m.tenant_id, m.meter, m.period_start, m.used, m.announced`)
}

/** Sets the meter of users from the exact counters that lists show. */
export async function setUsersMeter(tx: Db, tenantId: Id<'ten'>): Promise<MeterRow[]> {
  // Locked before counting: otherwise one that waited here would replace a newer figure with an older one.
  await tx.run(sql`
    insert into usage_meters as m (tenant_id, meter, period_start) values (${tenantId}, 'users', '-infinity')
    on conflict (tenant_id, meter, period_start) do update set used = m.used`)
  return tx.query<MeterRow>(sql`
    update usage_meters set used = (select coalesce(sum(n), 0) from user_counts where tenant_id = ${tenantId})
    where tenant_id = ${tenantId} and meter = 'users' and period_start = '-infinity'
    returning tenant_id, meter, null::timestamptz as period_start, used, announced`)
}

/** A tenant's current figures, and those of the period with this start. */
export function findMeters(db: Db, tenantId: Id<'ten'>, periodStart: Date): Promise<MeterRow[]> {
  return db.query<MeterRow>(sql`
    select tenant_id, meter, nullif(period_start, '-infinity') as period_start, used, announced from usage_meters
    where tenant_id = ${tenantId} and period_start in ('-infinity', ${periodStart})`)
}

/** Stores the highest threshold of a meter that was published. */
export async function setAnnounced(tx: Db, row: MeterRow): Promise<void> {
  await tx.run(sql`
    update usage_meters set announced = ${row.announced}
    where tenant_id = ${row.tenant_id} and meter = ${row.meter}
      and period_start = coalesce(${row.period_start}::timestamptz, '-infinity')`)
}

/** Resets what was announced: under another plan thresholds are published again. @returns the meters of `findMeters` */
export function resetAnnounced(tx: Db, tenantId: Id<'ten'>, periodStart: Date): Promise<MeterRow[]> {
  // In the order in which other statements lock them: those of a period by name, then the users.
  return tx.query<MeterRow>(sql`
    with locked as materialized (
      select meter, period_start from usage_meters
      where tenant_id = ${tenantId} and period_start in ('-infinity', ${periodStart})
      order by period_start = '-infinity', meter for update)
    update usage_meters m set announced = 0 from locked
    where m.tenant_id = ${tenantId} and m.meter = locked.meter and m.period_start = locked.period_start
    returning m.tenant_id, m.meter, nullif(m.period_start, '-infinity') as period_start, m.used, m.announced`)
}
