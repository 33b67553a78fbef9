import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { createJob, findOpenJob, type Job, type JobStep, stepJob, widenJob } from '../../platform/events/jobs.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import { type Id, idTime } from '../../platform/ids.ts'
import type { Logger } from '../../platform/observability/log.ts'
import { lockLanes, makeLanesDue } from '../engine/lanes.ts'
import * as deliveries from './delivery-store.ts'
import { findOwnWebhook, WEBHOOK_ERRORS } from './service.ts'
import { findWebhook } from './store.ts'

const fail = failures(WEBHOOK_ERRORS)

const PORTION = 500
const JOB = 'webhook.recover'

/** What a recover job goes by: the dead letters after `afterId`, which moves on from `fromId`, and up to `untilId`. */
interface Recovery extends Record<string, unknown> {
  webhookId: Id<'wh'>
  fromId: string
  afterId: string
  untilId: string
}

/**
 * Starts a job that sends every dead letter since a time again. A webhook has one job at a time: if one is running, it is
 * returned, and extended to the earlier time if requested. @throws not_found, webhook_disabled
 */
export async function recoverDeadLetters(deps: Deps, caller: Caller, id: string, since: string): Promise<Job> {
  const sinceMs = Date.parse(since)
  if (sinceMs > deps.now().getTime()) throw invalid('since', 'Must not be in the future.', 'in_the_future')
  return deps.db.tx(async (tx) => {
    // The lock serializes concurrent requests and the steps of the job.
    const webhook = await findOwnWebhook(tx, caller, id, true)
    if (webhook.status === 'disabled') throw fail('webhook_disabled')
    const fromId = `dlv_${idTime(Math.max(0, sinceMs))}`
    const open = await findOpenJob(tx, caller.tenantId, JOB, { webhookId: webhook.id })
    if (open !== undefined && fromId >= (open.state as Recovery).fromId) return open
    const total = await deliveries.countDeadLetters(tx, { tenantId: caller.tenantId, webhookId: webhook.id }, fromId)
    // Up to now, so that the job does not retry dead letters that its own retries create.
    const untilId = `dlv_${idTime(deps.now().getTime() + 1)}`
    const state: Recovery = { webhookId: webhook.id, fromId, afterId: fromId, untilId }
    tx.afterCommit(deps.wake.due)
    if (open !== undefined)
      return widenJob(tx, deps.now(), open, { ...state, untilId: (open.state as Recovery).untilId }, total)
    return createJob(tx, deps.now(), { tenantId: caller.tenantId, appId: webhook.app_id, type: JOB, total, state })
  })
}

async function recoverPortion(tx: Db, job: Job): Promise<JobStep> {
  const state = job.state as Recovery
  const { webhookId, afterId, untilId } = state
  const webhook = await findWebhook(tx, { tenantId: job.tenantId, appId: null }, webhookId, true)
  if (webhook === undefined) return { failed: 'The webhook was deleted.' }
  if (webhook.status === 'disabled') return { failed: 'The webhook was disabled. Set its status to active first.' }
  const of = { tenantId: job.tenantId, webhookId }
  const lane = { tenant_id: job.tenantId, lane_id: webhookId }
  await lockLanes(tx, [lane])
  const ids = await deliveries.restartDeadLetters(tx, of, afterId, untilId, PORTION)
  if (ids.length > 0) await makeLanesDue(tx, [lane])
  return { progress: ids.length, state: { ...state, afterId: ids.at(-1) ?? afterId }, done: ids.length < PORTION }
}

/** Runs one batch of the recover job that has waited longest. @returns whether there was one */
export function stepRecovery(db: Db, log: Logger): Promise<boolean> {
  return stepJob(db, log, JOB, recoverPortion)
}
