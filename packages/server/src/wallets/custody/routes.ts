import { anyKey, one, type Route, route } from '../../platform/http/route.ts'
import { mpcConfig } from './encryption-key.ts'
import { MpcConfig } from './schema.ts'

export const custodyRoutes: Route[] = [
  route(
    'GET /mpc/config',
    {
      summary: 'Get the keys to seal shares to',
      description:
        'HPKE (RFC 9180) keys of the service, newest first, and the tenant that sealed data is bound to. A key is valid for 90 days. Call this again when your key has expired. Before you seal anything, check `identity` against the pin of the installation, which `halfkey keys pin` prints; the SDK does.',
      callers: anyKey(),
      reply: one(MpcConfig),
      extension: true,
    },
    (deps, { caller }) => mpcConfig(deps, caller),
  ),
]
