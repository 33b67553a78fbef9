import { currentUser, IdParam, one, type Route, route } from '../../platform/http/route.ts'
import { SignOnboarding, WalletOnboarding } from './schema.ts'
import { getOnboarding, signOnboarding } from './service.ts'

export const onboardingRoutes: Route[] = [
  route(
    'GET /wallets/:id/onboarding',
    {
      summary: "Get how far a wallet's party is",
      description:
        'For the current user’s own wallet. On a ledger that is reached over a network, a `shared` or `self_custody` wallet is `pending` until its key has signed for its party: `toSign` says what.',
      callers: currentUser(),
      params: IdParam,
      reply: one(WalletOnboarding),
      extension: true,
    },
    (deps, { caller, user, params }) => getOnboarding(deps, { caller, user }, params.id),
  ),
  route(
    'POST /wallets/:id/onboarding',
    {
      summary: "Sign for a wallet's party",
      description:
        'For the current user’s own `shared` or `self_custody` wallet whose onboarding is `signature_required`. Send the key’s `signatures` over the payloads. With a shared key, send `commitments` first: the answer has the service’s parts. The ledger gets the signatures soon after; `wallet.ready` says when the party is there.',
      callers: currentUser(),
      params: IdParam,
      body: SignOnboarding,
      reply: one(WalletOnboarding),
      errors: [
        'signature_invalid',
        'share_invalid',
        'user_session_required',
        'stronger_sign_in_required',
        'share_missing',
        'wallet_frozen',
        'nothing_to_sign',
      ],
      extension: true,
    },
    (deps, { caller, user, params, body }) => signOnboarding(deps, { caller, user }, params.id, body),
  ),
]
