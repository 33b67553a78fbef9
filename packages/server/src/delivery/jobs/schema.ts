import { z } from 'zod'
import type { Job } from '../../platform/events/jobs.ts'
import { Times } from '../../platform/http/route.ts'

/** Long work and how far it is. */
export const JobRecord = z
  .object({
    id: z.string(),
    type: z.string().meta({ example: 'webhook.recover' }),
    status: z.enum(['pending', 'running', 'succeeded', 'failed']),
    progress: z.int().meta({ description: 'How much is done, of `total`.' }),
    total: z.int(),
    error: z.string().nullable(),
    ...Times,
  })
  .meta({ id: 'Job' })

/** A job as the wire shows it: its inner state stays inside. */
export function toJobRecord(job: Job): z.infer<typeof JobRecord> {
  const { id, type, status, progress, total, error } = job
  return {
    id,
    type,
    status,
    progress,
    total,
    error,
    createdAt: job.createdAt.toISOString(),
    updatedAt: job.updatedAt.toISOString(),
  }
}
