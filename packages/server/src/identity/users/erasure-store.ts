import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import { deleteChallengesOfUser } from '../../platform/security/challenges.ts'

/** The user to erase. */
interface ErasedUser {
  tenant_id: Id<'ten'>
  id: Id<'usr'>
  created_event_id: Id<'evt'> | null
}

/**
 * Deletes a user's data in tables without a cascade: challenges, including those of the sign-up. Marks their `user.created`
 * for `blankEvents`. Call it before the row is deleted.
 */
export async function eraseTraces(tx: Db, { tenant_id, id, created_event_id }: ErasedUser): Promise<void> {
  await deleteChallengesOfUser(tx, tenant_id, id)
  if (created_event_id === null) return
  await tx.run(sql`
    insert into erasures (tenant_id, event_id) values (${tenant_id}, ${created_event_id}) on conflict do nothing`)
}

/** An event whose email is to be removed. */
export interface ErasedEvent {
  tenant_id: Id<'ten'>
  event_id: Id<'evt'>
  /** Null after the retention period. */
  body: string | null
  /** Whether a delivery of it is still to be sent. */
  pending: boolean
}

const keysOf = (rows: readonly Pick<ErasedEvent, 'tenant_id' | 'event_id'>[]) => sql`unnest(
  ${rows.map((row) => row.tenant_id)}::text[], ${rows.map((row) => row.event_id)}::text[]) as t(tenant_id, event_id)`

/**
 * Locks the events that are due, longest due first. Until the transaction ends, no other process takes them, and no delivery
 * of them is restarted.
 */
export async function takeErasures(tx: Db, limit: number): Promise<ErasedEvent[]> {
  const taken = await tx.query<{ tenant_id: Id<'ten'>; event_id: Id<'evt'> }>(sql`
    select tenant_id, event_id from erasures where due_at <= now() order by due_at limit ${limit} for update skip locked`)
  if (taken.length === 0) return []
  const keys = keysOf(taken)
  await tx.run(sql`
    select from ${keys} join events e on e.tenant_id = t.tenant_id and e.id = t.event_id order by e.tenant_id, e.id for update of e`)
  // A second statement, because it sees what was committed while the first one waited for the locks.
  return tx.query<ErasedEvent>(sql`
    with t as materialized (select * from ${keys}),
    open as materialized (
      select tenant_id, event_id from outbox where (tenant_id, event_id) in (select * from t)
      union select tenant_id, event_id from deliveries where (tenant_id, event_id) in (select * from t))
    select t.tenant_id, t.event_id, e.body, o.event_id is not null as pending
    from t left join events e on e.tenant_id = t.tenant_id and e.id = t.event_id
    left join open o on o.tenant_id = t.tenant_id and o.event_id = t.event_id`)
}

/** Postpones events by as long as they have waited already: by at least a minute and at most an hour. */
export async function postponeErasures(tx: Db, events: readonly ErasedEvent[]): Promise<void> {
  if (events.length === 0) return
  await tx.run(sql`
    update erasures e set due_at = now() + least(greatest(now() - e.noted_at, interval '1 minute'), interval '1 hour')
    from ${keysOf(events)} where e.tenant_id = t.tenant_id and e.event_id = t.event_id`)
}

/** Replaces the bodies of events, and deletes the receivers' responses to those that became dead letters. */
export async function blankEvents(tx: Db, events: readonly (ErasedEvent & { blank: string | null })[]): Promise<void> {
  if (events.length === 0) return
  const rows = sql`unnest(${events.map((row) => row.tenant_id)}::text[], ${events.map((row) => row.event_id)}::text[],
    ${events.map((row) => row.blank)}::text[]) as t(tenant_id, event_id, blank)`
  await tx.run(sql`
    update events e set body = t.blank from ${rows} where e.tenant_id = t.tenant_id and e.id = t.event_id and t.blank is not null`)
  await tx.run(sql`
    update attempts a set response_snippet = null from ${rows}
    join deliveries_done d on d.tenant_id = t.tenant_id and d.event_id = t.event_id and d.status = 'dead_letter'
    where a.tenant_id = d.tenant_id and a.delivery_id = d.id and a.response_snippet is not null`)
  await tx.run(sql`
    delete from erasures e using ${rows} where e.tenant_id = t.tenant_id and e.event_id = t.event_id`)
}

/** Locks an app's users until the transaction ends. */
export async function lockUsersOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`select from users where tenant_id = ${tenantId} and app_id = ${appId} order by id for update`)
}

/**
 * Deletes an app's users and guests with everything that belongs to them. Marks the events that contain their emails for
 * erasure. Their counts stay: see `cancelCounts`.
 */
export async function deleteUsersOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`
    with gone as (
      delete from users where tenant_id = ${tenantId} and app_id = ${appId} returning tenant_id, created_event_id)
    insert into erasures (tenant_id, event_id)
    select tenant_id, created_event_id from gone where created_event_id is not null on conflict do nothing`)
}

/**
 * Inserts rows that bring the sum of an app's counts to zero. Deleting the counts here could deadlock: the creation of a user
 * locks one of them and waits for the app.
 */
export async function cancelCounts(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`
    insert into user_counts (tenant_id, app_id, trust_level, shard, n)
    select tenant_id, app_id, trust_level, -1, -sum(n) from user_counts where tenant_id = ${tenantId} and app_id = ${appId}
    group by tenant_id, app_id, trust_level`)
}

/** Deletes the counts of a deleted app. Their sum is zero, so lists do not change. */
export async function deleteCounts(db: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await db.run(sql`delete from user_counts where tenant_id = ${tenantId} and app_id = ${appId}`)
}
