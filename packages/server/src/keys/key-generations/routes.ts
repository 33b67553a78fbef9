import { currentUser, IdParam, one, type Route, route } from '../../platform/http/route.ts'
import { beginKeyGeneration } from './begin.ts'
import { confirmKeyGeneration } from './confirm.ts'
import { cancelKeyGeneration, getKeyGeneration } from './end.ts'
import { answerRound2 } from './round2.ts'
import {
  AnsweredSubshares,
  BeginKeyGeneration,
  ConfirmedKeyGeneration,
  ConfirmKeyGeneration,
  KeyGeneration,
  SealedSubshares,
} from './schema.ts'

export const keyGenerationRoutes: Route[] = [
  route(
    'POST /mpc/dkg',
    {
      summary: 'Start a key generation',
      description:
        'Distributed key generation (FROST, Ed25519, two of three): the user’s device runs participants 2 and 3, the service is participant 1, and nobody ever has the whole key. The user’s participants send their messages first. A key generation expires after ten minutes. A user can have five in progress; starting another one ends the oldest. A server can do this only if the app has `mpc.allowServer`.',
      turn: ({ user }) => user.id,
      callers: currentUser(),
      body: BeginKeyGeneration,
      reply: one(KeyGeneration),
      status: 201,
      errors: ['protocol_violated', 'user_session_required', 'stronger_sign_in_required', 'wallet_exists'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => beginKeyGeneration(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /mpc/dkg/:id/round2',
    {
      summary: 'Exchange parts of the shares',
      description:
        'Sends the user’s parts of share 1 and returns the service’s parts of shares 2 and 3. Each part is sealed to its recipient (HPKE, purpose `halfkey/v1/dkg-subshare`). If a part does not match its sender’s commitments, the error has the sender’s index, and nothing changes. Repeating the request returns the same response.',
      turn: ({ user }) => user.id,
      callers: currentUser(),
      params: IdParam,
      body: SealedSubshares,
      reply: one(AnsweredSubshares),
      secret: true,
      errors: [
        'protocol_violated',
        'seal_invalid',
        'share_invalid',
        'user_session_required',
        'stronger_sign_in_required',
        'dkg_conflict',
        'dkg_expired',
      ],
      extension: true,
    },
    (deps, { caller, user, params, body }) => answerRound2(deps, { caller, user }, params.id, body),
  ),
  route(
    'POST /mpc/dkg/:id/confirm',
    {
      summary: 'Confirm a generated key',
      description:
        'Proves that the user has share 2 and share 3, and creates the user’s `shared` wallet with the key. Emits `wallet.created`, and `wallet.ready` once its party is on the ledger. Repeating the request returns the same wallet.',
      callers: currentUser(),
      params: IdParam,
      body: ConfirmKeyGeneration,
      reply: one(ConfirmedKeyGeneration),
      status: 201,
      errors: [
        'protocol_violated',
        'share_invalid',
        'user_session_required',
        'stronger_sign_in_required',
        'dkg_conflict',
        'wallet_exists',
        'dkg_expired',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) =>
      confirmKeyGeneration(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'GET /mpc/dkg/:id',
    {
      summary: 'Get a key generation',
      callers: currentUser(),
      params: IdParam,
      reply: one(KeyGeneration),
      errors: ['user_session_required', 'stronger_sign_in_required'],
      extension: true,
    },
    (deps, { caller, user, params }) => getKeyGeneration(deps, { caller, user }, params.id),
  ),
  route(
    'DELETE /mpc/dkg/:id',
    {
      summary: 'Cancel a key generation',
      description: 'Destroys its secrets. A key generation that has already ended is returned unchanged.',
      callers: currentUser(),
      params: IdParam,
      reply: one(KeyGeneration),
      errors: ['user_session_required', 'stronger_sign_in_required', 'dkg_conflict'],
      extension: true,
    },
    (deps, { caller, user, params }) => cancelKeyGeneration(deps, { caller, user }, params.id),
  ),
]
