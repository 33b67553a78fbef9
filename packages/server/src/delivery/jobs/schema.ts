import { z } from 'zod'
import type { Job } from '../../platform/events/jobs.ts'
import { Times } from '../../platform/http/route.ts'

/** A record that a job left unchanged, with the error. */
const JobFailure = z.object({ id: z.string(), code: z.string(), message: z.string() }).meta({ id: 'JobFailure' })
export type JobFailure = z.infer<typeof JobFailure>

/** A long-running job and its progress. */
export const JobRecord = z
  .object({
    id: z.string(),
    type: z.string().meta({ example: 'webhook.recover' }),
    status: z.enum(['pending', 'running', 'succeeded', 'failed']),
    progress: z.int().meta({ description: 'How much is done, of `total`.' }),
    total: z.int(),
    failures: z
      .array(JobFailure)
      .meta({ description: 'Records that the job left unchanged, each with the error. At most 1000 are listed.' }),
    error: z.string().nullable(),
    ...Times,
  })
  .meta({ id: 'Job' })

/** A job as the API returns it, without its internal state. */
export function toJobRecord(job: Job): z.infer<typeof JobRecord> {
  const { id, type, status, progress, total, state, error } = job
  return {
    id,
    type,
    status,
    progress,
    total,
    failures: (state.failures ?? []) as JobFailure[],
    error,
    createdAt: job.createdAt.toISOString(),
    updatedAt: job.updatedAt.toISOString(),
  }
}
