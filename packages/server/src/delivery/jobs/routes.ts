import { findJob } from '../../platform/events/jobs.ts'
import { fail } from '../../platform/http/errors.ts'
import { IdParam, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
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
