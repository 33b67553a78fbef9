import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { createJob, findJob, type Job, type JobStep, stepJob } from '../../platform/events/jobs.ts'
import { existing, HttpError, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import { ownUser, revokeSessions } from '../sessions/service.ts'
import { deleteUser } from './erasure.ts'
import type { BulkAction, BulkRun, StartBulk } from './schema.ts'
import { updateUser } from './service.ts'

const JOB = 'users.bulk'

/** What a bulk job still has to do, and for whom. The call names the actor of every event. */
interface BulkState extends Record<string, unknown> {
  action: BulkAction
  call: Call
  waiting: readonly string[]
  failed: BulkRun['failed']
}

/** What each action does to one user: the same as the endpoint for one. */
const ACTIONS: Record<BulkAction, (deps: Deps, call: Call, id: string) => Promise<unknown>> = {
  suspend: (deps, call, id) => updateUser(deps, call, id, { status: 'suspended' }),
  activate: (deps, call, id) => updateUser(deps, call, id, { status: 'active' }),
  end_sessions: async (deps, call, id) => revokeSessions(deps, call, await ownUser(deps, call.caller, id), null),
  delete: deleteUser,
}

function toRun({ id, status, progress, total, state, error, createdAt, updatedAt }: Job): BulkRun {
  const { action, failed } = state as BulkState
  const times = { createdAt: createdAt.toISOString(), updatedAt: updatedAt.toISOString() }
  return { id, action, status, done: progress, total, failed: [...failed], error, ...times }
}

/** Starts a job that does the same to each of these users. */
export async function startBulk(deps: Deps, call: Call, { action, userIds }: StartBulk): Promise<BulkRun> {
  const { tenantId, appId } = call.caller
  const waiting = [...new Set(userIds)]
  const state: BulkState = { action, call, waiting, failed: [] }
  const job = await createJob(deps.db, deps.now(), { tenantId, appId, type: JOB, total: waiting.length, state })
  deps.db.afterCommit(deps.wake.tasks)
  return toRun(job)
}

/** How far a job is, and for which users it failed. @throws not_found */
export async function getBulk(deps: Deps, caller: Caller, id: string): Promise<BulkRun> {
  const job = await findJob(deps.db, caller.tenantId, pathId('job', id), caller.appId)
  return toRun(existing(job?.type === JOB ? job : undefined))
}

/** One user, in one transaction with the progress: after a kill, no user is skipped, and none is handled twice. */
async function handleNext(deps: Deps, tx: Db, job: Job): Promise<JobStep> {
  const { waiting, failed, ...rest } = job.state as BulkState
  const [userId, ...others] = waiting
  if (userId === undefined) return { progress: 0, state: job.state, done: true }
  const failure = await ACTIONS[rest.action]({ ...deps, db: tx }, rest.call, userId).then(
    () => [],
    (error: unknown) => {
      // Refusals are thrown before anything is written. Any other error rolls back the step.
      if (!(error instanceof HttpError)) throw error
      return [{ userId, code: error.code, message: error.message }]
    },
  )
  const state: BulkState = { ...rest, waiting: others, failed: [...failed, ...failure] }
  return { progress: 1, state, done: others.length === 0 }
}

/** Handles the next user of the bulk job that has waited longest. @returns whether there was one */
export function stepBulk(deps: Deps, db: Db): Promise<boolean> {
  return stepJob(db, deps.log, JOB, (tx, job) => handleNext(deps, tx, job))
}
