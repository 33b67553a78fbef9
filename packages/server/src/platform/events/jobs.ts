import { type Db, isTransient, sql } from '../db/db.ts'
import { fail } from '../http/errors.ts'
import { type Id, newId } from '../ids.ts'
import type { Logger } from '../observability/log.ts'

/** Long-running work that outlives the request that started it and the process that runs it. */
export interface Job {
  tenantId: Id<'ten'>
  /** The app whose records it works on; null for the tenant's own. */
  appId: Id<'app'> | null
  id: Id<'job'>
  type: string
  status: 'pending' | 'running' | 'succeeded' | 'failed'
  progress: number
  total: number
  state: Record<string, unknown>
  error: string | null
  createdAt: Date
  updatedAt: Date
}

const JOB = sql`
  tenant_id as "tenantId", app_id as "appId", id, type, status, progress, total, state, error, created_at as "createdAt",
  updated_at as "updatedAt"`

/** Jobs take turns. A tenant with more of them would keep other tenants waiting. */
const OPEN_MAX = 20

/** Queues a job. `state` is all that it needs to begin, and later to go on. @throws rate_limited if the tenant has many */
export async function createJob(
  tx: Db,
  now: Date,
  input: Pick<Job, 'tenantId' | 'appId' | 'type' | 'total' | 'state'>,
): Promise<Job> {
  const open = await tx.count(sql`
    select count(*) as n from (
      select from jobs where tenant_id = ${input.tenantId} and status in ('pending', 'running') limit ${OPEN_MAX}) j`)
  if (open >= OPEN_MAX) throw fail('rate_limited', [], { 'retry-after': '5' })
  const row = await tx.one<Job>(sql`
    insert into jobs (tenant_id, app_id, id, type, status, total, state, created_at, updated_at)
    values (${input.tenantId}, ${input.appId}, ${newId('job')}, ${input.type}, 'pending', ${input.total}, ${input.state}, ${now}, ${now}) returning ${JOB}`)
  return row as Job
}

/** The job, if it is this tenant's (and, with `appId`, this app's). */
export function findJob(db: Db, tenantId: Id<'ten'>, id: string, appId: Id<'app'> | null): Promise<Job | undefined> {
  return db.one(sql`
    select ${JOB} from jobs where tenant_id = ${tenantId} and id = ${id} and (${appId}::text is null or app_id = ${appId})`)
}

/** A tenant's job of a type that has not ended, and whose state has these entries. It takes no step before the commit. */
export function lockOpenJob(
  tx: Db,
  tenantId: Id<'ten'>,
  type: string,
  having: Record<string, unknown>,
): Promise<Job | undefined> {
  return tx.one(sql`
    select ${JOB} from jobs where tenant_id = ${tenantId} and type = ${type} and status in ('pending', 'running') and state @> ${having}::jsonb
    limit 1 for update`)
}

/** Gives an open job more to do: the state it continues from, and how much is left. */
export async function widenJob(
  tx: Db,
  now: Date,
  job: Job,
  state: Record<string, unknown>,
  left: number,
): Promise<Job> {
  const row = await tx.one<Job>(sql`
    update jobs set state = ${state}, total = progress + ${left}, updated_at = ${now}
    where tenant_id = ${job.tenantId} and id = ${job.id} returning ${JOB}`)
  return row as Job
}

/** What one step of a job did; or why the job cannot go on, as its owner is to read it. */
export type JobStep = { progress: number; state: Record<string, unknown>; done: boolean } | { failed: string }

const INTERNAL_ERROR =
  'The job stopped after an internal error. Its completed work stays. Start a new job for the rest.'

async function failJob(db: Db, { tenantId, id }: Pick<Job, 'tenantId' | 'id'>, text: string): Promise<void> {
  await db.run(sql`
    update jobs set status = 'failed', error = ${text}, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and status in ('pending', 'running')`)
}

/**
 * Takes the open job of a type whose last step is longest ago and does one step of it, the step and the job's new state
 * in one transaction: a process that dies half-way leaves the job where it was, and another continues. A step that can't succeed
 * fails the job, and is logged. @returns whether there was one
 */
export async function stepJob(
  db: Db,
  log: Logger,
  type: string,
  step: (tx: Db, job: Job) => Promise<JobStep>,
): Promise<boolean> {
  let taken: Job | undefined
  try {
    return await db.tx(async (tx) => {
      taken = await tx.one(sql`
        select ${JOB} from jobs where status in ('pending', 'running') and type = ${type} order by updated_at, id limit 1 for update skip locked`)
      if (taken === undefined) return false
      const done = await step(tx, taken)
      if ('failed' in done) {
        await failJob(tx, taken, done.failed)
        return true
      }
      await tx.run(sql`
        update jobs set status = ${done.done ? 'succeeded' : 'running'}, progress = progress + ${done.progress}, state = ${done.state}, updated_at = now()
        where tenant_id = ${taken.tenantId} and id = ${taken.id}`)
      return true
    })
  } catch (error) {
    if (taken === undefined || isTransient(error)) throw error
    log.error({ err: error, jobId: taken.id, type, tenantId: taken.tenantId }, 'job failed')
    await failJob(db, taken, INTERNAL_ERROR)
    return true
  }
}

const JOBS_A_DELETION = 5_000

/** Deletes a portion of the jobs that ended 30 days ago. @returns whether there may be more */
export async function deleteOldJobs(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from jobs where (tenant_id, id) in (
      select tenant_id, id from jobs where status in ('succeeded', 'failed') and updated_at < now() - 30 * interval '24 hours'
      limit ${JOBS_A_DELETION})`)
  return gone === JOBS_A_DELETION
}
