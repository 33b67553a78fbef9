import type { Db } from '../core/db.ts'
import type { Deps } from '../core/deps.ts'
import { failures, invalid } from '../core/errors.ts'
import { EVENT_CATALOGUE, type EventType } from '../core/event-catalogue.ts'
import { newEvent } from '../core/events.ts'
import { type Caller, type Origin, type Page, paging } from '../core/http.ts'
import { type Id, idTime, isId, newId } from '../core/ids.ts'
import { createJob, type Job, type JobStep, stepJob } from '../core/jobs.ts'
import * as store from './delivery-store.ts'
import { lockLanes, makeLanesDue } from './engine/lanes.ts'
import type { Delivery } from './schema.ts'
import { findOwnWebhook, lockOwnWebhook, WEBHOOK_ERRORS } from './service.ts'

export const DELIVERY_ERRORS = {
  delivery_not_retryable: [409, 'This delivery cannot be retried: it was a test, or its event is past its retention.'],
} as const

const fail = failures({ ...WEBHOOK_ERRORS, ...DELIVERY_ERRORS })

const TEST_WAIT_MS = 10_000
const TEST_POLL_MS = 25
const PURGE_PORTION = 5_000
const RECOVER_PORTION = 500
const RECOVER_JOB = 'webhook.recover'

/** A page of a webhook's deliveries, newest first. @throws not_found */
export async function listDeliveries(
  deps: Deps,
  caller: Caller,
  id: string,
  query: {
    page?: string | undefined
    page_size?: string | undefined
    status?: Delivery['status'] | undefined
    event_type?: string | undefined
  },
): Promise<Page<Delivery>> {
  const webhook = await findOwnWebhook(deps, caller, id)
  const { page, pageSize, offset } = paging(query)
  const filter = {
    tenantId: caller.tenantId,
    webhookId: webhook.id,
    status: query.status ?? null,
    eventType: query.event_type ?? null,
  }
  return { ...(await store.listDeliveries(deps.db, filter, offset, pageSize)), page, pageSize }
}

async function findOwnDelivery(deps: Deps, caller: Caller, webhookId: Id<'wh'>, deliveryId: string) {
  const found = isId('dlv', deliveryId)
    ? await store.findDelivery(deps.db, caller.tenantId, webhookId, deliveryId)
    : undefined
  if (found === undefined) throw fail('not_found')
  return found
}

/** A delivery with what is sent and every attempt. @throws not_found */
export async function getDelivery(
  deps: Deps,
  caller: Caller,
  id: string,
  deliveryId: string,
): Promise<Delivery & { payload: unknown }> {
  const webhook = await findOwnWebhook(deps, caller, id)
  const { delivery, body } = await findOwnDelivery(deps, caller, webhook.id, deliveryId)
  return { ...delivery, payload: body === null ? null : JSON.parse(body) }
}

/**
 * Sends again what has ended, as a new cycle with the same event id and its history kept; what still waits is sent
 * now. Asked for twice at once, it is one cycle. @throws not_found, webhook_disabled, delivery_not_retryable
 */
export async function retryDelivery(deps: Deps, caller: Caller, id: string, deliveryId: string): Promise<Delivery> {
  const { attempts: seen } = await getDelivery(deps, caller, id, deliveryId)
  return deps.db.tx(async (tx) => {
    const webhook = await lockOwnWebhook(tx, caller, id)
    if (webhook.status === 'disabled') throw fail('webhook_disabled')
    const inTx = { ...deps, db: tx }
    const own = [caller.tenantId, webhook.id, deliveryId] as const
    const lane = { tenantId: caller.tenantId, laneId: webhook.id }
    await lockLanes(tx, [lane])
    const { delivery } = await findOwnDelivery(inTx, caller, webhook.id, deliveryId)
    // Sent since this caller looked, at another's wish or by the schedule: that was the one asked for.
    if (delivery.attempts.length > seen.length) return delivery
    if (!(await store.restartDelivery(tx, ...own))) {
      if (await store.isDone(tx, ...own)) throw fail('delivery_not_retryable')
      await store.hastenDelivery(tx, ...own)
    }
    await makeLanesDue(tx, [{ ...lane, inMs: 0 }])
    tx.afterCommit(deps.wake.due)
    return (await findOwnDelivery(inTx, caller, webhook.id, deliveryId)).delivery
  })
}

/** Deletes a webhook's dead letters. @throws not_found */
export async function purgeDeadLetters(deps: Deps, caller: Caller, id: string): Promise<{ purged: number }> {
  const webhook = await findOwnWebhook(deps, caller, id)
  let purged = 0
  for (;;) {
    const gone = await store.purgeDeadLetters(deps.db, caller.tenantId, webhook.id, PURGE_PORTION)
    purged += gone
    if (gone < PURGE_PORTION) return { purged }
  }
}

/** Begins a job that sends every dead letter since a time again. @throws not_found, webhook_disabled */
export async function recoverDeadLetters(deps: Deps, caller: Caller, id: string, since: string): Promise<Job> {
  const sinceMs = Date.parse(since)
  if (sinceMs > deps.now().getTime()) throw invalid('since', 'Must not lie in the future.', 'in_the_future')
  return deps.db.tx(async (tx) => {
    const webhook = await lockOwnWebhook(tx, caller, id)
    if (webhook.status === 'disabled') throw fail('webhook_disabled')
    const afterId = `dlv_${idTime(Math.max(0, sinceMs))}`
    const total = await store.countDeadLetters(tx, caller.tenantId, webhook.id, afterId)
    // Up to now: what this job's own cycles bury again is not dug up by it.
    const untilId = `dlv_${idTime(deps.now().getTime() + 1)}`
    tx.afterCommit(deps.wake.due)
    return createJob(tx, deps.now(), {
      tenantId: caller.tenantId,
      appId: webhook.app_id,
      type: RECOVER_JOB,
      total,
      state: { webhookId: webhook.id, afterId, untilId },
    })
  })
}

/** One portion of the oldest recover job. @returns whether there was one */
export function stepRecovery(db: Db): Promise<boolean> {
  return stepJob(db, RECOVER_JOB, async (tx, job): Promise<JobStep> => {
    const { webhookId, afterId, untilId } = job.state as { webhookId: Id<'wh'>; afterId: string; untilId: string }
    const lane = { tenantId: job.tenantId, laneId: webhookId }
    await lockLanes(tx, [lane])
    const ids = await store.restartDeadLetters(tx, job.tenantId, webhookId, afterId, untilId, RECOVER_PORTION)
    if (ids.length > 0) await makeLanesDue(tx, [{ ...lane, inMs: 0 }])
    return {
      progress: ids.length,
      state: { webhookId, afterId: ids.at(-1) ?? afterId, untilId },
      done: ids.length < RECOVER_PORTION,
    }
  })
}

/** The first half of a test: the event and its delivery, committed. @throws not_found */
export async function queueTest(
  deps: Deps,
  caller: Caller,
  origin: Origin,
  id: string,
  eventType: EventType,
): Promise<{ webhookId: Id<'wh'>; deliveryId: Id<'dlv'> }> {
  return deps.db.tx(async (tx) => {
    const webhook = await lockOwnWebhook(tx, caller, id)
    const data =
      eventType === 'webhook.test'
        ? { ...EVENT_CATALOGUE['webhook.test'].data, webhookId: webhook.id }
        : EVENT_CATALOGUE[eventType].data
    const event = newEvent(deps.now(), {
      tenantId: caller.tenantId,
      appId: webhook.app_id,
      type: eventType,
      data,
      cause: { caller, origin },
    })
    const deliveryId = newId('dlv')
    await store.insertTestDelivery(tx, webhook.id, deliveryId, event)
    tx.afterCommit(deps.wake.due)
    return { webhookId: webhook.id, deliveryId }
  })
}

/** The second half: waits until the attempt has ended, at most 10 s, and answers the delivery as it then is. */
export async function awaitTest(
  deps: Deps,
  caller: Caller,
  queued: { webhookId: Id<'wh'>; deliveryId: Id<'dlv'> },
): Promise<Delivery> {
  const deadline = performance.now() + TEST_WAIT_MS
  while (
    performance.now() < deadline &&
    !(await store.isDone(deps.db, caller.tenantId, queued.webhookId, queued.deliveryId))
  ) {
    await new Promise((resolve) => setTimeout(resolve, TEST_POLL_MS))
  }
  return (await findOwnDelivery(deps, caller, queued.webhookId, queued.deliveryId)).delivery
}
