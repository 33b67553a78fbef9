import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { Guest } from './schema.ts'

/** A row of the table `guests`. */
export interface GuestRow {
  tenant_id: Id<'ten'>
  id: Id<'gst'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  party_id: string
  /** An expired guest stays `active` until the sweep ends it; see `toGuest`. */
  status: Guest['status']
  metadata: Record<string, string>
  expires_at: Date
  created_at: Date
  updated_at: Date
}

/** Whether a guest can no longer act or be converted, even if the sweep has not ended it yet. */
export function isExpired(row: GuestRow, now: Date): boolean {
  return row.status === 'expired' || (row.status === 'active' && row.expires_at <= now)
}

/** A row in its API form. */
export function toGuest(row: GuestRow, now: Date): Guest {
  const status = isExpired(row, now) ? 'expired' : row.status
  return wire({ ...row, status }, 'id user_id party_id app_id status expires_at metadata created_at updated_at')
}

/** Inserts a guest session. Its user exists already. */
export async function insertGuest(tx: Db, row: GuestRow): Promise<void> {
  await tx.run(insertion('guests', row))
}

/** The guests that a caller can access: the tenant's, one app's, or only the guest of one user. */
export interface Reach extends AppScope {
  userId: Id<'usr'> | null
}

const select = (reach: Reach, id: Id<'gst'>) => sql`
  select * from guests
  where ${inScope(reach)} and id = ${id} and (${reach.userId}::text is null or user_id = ${reach.userId})`

/** The guest session, in any state. */
export function findGuest(db: Db, reach: Reach, id: Id<'gst'>): Promise<GuestRow | undefined> {
  return db.one<GuestRow>(select(reach, id))
}

/** The same, locked until the transaction ends. */
export function lockGuest(tx: Db, reach: Reach, id: Id<'gst'>): Promise<GuestRow | undefined> {
  return tx.one<GuestRow>(sql`${select(reach, id)} for update`)
}

/** Stores the status of a guest session. */
export async function setStatus(tx: Db, row: GuestRow): Promise<void> {
  await tx.run(update('guests', row, 'status updated_at'))
}

export interface GuestFilter extends AppScope {
  status: Guest['status'] | null
  now: Date
}

function statusCondition(status: Guest['status'], now: Date): Sql {
  if (status === 'converted') return sql`status = 'converted'`
  if (status === 'active') return sql`(status = 'active' and expires_at > ${now})`
  return sql`(status = 'expired' or (status = 'active' and expires_at <= ${now}))`
}

/** A page of the guest sessions that a filter finds, newest first. */
export function listGuests(db: Db, filter: GuestFilter, query: PageQuery): Promise<Page<Guest>> {
  const { tenantId, appId, status, now } = filter
  const own = matching({ tenant_id: tenantId, app_id: appId })
  const found = status === null ? own : sql`${own} and ${statusCondition(status, now)}`
  return readPage(db, sql`from guests where ${found}`, query, (row: GuestRow) => toGuest(row, now))
}

/** Which active guests to end: those created by `createdUntil` or, if null, the expired ones. */
export interface ExpiryFilter extends AppScope {
  createdUntil: Date | null
  now: Date
}

const doomed = ({ createdUntil, now, ...scope }: ExpiryFilter) => sql`
  status = 'active' and ${inScope(scope)} and ${createdUntil === null ? sql`expires_at <= ${now}` : sql`created_at <= ${createdUntil}`}`

/** How many guests a cleanup would end. */
export function countExpiring(db: Db, which: ExpiryFilter): Promise<number> {
  return db.count(sql`select count(*) as n from guests where ${doomed(which)}`)
}

const expire = (due: Sql, now: Date) => sql`
  with due as (${due})
  update guests g set status = 'expired', updated_at = ${now} from due
  where g.tenant_id = due.tenant_id and g.id = due.id returning g.*`

/** Ends a tenant's guests in the order of their expiry. Waits for running conversions. @returns the guests that this ended */
export function expireMatching(tx: Db, which: ExpiryFilter, limit: number): Promise<GuestRow[]> {
  const due = sql`
    select tenant_id, id from guests where ${doomed(which)} order by expires_at, id limit ${limit} for update`
  return tx.query<GuestRow>(expire(due, which.now))
}

/** Ends expired guests of all tenants, except locked ones. @returns the guests that this ended */
export function expireDue(tx: Db, now: Date, limit: number): Promise<GuestRow[]> {
  const due = sql`
    select tenant_id, id from guests where status = 'active' and expires_at <= ${now}
    order by expires_at, id limit ${limit} for update skip locked`
  return tx.query<GuestRow>(expire(due, now))
}
