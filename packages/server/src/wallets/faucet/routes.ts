import { one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { Drip, Dripped } from './schema.ts'
import { drip } from './service.ts'

/** Served in development only. */
export const faucetRoutes: Route[] = [
  route(
    'POST /dev/faucet',
    {
      summary: 'Issue test tokens',
      description:
        "In development only. Creates a `Token:Holding` for a user, issued by the tenant's issuer party. Emits no `tx.*` event.",
      callers: secretKey('wallets:write'),
      body: Drip,
      reply: one(Dripped),
      status: 201,
      extension: true,
    },
    (deps, { caller, body }) => drip(deps, caller, body),
  ),
]
