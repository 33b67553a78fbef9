import { currentUser, IdParam, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { KeyShare } from '../../wallets/custody/schema.ts'
import { deleteShares, replaceWraps } from './change.ts'
import { walletCustody } from './custody-report.ts'
import { readShares } from './read.ts'
import {
  DeletedShares,
  DeleteShares,
  ReadShares,
  ReplaceWraps,
  Shares,
  StoreShare,
  WalletCustody,
  WalletParam,
} from './schema.ts'
import { storeShare } from './store-share.ts'

const STEP_UP = ['mfa_required', 'mfa_enrollment_required', 'reauthentication_required'] as const
const COMMON = ['custody_unsupported', 'user_session_required'] as const

export const keyShareRoutes: Route[] = [
  route(
    'POST /mpc/shares',
    {
      summary: 'Store a key share',
      description:
        'Either `sealed`: the service opens it (HPKE, purpose `store-share`) and checks it against `commitments`; or `clientCiphertext` with a `proof` of knowing the share: the service can’t open it. Of each generation it could open fewer shares than the threshold, those that a password protects counted in; of a `shared` wallet share 1 alone. Where a share was only proven so far, its ciphertext is added. A `shared` wallet that is pending gets ready with share 2. Answers never show the share. Emits `key_share.stored`.',
      turn: ({ user }) => user.id,
      callers: currentUser(),
      body: StoreShare,
      reply: one(KeyShare),
      status: 201,
      errors: [...COMMON, 'share_invalid', 'seal_invalid', 'already_exists', 'custody_violation', 'share_limit'],
    },
    (deps, { caller, origin, user, body }) => storeShare(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /mpc/shares/:walletId',
    {
      summary: "Get a wallet's key shares",
      description:
        'What is known of the shares of the current generation, and what the client encrypted of them. With `recipient_public_key` the service’s share of a wallet in self-custody comes sealed to it (purpose `read-share`); that of a `shared` wallet leaves by `POST /mpc/recover` alone. Needs a recent second factor or sign-in. Emits `key_share.retrieved` for each share that leaves.',
      callers: currentUser(),
      params: WalletParam,
      query: ReadShares,
      reply: one(Shares),
      secret: true,
      errors: [...COMMON, ...STEP_UP, 'custody_violation', 'wallet_frozen'],
    },
    (deps, { caller, origin, user, params, query }) =>
      readShares(deps, { caller, origin, user }, params.walletId, query),
  ),
  route(
    'PATCH /mpc/shares/:walletId',
    {
      summary: 'Replace the wraps of a key share',
      description:
        'For a share that passkeys protect: all the wraps that it has from now on. At least one is of a passkey that the user has here, or that had one before. Removing a passkey takes its wraps along. Needs a recent second factor or sign-in. Emits `key_share.stored`.',
      callers: currentUser(),
      params: WalletParam,
      body: ReplaceWraps,
      reply: one(KeyShare),
      errors: [...COMMON, ...STEP_UP, 'share_would_be_lost', 'share_limit'],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) =>
      replaceWraps(deps, { caller, origin, user }, params.walletId, body),
  ),
  route(
    'DELETE /mpc/shares/:walletId',
    {
      summary: "Destroy a wallet's key shares",
      description:
        'What is kept of one generation: data keys and ciphertexts. What holders have, they keep; and a backup of the database has them until it is gone. Without the service’s share a `shared` wallet signs only by the user’s other two. Needs a recent second factor or sign-in. Emits `key_share.deleted`.',
      callers: currentUser(),
      params: WalletParam,
      query: DeleteShares,
      reply: one(DeletedShares),
      errors: [...COMMON, ...STEP_UP],
    },
    (deps, { caller, origin, user, params, query }) =>
      deleteShares(deps, { caller, origin, user }, params.walletId, query),
  ),
  route(
    'GET /wallets/:id/custody',
    {
      summary: "Get who can sign with a wallet's key",
      description: 'Who can sign or rebuild with it today, as the records say.',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(WalletCustody),
      extension: true,
    },
    (deps, { caller, params }) => walletCustody(deps, caller, params.id),
  ),
]
