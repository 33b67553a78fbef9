import { type Db, sql } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'

/** The image; undefined without one. */
export async function findLogo(db: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<Buffer | undefined> {
  const row = await db.one<{ png: Buffer }>(
    sql`select png from app_logos where tenant_id = ${tenantId} and app_id = ${appId}`,
  )
  return row?.png
}

export async function setLogo(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>, png: Buffer): Promise<void> {
  await tx.run(sql`
    insert into app_logos (tenant_id, app_id, png) values (${tenantId}, ${appId}, ${png})
    on conflict (tenant_id, app_id) do update set png = excluded.png`)
}

export async function deleteLogo(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`delete from app_logos where tenant_id = ${tenantId} and app_id = ${appId}`)
}
