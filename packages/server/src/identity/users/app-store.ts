import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** Locks an app's users until the transaction ends. */
export async function lockUsersOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`select from users where tenant_id = ${tenantId} and app_id = ${appId} order by id for update`)
}

/**
 * Deletes an app's users, guests included, and what hangs on them; marks the events that know their emails for erasure.
 * Their counts stay: see `cancelCounts`.
 */
export async function deleteUsersOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`
    with gone as (
      delete from users where tenant_id = ${tenantId} and app_id = ${appId} returning tenant_id, created_event_id)
    insert into erasures (tenant_id, event_id)
    select tenant_id, created_event_id from gone where created_event_id is not null on conflict do nothing`)
}

/**
 * Brings an app's counts to a sum of zero by further rows. To delete them here could wait for the creation of a user,
 * which holds one and itself waits for the app: a deadlock.
 */
export async function cancelCounts(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`
    insert into user_counts (tenant_id, app_id, trust_level, shard, n)
    select tenant_id, app_id, trust_level, -1, -sum(n) from user_counts where tenant_id = ${tenantId} and app_id = ${appId}
    group by tenant_id, app_id, trust_level`)
}

/** Deletes the counts of a deleted app. Their sum is zero, so no list shows when this happens. */
export async function deleteCounts(db: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await db.run(sql`delete from user_counts where tenant_id = ${tenantId} and app_id = ${appId}`)
}
