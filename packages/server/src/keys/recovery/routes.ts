import { currentUser, one, type Route, route } from '../../platform/http/route.ts'
import { newChallenge } from './challenge.ts'
import { recover } from './recover.ts'
import { CreateRecoveryChallenge, Recover, Recovery, RecoveryChallenge } from './schema.ts'

export const recoveryRoutes: Route[] = [
  route(
    'POST /mpc/challenge',
    {
      summary: 'Request a recovery challenge',
      description:
        'The seals and proofs of `POST /mpc/recover` are bound to this challenge. It is valid for five minutes, for one wallet and one purpose, and can be used once.',
      callers: currentUser(),
      body: CreateRecoveryChallenge,
      reply: one(RecoveryChallenge),
      status: 201,
      errors: ['user_session_required', 'stronger_sign_in_required', 'custody_unsupported'],
      extension: true,
    },
    (deps, { caller, user, body }) => newChallenge(deps, { caller, user }, body),
  ),
  route(
    'POST /mpc/recover',
    {
      summary: "Recover a wallet's key, or create new shares of it",
      description:
        'Needs a second factor verified in the last five minutes or, for users without one, a sign-in in the last five minutes.\n\n- `release`: if the proofs show that the caller knows enough other shares, the service seals its share to `recipientPublicKey`. The key is combined only on the device.\n- `combine`: the service combines the key from sealed shares. It is never possible for `shared` wallets, and needs the app’s `recovery.serverCombine`.\n- `reshare`: creates new shares of the same key, in two calls. The first call deals the old shares. The second call, within an hour, confirms with a signature by the new shares (`reshareId`, `signature`, `proofs`). Until then the old shares stay valid and nothing has changed. From then on the service no longer accepts the old shares.\n\n`release` and `combine` set `exportedAt`, set the user’s `trustLevel` to `self_custody` and revoke the wallet’s delegated sessions. After five attempts within an hour, the wallet refuses more for an hour; the delay doubles with every five more, up to a day. Emits `key.recovered`.',
      turn: ({ user }) => user.id,
      callers: currentUser(),
      body: Recover,
      reply: one(Recovery),
      errors: [
        'share_invalid',
        'shares_insufficient',
        'seal_invalid',
        'custody_unsupported',
        'user_session_required',
        'stronger_sign_in_required',
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
        'wallet_frozen',
        'share_missing',
        'custody_violation',
        'challenge_expired',
        'reshare_expired',
      ],
      secret: true,
      limit: 'sign_in',
    },
    (deps, { caller, origin, user, body }) => recover(deps, { caller, origin, user }, body),
  ),
]
