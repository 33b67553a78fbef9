import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, failures, pathId } from '../../platform/http/errors.ts'
import { type Call, type Caller, type Page, paging } from '../../platform/http/route.ts'
import { messageOf } from '../engine/content/message.ts'
import { lockLanes, makeLanesDue } from '../engine/lanes.ts'
import { checkType } from '../event-types/service.ts'
import * as store from './delivery-store.ts'
import type { Delivery, DeliveryWithPayload, ListDeliveries } from './schema.ts'
import { findOwnWebhook, recordOfWebhook, WEBHOOK_ERRORS } from './service.ts'

export const DELIVERY_ERRORS = {
  delivery_not_retryable: [
    409,
    'This delivery cannot be retried: it was a test, its event is older than the retention period, or it has had 100 attempts.',
  ],
} as const

const fail = failures({ ...WEBHOOK_ERRORS, ...DELIVERY_ERRORS })

const PURGE_PORTION = 5_000

/** A page of a webhook's deliveries, by default newest first, each with its last ten attempts. @throws not_found */
export async function listDeliveries(
  deps: Deps,
  caller: Caller,
  id: string,
  query: ListDeliveries,
): Promise<Page<Delivery>> {
  const webhook = await findOwnWebhook(deps.db, caller, id)
  if (query.event_type !== undefined) await checkType(deps.db, caller, 'event_type', query.event_type)
  const { page, pageSize, offset } = paging(query)
  const filter = {
    tenantId: caller.tenantId,
    webhookId: webhook.id,
    status: query.status ?? null,
    eventType: query.event_type ?? null,
    sort: query.sort,
  }
  return { ...(await store.listDeliveries(deps.db, filter, offset, pageSize)), page, pageSize }
}

/** The caller's delivery with all its attempts, its event, and the shape of its last attempt. @throws not_found */
export async function findOwnDelivery(db: Db, ref: store.DeliveryRef) {
  return existing(await store.findDelivery(db, { ...ref, id: pathId('dlv', ref.id) }))
}

/** A delivery with what is sent and every attempt. @throws not_found */
export async function getDelivery(
  deps: Deps,
  caller: Caller,
  id: string,
  deliveryId: string,
): Promise<DeliveryWithPayload> {
  const webhook = await findOwnWebhook(deps.db, caller, id)
  const ref = { tenantId: caller.tenantId, webhookId: webhook.id, id: deliveryId }
  const { delivery, body, appId, shape } = await findOwnDelivery(deps.db, ref)
  const sent = shape ?? webhook
  if (body === null) return { ...delivery, format: sent.format, headers: null, payload: null }
  const message = messageOf(sent, { tenantId: caller.tenantId, appId, body })
  return { ...delivery, format: sent.format, headers: message.headers, payload: JSON.parse(message.body) }
}

/**
 * Sends again what has ended, as a new cycle with the same event id and its history kept; what still waits is sent
 * now. Asked for twice at once, it is one cycle. @throws not_found, webhook_disabled, delivery_not_retryable
 */
export async function retryDelivery(deps: Deps, call: Call, id: string, deliveryId: string): Promise<Delivery> {
  const { caller } = call
  const { attempts: seen } = await getDelivery(deps, caller, id, deliveryId)
  return deps.db.tx(async (tx) => {
    const webhook = await findOwnWebhook(tx, caller, id, true)
    if (webhook.status === 'disabled') throw fail('webhook_disabled')
    const ref = { tenantId: caller.tenantId, webhookId: webhook.id, id: deliveryId }
    const lane = { tenant_id: caller.tenantId, lane_id: webhook.id }
    await lockLanes(tx, [lane])
    const { delivery } = await findOwnDelivery(tx, ref)
    // Already sent since it was read, by another retry or the schedule. That counts as this retry.
    if (delivery.attempts.length > seen.length) return delivery
    if (!(await store.restartDelivery(tx, ref))) {
      if (await store.isDone(tx, ref)) throw fail('delivery_not_retryable')
      await store.sendNow(tx, ref)
    }
    await makeLanesDue(tx, [lane])
    await recordOfWebhook(tx, deps, call, webhook, 'webhook.delivery_retried', deliveryId)
    tx.afterCommit(deps.wake.due)
    return (await findOwnDelivery(tx, ref)).delivery
  })
}

/**
 * Starts new cycles for those of these deliveries that are dead letters and may be sent again, in the transaction of a job.
 * @returns their ids
 */
export async function retryDeadLetters(tx: Db, of: store.OfWebhook, ids: readonly string[]): Promise<string[]> {
  const lane = { tenant_id: of.tenantId, lane_id: of.webhookId }
  await lockLanes(tx, [lane])
  const restarted = await store.restartDeadLetters(tx, of, ids)
  if (restarted.length > 0) await makeLanesDue(tx, [lane])
  return restarted
}

/** Deletes a webhook's dead letters. @throws not_found */
export async function purgeDeadLetters(deps: Deps, call: Call, id: string): Promise<{ purged: number }> {
  const { caller } = call
  const webhook = await findOwnWebhook(deps.db, caller, id)
  const of = { tenantId: caller.tenantId, webhookId: webhook.id }
  let purged = 0
  for (;;) {
    const gone = await deps.db.tx(async (tx) => {
      const portion = await store.purgeDeadLetters(tx, of, PURGE_PORTION)
      if (purged === 0 && portion > 0) await recordOfWebhook(tx, deps, call, webhook, 'webhook.dead_letters_purged')
      return portion
    })
    purged += gone
    if (gone < PURGE_PORTION) return { purged }
  }
}
