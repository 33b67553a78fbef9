import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, json, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { type RecentAttempts, recentAttempts } from '../engine/health/recent.ts'
import { lockLanes, testLaneId } from '../engine/lanes.ts'
import { NO_OPTIONS, type ShownOptions } from './options/schema.ts'
import type { Webhook } from './schema.ts'

/** A webhook as the table holds it. */
export interface WebhookRow {
  tenant_id: Id<'ten'>
  id: Id<'wh'>
  app_id: Id<'app'> | null
  /** The subscriber whose events alone it gets; null for a webhook of the tenant. */
  subscriber_id: Id<'sub'> | null
  include_subscribers: boolean
  url: string
  events: string[]
  filter: Record<string, unknown> | null
  /** Counts the changes of `filter`. */
  filter_version: number
  format: Webhook['format']
  payload: Webhook['payload']
  description: string | null
  status: Webhook['status']
  disabled_reason: string | null
  secret_sealed: Buffer
  secret_last4: string
  previous_secret_sealed: Buffer | null
  previous_secret_until: Date | null
  options: ShownOptions | null
  options_sealed: Buffer | null
  metadata: Record<string, string>
  created_at: Date
  updated_at: Date
}

function healthOf({ attempts, failed }: RecentAttempts): Webhook['health'] {
  return { attempts, failed, state: attempts === 0 ? 'idle' : failed * 2 >= attempts ? 'failing' : 'ok' }
}

const NO_ATTEMPTS: RecentAttempts = { attempts: 0, failed: 0 }

/** A row as the API returns it, without secrets. */
export function toWebhook(row: WebhookRow, recent: RecentAttempts = NO_ATTEMPTS): Webhook {
  const shown = wire(
    row,
    'id url events filter format payload description status disabled_reason secret_last4 previous_secret_until app_id subscriber_id include_subscribers metadata created_at updated_at',
  )
  return { ...shown, health: healthOf(recent), ...NO_OPTIONS, ...row.options }
}

/** The same with its recent attempts. */
export async function readWebhook(db: Db, row: WebhookRow): Promise<Webhook> {
  return toWebhook(row, (await recentAttempts(db, row.tenant_id, [row.id])).get(row.id))
}

const stored = (row: WebhookRow) => ({ ...row, filter: json(row.filter) })

/** Writes a webhook and its lane. */
export async function insertWebhook(db: Db, row: WebhookRow): Promise<void> {
  await db.run(sql`
    with lane as (insert into lanes (tenant_id, id, webhook_id) values (${row.tenant_id}, ${row.id}, ${row.id}))
    ${insertion('webhooks', stored(row))}`)
}

/** Webhooks of a tenant, of an app or, with `subscriberId`, of that subscriber only: what a caller sees. */
export interface WebhookScope extends AppScope {
  subscriberId?: Id<'sub'>
}

/** The webhook, unless it is deleted; locked until the transaction ends with `lock`. */
export function findWebhook(db: Db, scope: WebhookScope, id: string, lock = false): Promise<WebhookRow | undefined> {
  const ofSubscriber = matching({ subscriber_id: scope.subscriberId })
  return db.one<WebhookRow>(sql`
    select * from webhooks where ${inScope(scope)} and ${ofSubscriber} and id = ${id} and deleted_at is null
    ${lock ? sql`for no key update` : sql``}`)
}

/** The number of a tenant's own webhooks or, with `subscriberId`, of a subscriber's. Counts at most `most`. */
export function countWebhooks(
  db: Db,
  { tenantId, subscriberId }: Pick<WebhookScope, 'tenantId'> & { subscriberId: Id<'sub'> | null },
  most: number,
): Promise<number> {
  const owner = subscriberId === null ? sql`subscriber_id is null` : sql`subscriber_id = ${subscriberId}`
  return db.count(sql`
    select count(*) as n from (
      select from webhooks where tenant_id = ${tenantId} and ${owner} and deleted_at is null limit ${most}) w`)
}

/** A page of webhooks, newest first. */
export async function listWebhooks(
  db: Db,
  { tenantId, appId, subscriberId }: WebhookScope,
  status: Webhook['status'] | undefined,
  query: PageQuery,
): Promise<Page<Webhook>> {
  const found = matching({ tenant_id: tenantId, app_id: appId, subscriber_id: subscriberId, status })
  const page = await readPage(
    db,
    sql`from webhooks where ${found} and deleted_at is null`,
    query,
    (row: WebhookRow) => row,
  )
  const ids = page.items.map(({ id }) => id)
  const recent = await recentAttempts(db, tenantId, ids)
  return { ...page, items: page.items.map((row) => toWebhook(row, recent.get(row.id))) }
}

/** Stores what PATCH and rotate can change. */
export async function updateWebhook(tx: Db, row: WebhookRow): Promise<void> {
  const columns = `url events filter filter_version format payload description status disabled_reason secret_sealed secret_last4 previous_secret_sealed
    previous_secret_until options options_sealed include_subscribers metadata updated_at`
  await tx.run(update('webhooks', stored(row), columns))
}

/** Holds a webhook's lane, or releases it and makes it due, with its health reset. */
export async function pauseLane(tx: Db, row: Pick<WebhookRow, 'tenant_id' | 'id'>, held: boolean): Promise<void> {
  await tx.run(
    held
      ? sql`update lanes set held = true where tenant_id = ${row.tenant_id} and id = ${row.id}`
      : sql`
        update lanes set held = false, due_at = now(), floor_at = '-infinity', saturated = false, failing_since = null, timeouts = 0
        where tenant_id = ${row.tenant_id} and id = ${row.id}`,
  )
}

/** Marks a webhook deleted and stops its lanes; the engine cancels what is pending and then removes the row. */
export async function markDeleted(tx: Db, row: Pick<WebhookRow, 'tenant_id' | 'id'>, now: Date): Promise<void> {
  // Both lanes, locked in the same order as when outcomes of both are stored.
  const lanes = [row.id, testLaneId(row.id)]
  await lockLanes(
    tx,
    lanes.map((lane_id) => ({ tenant_id: row.tenant_id, lane_id })),
  )
  await tx.run(sql`update lanes set held = true where tenant_id = ${row.tenant_id} and id = any(${lanes}::text[])`)
  await tx.run(
    sql`update webhooks set deleted_at = ${now}, updated_at = ${now} where tenant_id = ${row.tenant_id} and id = ${row.id}`,
  )
}

/** The webhooks of a subscriber, locked with all their lanes until the transaction ends. */
export async function lockWebhooksOfSubscriber(
  tx: Db,
  tenantId: Id<'ten'>,
  subscriberId: Id<'sub'>,
): Promise<WebhookRow[]> {
  const rows = await tx.query<WebhookRow>(sql`
    select * from webhooks where tenant_id = ${tenantId} and subscriber_id = ${subscriberId} and deleted_at is null
    order by id for no key update`)
  const lanes = rows.flatMap(({ id }) => [id, testLaneId(id)])
  await lockLanes(
    tx,
    lanes.map((lane_id) => ({ tenant_id: tenantId, lane_id })),
  )
  return rows
}

/** Marks an app's webhooks as deleted; the engine cancels what is still to be delivered to them. */
export async function deleteWebhooksOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>, now: Date): Promise<void> {
  await tx.run(sql`
    update webhooks set deleted_at = ${now}, updated_at = ${now}
    where tenant_id = ${tenantId} and app_id = ${appId} and deleted_at is null`)
}

/** Pauses the lanes of an app's webhooks, locked in the order in which everyone locks several. */
export async function pauseLanesOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<void> {
  await tx.run(sql`
    with mine as (
      select l.id from lanes l join webhooks w on w.tenant_id = l.tenant_id and w.id = l.webhook_id
      where l.tenant_id = ${tenantId} and w.app_id = ${appId} and not l.held order by l.id for update of l)
    update lanes l set held = true from mine where l.tenant_id = ${tenantId} and l.id = mine.id`)
}
