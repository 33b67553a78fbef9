import { IdParam, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { ListHoldings, WalletHoldings } from './schema.ts'
import { listHoldings } from './service.ts'

export const tokenRoutes: Route[] = [
  route(
    'GET /wallets/:id/holdings',
    {
      summary: "List a wallet's holdings",
      description:
        'What the wallet holds on a ledger whose tokens are followed: the sum of each token, and a page of the contracts. `asOf` says up to where the ledger was read.',
      callers: secretKey('wallets:read'),
      params: IdParam,
      query: ListHoldings,
      reply: one(WalletHoldings),
      errors: ['holdings_unavailable'],
      extension: true,
    },
    (deps, { caller, params, query }) => listHoldings(deps, caller, params.id, query),
  ),
]
