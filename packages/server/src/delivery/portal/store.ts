import { type Db, sql } from '../../platform/db/db.ts'
import { insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'

/** A row of the table `portal_links`. */
export interface LinkRow {
  tenant_id: Id<'ten'>
  id: Id<'plk'>
  subscriber_id: Id<'sub'>
  hash: Buffer
  origins: string[]
  created_at: Date
  expires_at: Date
}

/** Inserts a link. */
export async function insertLink(tx: Db, row: LinkRow): Promise<void> {
  await tx.run(insertion('portal_links', row))
}

/** The link whose token has this hash, with the app of its subscriber. Undefined once it has expired. */
export function findLink(
  db: Db,
  hash: Buffer,
  now: Date,
): Promise<(Pick<LinkRow, 'tenant_id' | 'subscriber_id' | 'expires_at'> & { app_id: Id<'app'> }) | undefined> {
  return db.one(sql`
    select l.tenant_id, l.subscriber_id, l.expires_at, s.app_id from portal_links l
    join subscribers s on s.tenant_id = l.tenant_id and s.id = l.subscriber_id
    where l.hash = ${hash} and l.expires_at > ${now}`)
}

/** The origins that may embed the page of a link. Also of an expired one: the page then says so. */
export async function findOrigins(db: Db, id: Id<'plk'>): Promise<readonly string[]> {
  const row = await db.one<Pick<LinkRow, 'origins'>>(sql`select origins from portal_links where id = ${id}`)
  return row?.origins ?? []
}

/** Deletes the links of a subscriber. @returns how many had not expired */
export function revokeLinks(tx: Db, tenantId: Id<'ten'>, subscriberId: Id<'sub'>, now: Date): Promise<number> {
  return tx.count(sql`
    with gone as (delete from portal_links where tenant_id = ${tenantId} and subscriber_id = ${subscriberId} returning expires_at)
    select count(*) as n from gone where expires_at > ${now}`)
}

const LINKS_A_DELETION = 5_000

/** Deletes a portion of the links that expired more than a day ago. @returns whether there may be more */
export async function deleteOldLinks(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from portal_links where (tenant_id, id) in (
      select tenant_id, id from portal_links where expires_at < now() - interval '24 hours' limit ${LINKS_A_DELETION})`)
  return gone === LINKS_A_DELETION
}
