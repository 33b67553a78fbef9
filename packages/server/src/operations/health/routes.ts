import type { Deps } from '../../platform/deps.ts'
import { envelope, fail, type HttpError } from '../../platform/http/errors.ts'
import { anyKey, one, type PlainRoute, type Route, route } from '../../platform/http/route.ts'
import { Health, Readiness } from './schema.ts'
import { health, readiness } from './service.ts'

function notReady(checks: Awaited<ReturnType<typeof readiness>>['checks']): HttpError {
  return fail(
    'not_ready',
    checks
      .filter((check) => check.state === 'failing')
      .map((check) => ({ ...check, code: 'not_ready', message: check.message ?? 'failing' })),
  )
}

export const healthRoutes: Route[] = [
  route(
    'GET /healthz',
    { summary: 'Health check', description: 'Succeeds while the process runs.', callers: anyKey(), reply: one(Health) },
    async (deps) => health(deps),
  ),
  route(
    'GET /readyz',
    {
      summary: 'Readiness check',
      description:
        'Succeeds if the database is reachable and not behind its floor, migrations are current and, in a process that delivers events, its worker is alive. Otherwise the status is 500 `not_ready` here, and 503 outside `/v1`.',
      callers: anyKey(),
      reply: one(Readiness),
      errors: ['not_ready'],
    },
    async (deps) => {
      const { ready, checks } = await readiness(deps)
      if (!ready) throw notReady(checks)
      return { status: 'ready' as const, checks }
    },
  ),
]

const JSON_TYPE = 'application/json; charset=utf-8'

async function plainReadiness(deps: Deps) {
  const { ready, checks } = await readiness(deps)
  if (ready) return { status: 200, contentType: JSON_TYPE, body: JSON.stringify({ data: { status: 'ready', checks } }) }
  return { status: 503, contentType: JSON_TYPE, body: envelope(deps.config, notReady(checks)) }
}

/** The same outside `/v1`, without a key, for load balancers. */
export const healthProbes: PlainRoute[] = [
  {
    path: '/healthz',
    believesNothing: true,
    handler: async (deps) => ({ status: 200, contentType: JSON_TYPE, body: JSON.stringify({ data: health(deps) }) }),
  },
  { path: '/readyz', believesNothing: true, handler: plainReadiness },
]
