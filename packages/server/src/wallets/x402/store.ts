import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** A payment that is settled. */
interface Settled {
  tenantId: Id<'ten'>
  updateId: string
  now: Date
  expiresAt: Date
}

/** Uses up a payment: of concurrent calls one is the first. @returns whether this one is */
export async function useUp(tx: Db, { tenantId, updateId, now, expiresAt }: Settled): Promise<boolean> {
  const used = await tx.run(sql`
    insert into payment_settlements (tenant_id, update_id, settled_at, expires_at)
    values (${tenantId}, ${updateId}, ${now}, ${expiresAt}) on conflict do nothing`)
  return used === 1
}

/** Whether a payment was settled. */
export async function isUsed(db: Db, tenantId: Id<'ten'>, updateId: string): Promise<boolean> {
  const row = await db.one(sql`
    select from payment_settlements where tenant_id = ${tenantId} and update_id = ${updateId}`)
  return row !== undefined
}

const DELETED_AT_ONCE = 5_000

/** Deletes a portion of the settlements that expired before. @returns whether there may be more */
export async function deleteExpired(db: Db, before: Date): Promise<boolean> {
  const gone = await db.run(sql`
    delete from payment_settlements where (tenant_id, update_id) in (
      select tenant_id, update_id from payment_settlements where expires_at < ${before} limit ${DELETED_AT_ONCE})`)
  return gone === DELETED_AT_ONCE
}
