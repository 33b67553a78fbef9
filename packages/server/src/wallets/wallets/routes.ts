import { currentUser, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { challenge, createWallet } from './create.ts'
import { CreateWallet, CreateWalletChallenge, ListWallets, Wallet, WalletChallenge } from './schema.ts'
import { freezeWallet, getOwnWallet, getWallet, getWalletOf, listWallets, unfreezeWallet } from './service.ts'

export const walletRoutes: Route[] = [
  route(
    'POST /users/me/wallet/challenge',
    {
      summary: 'Request a wallet challenge',
      description:
        'For a wallet whose key belongs to the user, or was split by the client. Sign the UTF-8 bytes of `message` with the key (Ed25519, RFC 8032), and send the signature to `POST /users/me/wallet` within five minutes. It is accepted once.',
      callers: currentUser(),
      body: CreateWalletChallenge,
      reply: one(WalletChallenge),
      status: 201,
      extension: true,
    },
    (deps, { caller, user, body }) => challenge(deps, { caller, user }, body),
  ),
  route(
    'POST /users/me/wallet',
    {
      summary: "Create the current user's wallet",
      description:
        'Each user has one wallet. `embedded`: the service signs. `self_custody`: only the user signs. `shared`: both sign together, with shares of a key; a client that split the key sends the service’s share (see also `POST /mpc/dkg`). For `self_custody` and `shared`, prove with a challenge that you have the key; a server can create such a wallet only if the app has `mpc.allowServer`. Emits `wallet.created`, and `wallet.ready` once its party is on the ledger.',
      turn: ({ user, body }) => `${user.id} ${body.custody}`,
      callers: currentUser(),
      body: CreateWallet,
      reply: one(Wallet),
      status: 201,
      errors: [
        'signature_invalid',
        'seal_invalid',
        'share_invalid',
        'user_session_required',
        'stronger_sign_in_required',
        'wallet_exists',
        'challenge_expired',
      ],
    },
    (deps, { caller, origin, user, body }) => createWallet(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /users/me/wallet',
    {
      summary: "Get the current user's wallet",
      callers: currentUser(),
      reply: one(Wallet),
      errors: ['wallet_not_found'],
    },
    (deps, { caller, user }) => getOwnWallet(deps, { caller, user }),
  ),
  route(
    'GET /users/:id/wallet',
    {
      summary: "Get a user's wallet",
      description: 'Also works for guests.',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(Wallet),
      errors: ['wallet_not_found'],
      extension: true,
    },
    (deps, { caller, params }) => getWalletOf(deps, caller, params.id),
  ),
  route(
    'GET /wallets',
    {
      summary: 'List wallets',
      description: 'Newest first, including those of guests.',
      callers: secretKey('wallets:read'),
      query: ListWallets,
      reply: list(Wallet),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listWallets(deps, caller, query),
  ),
  route(
    'GET /wallets/:id',
    {
      summary: 'Get a wallet',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(Wallet),
      extension: true,
    },
    (deps, { caller, params }) => getWallet(deps, caller, params.id),
  ),
  route(
    'POST /wallets/:id/freeze',
    {
      summary: 'Freeze a wallet',
      description: 'The wallet cannot sign until it is unfrozen. Emits `wallet.frozen` if it was not frozen before.',
      callers: secretKey('wallets:write'),
      params: IdParam,
      reply: one(Wallet),
      extension: true,
    },
    (deps, { caller, origin, params }) => freezeWallet(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /wallets/:id/unfreeze',
    {
      summary: 'Unfreeze a wallet',
      description: 'The wallet of a guest whose session has ended stays frozen.',
      callers: secretKey('wallets:write'),
      params: IdParam,
      reply: one(Wallet),
      errors: ['guest_expired'],
      extension: true,
    },
    (deps, { caller, origin, params }) => unfreezeWallet(deps, { caller, origin }, params.id),
  ),
]
