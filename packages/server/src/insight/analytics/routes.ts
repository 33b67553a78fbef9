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
        'Returns the counters of each UTC day of the period, including today, and their totals. Without `app_id`, they cover all apps, or, with a key that is bound to an app, that app. Counters are updated within seconds.',
      callers: secretKey('analytics:read'),
      query: AnalyticsQuery,
      reply: one(Analytics),
      replica: true,
      errors: ['not_found'],
    },
    (deps, { caller, query }) => getAnalytics(deps, caller, query),
  ),
]
