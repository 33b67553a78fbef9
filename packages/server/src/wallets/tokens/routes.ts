import { eitherKey, IdParam, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { ListOffers, OfferParams, TransferOffer, TransferOffers } from './offer-schema.ts'
import { getOffer, listOffers } from './offer-service.ts'
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
  route(
    'GET /wallets/:id/transfer-offers',
    {
      summary: "List a wallet's transfer offers",
      description:
        "Transfers of tokens in two steps that were offered to or by the wallet, on a ledger whose tokens are followed, newest first. Those that are over stay for 30 days. For the wallet's owner, and for a server.",
      callers: eitherKey('wallets:read', 'optional'),
      params: IdParam,
      query: ListOffers,
      reply: one(TransferOffers),
      errors: ['offers_unavailable'],
      extension: true,
    },
    (deps, { caller, origin, user, params, query }) => listOffers(deps, { caller, origin, user }, params.id, query),
  ),
  route(
    'GET /wallets/:id/transfer-offers/:offerId',
    {
      summary: 'Get a transfer offer',
      description: "For the wallet's owner, and for a server.",
      callers: eitherKey('wallets:read', 'optional'),
      params: OfferParams,
      reply: one(TransferOffer),
      errors: ['offers_unavailable'],
      extension: true,
    },
    (deps, { caller, origin, user, params }) => getOffer(deps, { caller, origin, user }, params.id, params.offerId),
  ),
]
