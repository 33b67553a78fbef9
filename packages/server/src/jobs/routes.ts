import { fail } from '../core/errors.ts'
import { IdParam, one, type Route, route, secretKey } from '../core/http.ts'
import { isId } from '../core/ids.ts'
import { findJob } from '../core/jobs.ts'
import { JobRecord, toJobRecord } from './schema.ts'

export const jobRoutes: Route[] = [
  route(
    'GET /jobs/:id',
    {
      summary: 'Get a job',
      description: 'How far long work is. It survives restarts.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      reply: one(JobRecord),
      extension: true,
    },
    async (deps, { caller, params }) => {
      const job = isId('job', params.id) ? await findJob(deps.db, caller.tenantId, params.id, caller.appId) : undefined
      if (job === undefined) throw fail('not_found')
      return toJobRecord(job)
    },
  ),
]
