import { one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { Analytics, AnalyticsQuery } from './schema.ts'
import { getAnalytics } from './service.ts'

/** The endpoint of analytics. */
export const analyticsRoutes: Route[] = [
  route(
    'GET /analytics',
    {
      summary: 'Get daily counters',
      description:
        'Each UTC day of the period with its counters, today included, and their totals. Without `app_id`: of all apps together, or, with a key that is bound to an app, of that one. Counters follow what happens within seconds.',
      callers: secretKey('analytics:read'),
      query: AnalyticsQuery,
      reply: one(Analytics),
      errors: ['not_found'],
    },
    (deps, { caller, query }) => getAnalytics(deps, caller, query),
  ),
]
