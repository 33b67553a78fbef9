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
        "In development only: a `Token:Holding` for a user, issued by the tenant's own issuer party. No `tx.*` event tells of it.",
      callers: secretKey('wallets:write'),
      body: Drip,
      reply: one(Dripped),
      status: 201,
      extension: true,
    },
    (deps, { caller, body }) => drip(deps, caller, body),
  ),
]
