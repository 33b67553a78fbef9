import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { ListSubscribers, Subscriber } from './schema.ts'

/** A row of the table `subscribers`. */
export interface SubscriberRow {
  tenant_id: Id<'ten'>
  id: Id<'sub'>
  app_id: Id<'app'>
  external_id: string
  name: string | null
  metadata: Record<string, string>
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toSubscriber(row: SubscriberRow): Subscriber {
  return wire(row, 'id app_id external_id name metadata created_at updated_at')
}

/** Inserts a subscriber. @throws the violation of subscribers_external_id, or of subscribers_app_fk */
export async function insertSubscriber(db: Db, row: SubscriberRow): Promise<void> {
  await db.run(insertion('subscribers', row))
}

const select = (scope: AppScope, id: Id<'sub'>) => sql`select * from subscribers where ${inScope(scope)} and id = ${id}`

/** The subscriber. In the scope of an app, undefined for every other app's. */
export function findSubscriber(db: Db, scope: AppScope, id: Id<'sub'>): Promise<SubscriberRow | undefined> {
  return db.one<SubscriberRow>(select(scope, id))
}

/** The same, locked against other changes and new webhooks until the transaction ends. */
export function lockSubscriber(tx: Db, scope: AppScope, id: Id<'sub'>): Promise<SubscriberRow | undefined> {
  return tx.one<SubscriberRow>(sql`${select(scope, id)} for update`)
}

/** A page of subscribers, newest first. */
export function listSubscribers(db: Db, scope: AppScope, query: ListSubscribers): Promise<Page<Subscriber>> {
  const found = matching({ tenant_id: scope.tenantId, app_id: scope.appId, external_id: query.external_id })
  return readPage(db, sql`from subscribers where ${found}`, query, toSubscriber)
}

/** Stores what PATCH can change. @throws the violation of subscribers_external_id */
export async function updateSubscriber(tx: Db, row: SubscriberRow): Promise<void> {
  await tx.run(update('subscribers', row, 'external_id name metadata updated_at'))
}

/** Deletes a subscriber, with the links to its portal. */
export async function deleteSubscriber(tx: Db, { tenant_id, id }: SubscriberRow): Promise<void> {
  await tx.run(sql`delete from subscribers where tenant_id = ${tenant_id} and id = ${id}`)
}

/** The ids and apps of those of these subscribers that exist. */
export function findApps(
  db: Db,
  tenantId: Id<'ten'>,
  ids: readonly string[],
): Promise<Pick<SubscriberRow, 'id' | 'app_id'>[]> {
  return db.query(sql`select id, app_id from subscribers where tenant_id = ${tenantId} and id = any(${ids}::text[])`)
}
