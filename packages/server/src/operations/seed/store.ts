import { COUNTERS, type Day, WHOLE_TENANT } from '../../insight/analytics/counters.ts'
import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { MARK } from './mark.ts'

/** Whether this database has a marked app: one that a service has just made is in that service's own database alone. */
export async function hasApp(db: Db, tenantId: Id<'ten'>, id: string): Promise<boolean> {
  const found = await db.one(sql`
    select 1 from apps where tenant_id = ${tenantId} and id = ${id} and metadata ->> ${MARK} = '1'`)
  return found !== undefined
}

/** Says of marked users that they came at other times than they did; earlier ones only. */
export async function backdateUsers(
  db: Db,
  tenantId: Id<'ten'>,
  users: readonly { id: string; createdAt: Date }[],
): Promise<void> {
  await db.run(sql`
    update users u set created_at = least(u.created_at, t.at)
    from unnest(${users.map(({ id }) => id)}::text[], ${users.map(({ createdAt }) => createdAt)}::timestamptz[]) as t(id, at)
    where u.tenant_id = ${tenantId} and u.id = t.id and u.metadata ->> ${MARK} = '1'`)
}

const column = (name: string): Sql => ({ text: name, values: [], name: '' })

/**
 * Deletes an app's counters of the days before one, and takes them off the whole tenant's.
 * @returns how many days there were
 */
export function subtractDaysBefore(db: Db, tenantId: Id<'ten'>, appId: string, before: Day): Promise<number> {
  const less = COUNTERS.map((name) => column(`${name} = greatest(0, a.${name} - g.${name})`))
  const assignments = less.reduce((all, one) => sql`${all}, ${one}`)
  return db.tx(async (tx) => {
    // In the order in which everyone locks them.
    await tx.run(sql`
      select 1 from analytics_daily where tenant_id = ${tenantId} and app_id in (${WHOLE_TENANT}, ${appId}) and day < ${before}::date
      order by app_id, day for update`)
    await tx.run(sql`
      update analytics_daily a set ${assignments} from analytics_daily g
      where g.tenant_id = ${tenantId} and g.app_id = ${appId} and g.day < ${before}::date
        and a.tenant_id = ${tenantId} and a.app_id = ${WHOLE_TENANT} and a.day = g.day`)
    return tx.run(sql`
      delete from analytics_daily where tenant_id = ${tenantId} and app_id = ${appId} and day < ${before}::date`)
  })
}

/** Deletes marked API keys that are revoked, which the API has no way to. @returns how many */
export function forgetKeys(db: Db, tenantId: Id<'ten'>): Promise<number> {
  return db.run(sql`
    delete from api_keys where tenant_id = ${tenantId} and revoked_at is not null and metadata ->> ${MARK} = '1'`)
}

/** Deletes a marked API key, which counts nowhere a second later, whatever its state. */
export async function dropKey(db: Db, tenantId: Id<'ten'>, id: string): Promise<void> {
  await db.tx(async (tx) => {
    await tx.run(sql`delete from api_keys where tenant_id = ${tenantId} and id = ${id} and metadata ->> ${MARK} = '1'`)
    await raiseAuthEpoch(tx)
  })
}
