import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { createJob, type Job, type JobStep, stepJob } from '../../platform/events/jobs.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { Logger } from '../../platform/observability/log.ts'
import { checkType } from '../event-types/service.ts'
import type { JobFailure } from '../jobs/schema.ts'
import { DELIVERY_ERRORS, retryDeadLetters } from './deliveries.ts'
import * as deliveries from './delivery-store.ts'
import { type AskedFor, firstIdSince, idAfterNow } from './recover.ts'
import type { StartDeliveriesBulk } from './schema.ts'
import { findOwnWebhook, recordOfWebhook, WEBHOOK_ERRORS } from './service.ts'
import { findWebhook } from './store.ts'

const fail = failures(WEBHOOK_ERRORS)

const PORTION = 500
const FAILURES_MAX = 1_000

type Action = StartDeliveriesBulk['action']

const JOBS: Record<Action, string> = { retry: 'deliveries.retry', purge: 'deliveries.purge' }

/** What a bulk job still has to do. */
interface BulkState extends AskedFor {
  webhookId: Id<'wh'>
  action: Action
  /** The deliveries left to handle. Null: the dead letters that were asked for. */
  waiting: readonly string[] | null
  eventType: string | null
  failures: readonly JobFailure[]
}

/** Does it to those of the deliveries that are dead letters. @returns the ids of these */
const ACTIONS: Record<Action, (tx: Db, of: deliveries.OfWebhook, ids: readonly string[]) => Promise<string[]>> = {
  retry: retryDeadLetters,
  purge: deliveries.deleteDeadLetters,
}

/**
 * Starts a job that retries or deletes the given dead letters, or all that match a filter.
 * @throws not_found, webhook_disabled, validation_failed
 */
export async function startBulk(deps: Deps, call: Call, id: string, input: StartDeliveriesBulk): Promise<Job> {
  const { caller } = call
  const { action, deliveryIds, filter } = input
  if ((deliveryIds === undefined) === (filter === undefined))
    throw invalid('deliveryIds', 'Give either `deliveryIds` or `filter`.', 'one_of')
  const { eventType = null, since = new Date(0).toISOString() } = filter ?? {}
  const range = { afterId: firstIdSince(deps, 'filter.since', since), untilId: idAfterNow(deps), eventType }
  return deps.db.tx(async (tx) => {
    const webhook = await findOwnWebhook(tx, caller, id)
    if (action === 'retry' && webhook.status === 'disabled') throw fail('webhook_disabled')
    if (eventType !== null) await checkType(tx, caller, 'filter.eventType', eventType)
    const waiting = deliveryIds === undefined ? null : [...new Set(deliveryIds)]
    const of = { tenantId: caller.tenantId, webhookId: webhook.id }
    const { total, ...ended } =
      waiting === null ? await deliveries.countDeadLetters(tx, { ...of, ...range }) : { total: waiting.length }
    const state: BulkState = { webhookId: webhook.id, action, waiting, ...range, ...ended, failures: [] }
    tx.afterCommit(deps.wake.tasks)
    const act = action === 'retry' ? 'webhook.dead_letters_retried' : 'webhook.dead_letters_purged'
    await recordOfWebhook(tx, deps, call, webhook, act)
    return createJob(tx, deps.now(), {
      tenantId: caller.tenantId,
      appId: webhook.app_id,
      type: JOBS[action],
      total,
      state,
    })
  })
}

/** Why a delivery was left as it is; empty where nothing is left to do, as for one that is being sent again already. */
function failureOf(action: Action, id: string, status: string | undefined): JobFailure[] {
  if (action === 'purge') return [{ id, code: 'not_found', message: 'This webhook has no dead letter with this id.' }]
  if (status === undefined) return [{ id, code: 'not_found', message: 'This webhook has no delivery with this id.' }]
  if (status === 'pending' || status === 'succeeded') return []
  return [{ id, code: 'delivery_not_retryable', message: DELIVERY_ERRORS.delivery_not_retryable[1] }]
}

async function handlePortion(tx: Db, job: Job): Promise<JobStep> {
  const state = job.state as BulkState
  const { webhookId, action, waiting, afterId, untilId, endedUntil, eventType } = state
  const webhook = await findWebhook(tx, { tenantId: job.tenantId, appId: null }, webhookId, true)
  if (webhook === undefined) return { failed: 'The webhook was deleted.' }
  if (action === 'retry' && webhook.status === 'disabled')
    return { failed: 'The webhook was disabled. Set its `status` to `active`, then start the job again.' }
  const of = { tenantId: job.tenantId, webhookId }
  const ids =
    waiting?.slice(0, PORTION) ??
    (await deliveries.findDeadLetters(tx, { ...of, afterId, untilId, endedUntil, eventType }, PORTION))
  const done = new Set(await ACTIONS[action](tx, of, ids))
  const left = ids.filter((id) => !done.has(id))
  const statuses = left.length === 0 ? new Map<string, string>() : await deliveries.findStatuses(tx, of, left)
  const failed = left.flatMap((id) => failureOf(action, id, statuses.get(id)))
  const next: BulkState = {
    ...state,
    waiting: waiting?.slice(PORTION) ?? null,
    afterId: waiting === null ? (ids.at(-1) ?? afterId) : afterId,
    failures: [...state.failures, ...failed].slice(0, FAILURES_MAX),
  }
  return { progress: ids.length, state: next, done: (next.waiting ?? ids).length < (waiting === null ? PORTION : 1) }
}

/** Handles the next portion of the bulk job that has waited longest, one of each action. @returns whether there was one */
export async function stepBulk(db: Db, log: Logger): Promise<boolean> {
  const retried = await stepJob(db, log, JOBS.retry, handlePortion)
  const purged = await stepJob(db, log, JOBS.purge, handlePortion)
  return retried || purged
}
