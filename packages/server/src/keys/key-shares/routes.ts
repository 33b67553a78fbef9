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
const COMMON = ['custody_unsupported', 'user_session_required', 'stronger_sign_in_required'] as const

export const keyShareRoutes: Route[] = [
  route(
    'POST /mpc/shares',
    {
      summary: 'Store a key share',
      description:
        'Send either `sealed`, which the service opens (HPKE, purpose `store-share`) and checks against `commitments`; or `clientCiphertext`, which the service cannot open, with a `proof` that you know the share. The service can open fewer shares of each generation than the threshold, counting shares protected by a password; of a `shared` wallet, only share 1. If a share was only proven before, its ciphertext is added. A pending `shared` wallet becomes ready with share 2. Responses never contain the share. Emits `key_share.stored`.',
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
        'Records of the shares of the current generation, with the ciphertexts that the client stored. With `recipient_public_key`, the service’s share of a `self_custody` wallet is sealed to that key (purpose `read-share`). The service’s share of a `shared` wallet is released only by `POST /mpc/recover`. Needs a recent second factor or sign-in. Emits `key_share.retrieved` for each share that is returned.',
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
        'Replaces all wraps of a share that passkeys protect. At least one wrap must be for a passkey that the user has here, or that already had a wrap. Removing a passkey also deletes its wraps. Needs a recent second factor or sign-in. Emits `key_share.stored`.',
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
        'Deletes the stored data keys and ciphertexts of one generation. Shares that the user or others hold are not affected. Backups of the database still contain the deleted data, until you delete the backups. Without the service’s share, a `shared` wallet can sign only with the user’s two shares. Needs a recent second factor or sign-in. Emits `key_share.deleted`.',
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
      description: 'Who can currently sign with the key or rebuild it, according to the records.',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(WalletCustody),
      extension: true,
    },
    (deps, { caller, params }) => walletCustody(deps, caller, params.id),
  ),
]
