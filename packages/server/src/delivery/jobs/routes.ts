import { findJob } from '../../platform/events/jobs.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import { IdParam, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { JobRecord, toJobRecord } from './schema.ts'

export const jobRoutes: Route[] = [
  route(
    'GET /jobs/:id',
    {
      summary: 'Get a job',
      description: 'Returns the progress of a long-running job. Jobs survive restarts.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      reply: one(JobRecord),
      extension: true,
    },
    async (deps, { caller, params }) =>
      toJobRecord(existing(await findJob(deps.db, caller.tenantId, pathId('job', params.id), caller.appId))),
  ),
]
