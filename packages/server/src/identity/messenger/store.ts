import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** Uses up a payload. Of concurrent calls, only one succeeds. @returns whether it was unused */
export async function usePayload(
  tx: Db,
  payload: { tenantId: Id<'ten'>; hash: Buffer; expiresAt: Date },
): Promise<boolean> {
  const added = await tx.run(sql`
    insert into messenger_payloads (tenant_id, hash, expires_at)
    values (${payload.tenantId}, ${payload.hash}, ${payload.expiresAt}) on conflict do nothing`)
  return added === 1
}

const PAYLOADS_A_DELETION = 5_000

/** Deletes a portion of the used payloads that are too old to be accepted. @returns whether there may be more */
export async function deleteOldPayloads(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from messenger_payloads where (tenant_id, hash) in (
      select tenant_id, hash from messenger_payloads where expires_at < now() limit ${PAYLOADS_A_DELETION})`)
  return gone === PAYLOADS_A_DELETION
}
