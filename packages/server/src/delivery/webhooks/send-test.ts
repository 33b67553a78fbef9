import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { EVENT_CATALOGUE, isCatalogued } from '../../platform/events/event-catalogue.ts'
import { newEvent } from '../../platform/events/events.ts'
import { fail } from '../../platform/http/errors.ts'
import type { Caller, Origin } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { exampleOf } from '../event-types/service.ts'
import { findOwnDelivery } from './deliveries.ts'
import * as store from './delivery-store.ts'
import type { Delivery } from './schema.ts'
import { findOwnWebhook } from './service.ts'
import type { WebhookRow } from './store.ts'

const OPEN_TESTS_MAX = 10
const RETRY_AFTER_SECONDS = '10'
const WAIT_MS = 10_000
const POLL_MIN_MS = 25
const POLL_MAX_MS = 250
const WAITERS_MAX = 50

/** A test delivery that was queued: where to find it. */
export interface QueuedTest extends Record<string, unknown> {
  webhookId: Id<'wh'>
  deliveryId: Id<'dlv'>
}

async function dataOf(tx: Db, webhook: WebhookRow, eventType: string): Promise<Record<string, unknown>> {
  if (eventType === 'webhook.test') return { ...EVENT_CATALOGUE['webhook.test'].data, webhookId: webhook.id }
  // Halfkey's own events never reach a subscriber, not even as examples.
  if (isCatalogued(eventType) && webhook.subscriber_id === null) return EVENT_CATALOGUE[eventType].data
  return exampleOf(tx, { tenantId: webhook.tenant_id, appId: webhook.app_id }, 'eventType', eventType)
}

/** The first half of a test: the event and its delivery, committed. @throws not_found, rate_limited, validation_failed */
export async function queueTest(
  deps: Deps,
  caller: Caller,
  origin: Origin,
  id: string,
  eventType: string,
): Promise<QueuedTest> {
  return deps.db.tx(async (tx) => {
    const webhook = await findOwnWebhook(tx, caller, id, true)
    if ((await store.countOpenTests(tx, { tenantId: caller.tenantId, webhookId: webhook.id })) >= OPEN_TESTS_MAX) {
      const message = `This webhook has ${OPEN_TESTS_MAX} unfinished test events. Wait until one has ended.`
      throw fail('rate_limited', [{ code: 'too_many_tests', message }], { 'retry-after': RETRY_AFTER_SECONDS })
    }
    const data = await dataOf(tx, webhook, eventType)
    const event = newEvent(deps.now(), {
      tenantId: caller.tenantId,
      appId: webhook.app_id,
      subscriberId: webhook.subscriber_id,
      type: eventType,
      data,
      cause: { caller, origin },
    })
    // Starts with the time of its event, like the id of every delivery.
    const deliveryId: Id<'dlv'> = `dlv_${event.id.slice(4)}`
    await store.insertTestDelivery(tx, webhook.id, deliveryId, event)
    tx.afterCommit(deps.wake.due)
    return { webhookId: webhook.id, deliveryId }
  })
}

/**
 * How many calls of each tenant wait in this process, those of all its subscribers apart: they do not crowd out the tenant's.
 * A tenant without any has no entry.
 */
const waiting = new Map<string, number>()

async function untilDone(db: Db, ref: store.DeliveryRef): Promise<void> {
  const deadline = performance.now() + WAIT_MS
  for (let pauseMs = POLL_MIN_MS; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MAX_MS)) {
    if (await store.isDone(db, ref)) return
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) return
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, leftMs)))
  }
}

/**
 * The second half: waits until the attempt has ended, at most 10 s, and answers the delivery as it then is. Past 50 calls
 * of a tenant that wait in this process it answers at once.
 */
export async function awaitTest(deps: Deps, caller: Caller, queued: QueuedTest): Promise<Delivery> {
  const { tenantId, subscriberId } = caller
  const ref = { tenantId, webhookId: queued.webhookId, id: queued.deliveryId }
  const who = subscriberId === undefined ? tenantId : `${tenantId} subscribers`
  const others = waiting.get(who) ?? 0
  if (others < WAITERS_MAX) {
    waiting.set(who, others + 1)
    try {
      await untilDone(deps.db, ref)
    } finally {
      const left = (waiting.get(who) ?? 1) - 1
      if (left > 0) waiting.set(who, left)
      else waiting.delete(who)
    }
  }
  return (await findOwnDelivery(deps.db, ref)).delivery
}
