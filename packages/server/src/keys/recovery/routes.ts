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
        'For `POST /mpc/recover`: what its seals and proofs are bound to. Good for five minutes, one wallet, one purpose and one answer.',
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
      summary: "Recover a wallet's key, or make new shares of it",
      description:
        'Needs a fresh second factor, or sign-in. `release`: the service seals its share to `recipientPublicKey` for proofs that the caller knows enough others; the key is put together on the device and nowhere else. `combine`: the service puts the key together from sealed shares (never for `shared` wallets, and only where the app has `recovery.serverCombine`). Either notes `exportedAt`, makes the user’s `trustLevel` `self_custody` and revokes the wallet’s delegated sessions. `reshare`: old shares are dealt out among new ones of the same key; nothing changes until the new ones sign (`reshareId`, `signature`, `proofs`), within an hour, and from then on the old ones count no more. Five tries an hour for each wallet, then a delay that grows. Emits `key.recovered`.',
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
