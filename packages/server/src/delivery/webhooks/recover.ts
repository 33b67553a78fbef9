import { lockName } from '../../platform/concurrency/named-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { createJob, type Job, type JobStep, lockOpenJob, stepJob, widenJob } from '../../platform/events/jobs.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Id, idTime } from '../../platform/ids.ts'
import type { Logger } from '../../platform/observability/log.ts'
import { retryDeadLetters } from './deliveries.ts'
import * as deliveries from './delivery-store.ts'
import { findOwnWebhook, recordOfWebhook, WEBHOOK_ERRORS } from './service.ts'
import { findWebhook } from './store.ts'

const fail = failures(WEBHOOK_ERRORS)

const PORTION = 500
const JOB = 'webhook.recover'
const CLOCKS_APART_MS = 3_600_000

/** Which deliveries a job handles: those that were dead letters when it was asked for, and none that became one later. */
export interface AskedFor extends Record<string, unknown> {
  /** Moves on with the job. */
  afterId: string
  /** All that a worker of an earlier version goes by. */
  untilId: string
  /** Missing if the deliveries are given by id, and in a job that an earlier version began. */
  endedUntil?: string
}

/** What a recover job goes by: the dead letters after `afterId`, which moves on from `fromId`. */
interface Recovery extends AskedFor {
  webhookId: Id<'wh'>
  fromId: string
}

/** The id before all deliveries since a time. @throws validation_failed for a time in the future */
export function firstIdSince(deps: Deps, field: string, since: string): string {
  const sinceMs = Date.parse(since)
  if (sinceMs > deps.now().getTime()) throw invalid(field, 'Must not be in the future.', 'in_the_future')
  return `dlv_${idTime(Math.max(0, sinceMs))}`
}

/**
 * An id after those of all deliveries until now. Ids come from the clocks of the processes that publish, which may be
 * ahead of this one's: the exact end is `endedUntil`.
 */
export const idAfterNow = (deps: Deps): string => `dlv_${idTime(deps.now().getTime() + CLOCKS_APART_MS)}`

/**
 * Starts a job that sends every dead letter since a time again. A webhook has one job at a time: if one is running, it is
 * extended to the earlier time, and to what has become a dead letter meanwhile. @throws not_found, webhook_disabled
 */
export async function recoverDeadLetters(deps: Deps, call: Call, id: string, since: string): Promise<Job> {
  const { caller } = call
  const sinceId = firstIdSince(deps, 'since', since)
  return deps.db.tx(async (tx) => {
    const { id: webhookId } = await findOwnWebhook(tx, caller, id)
    await lockName(tx, `${JOB} ${webhookId}`)
    // The job before the webhook, as by its steps.
    const open = await lockOpenJob(tx, caller.tenantId, JOB, { webhookId })
    const webhook = await findOwnWebhook(tx, caller, id, true)
    if (webhook.status === 'disabled') throw fail('webhook_disabled')
    const openFromId = (open?.state as Recovery | undefined)?.fromId ?? sinceId
    const fromId = openFromId < sinceId ? openFromId : sinceId
    const range = { afterId: fromId, untilId: idAfterNow(deps) }
    const of = { tenantId: caller.tenantId, webhookId }
    const { total, endedUntil } = await deliveries.countDeadLetters(tx, { ...of, ...range, eventType: null })
    const state: Recovery = { webhookId, fromId, ...range, endedUntil }
    tx.afterCommit(deps.wake.tasks)
    await recordOfWebhook(tx, deps, call, webhook, 'webhook.dead_letters_retried')
    if (open !== undefined) return widenJob(tx, deps.now(), open, state, total)
    return createJob(tx, deps.now(), { tenantId: caller.tenantId, appId: webhook.app_id, type: JOB, total, state })
  })
}

async function recoverPortion(tx: Db, job: Job): Promise<JobStep> {
  const state = job.state as Recovery
  const { webhookId, afterId, untilId, endedUntil } = state
  const webhook = await findWebhook(tx, { tenantId: job.tenantId, appId: null }, webhookId, true)
  if (webhook === undefined) return { failed: 'The webhook was deleted.' }
  if (webhook.status === 'disabled')
    return { failed: 'The webhook was disabled. Set its `status` to `active`, then start the job again.' }
  const of = { tenantId: job.tenantId, webhookId }
  const ids = await deliveries.findDeadLetters(tx, { ...of, afterId, untilId, endedUntil, eventType: null }, PORTION)
  await retryDeadLetters(tx, of, ids)
  return { progress: ids.length, state: { ...state, afterId: ids.at(-1) ?? afterId }, done: ids.length < PORTION }
}

/** Runs one batch of the recover job that has waited longest. @returns whether there was one */
export function stepRecovery(db: Db, log: Logger): Promise<boolean> {
  return stepJob(db, log, JOB, recoverPortion)
}
