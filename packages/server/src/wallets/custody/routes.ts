import { anyKey, one, type Route, route } from '../../platform/http/route.ts'
import { mpcConfig } from './encryption-key.ts'
import { MpcConfig } from './schema.ts'

export const custodyRoutes: Route[] = [
  route(
    'GET /mpc/config',
    {
      summary: 'Get the keys to seal shares to',
      description:
        'HPKE (RFC 9180) keys of the service, the newest first, and the tenant that what is sealed is bound to. A key lasts 90 days; read this again when it is over.',
      callers: anyKey(),
      reply: one(MpcConfig),
      extension: true,
    },
    (deps, { caller }) => mpcConfig(deps, caller),
  ),
]
