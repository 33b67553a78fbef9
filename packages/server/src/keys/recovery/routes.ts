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
      errors: ['user_session_required', 'custody_unsupported'],
      extension: true,
    },
    (deps, { caller, user, body }) => newChallenge(deps, { caller, user }, body),
  ),
  route(
    'POST /mpc/recover',
    {
      summary: "Recover a wallet's key, or create new shares of it",
      description:
        'Needs a fresh second factor or sign-in. `release`: if the proofs show that the caller knows enough other shares, the service seals its share to `recipientPublicKey`. The key is combined only on the device. `combine`: the service combines the key from sealed shares (never for `shared` wallets, and only if the app has `recovery.serverCombine`). Both set `exportedAt`, set the user’s `trustLevel` to `self_custody` and revoke the wallet’s delegated sessions. `reshare`: creates new shares of the same key from old ones. Nothing changes until the new shares sign (`reshareId`, `signature`, `proofs`), within an hour; after that, the old shares no longer work. Each wallet has five attempts per hour, then a delay that grows. Emits `key.recovered`.',
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
