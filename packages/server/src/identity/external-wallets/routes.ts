import { currentUser, eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import { Identity } from '../identities/schema.ts'
import { SignedIn } from '../users/schema.ts'
import { ExternalWalletChallenge, LinkWallet, StartWallet, VerifyWallet } from './schema.ts'
import { linkWallet, startWallet, verifyWallet } from './service.ts'

const STEP_UP = [
  'stronger_sign_in_required',
  'mfa_required',
  'mfa_enrollment_required',
  'reauthentication_required',
] as const

const ANSWER = ['challenge_expired', 'wallet_signature_invalid', 'external_wallets_disabled'] as const

export const externalWalletRoutes: Route[] = [
  route(
    'POST /auth/wallet/start',
    {
      summary: 'Start a sign-in with an external wallet',
      description:
        "Returns the message that the user's wallet signs: for an Ethereum account after EIP-4361, for an Ed25519 key the same without a chain. It names the page where the user signs, and can be answered for five minutes, once. The response is the same whether a user has the key or not. The app must have the type in `externalWallets.types`.",
      callers: eitherKey('auth:write', 'optional'),
      limit: 'sign_in',
      body: StartWallet,
      reply: one(ExternalWalletChallenge),
      secret: true,
      errors: ['external_wallets_disabled', ...STEP_UP],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => startWallet(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /auth/wallet/verify',
    {
      summary: 'Sign in with the signature of an external wallet',
      description:
        'Signs in the user whose identity the key is. The first sign-in of a key creates a user, if the app has `externalWallets.signUp`. A wrong signature uses up the challenge. A session that begins like this is weak: if the account has a passkey or a second factor, calls that touch keys, delegated sessions and ways to sign in need one of them to be shown first. Emits `user.signed_in` and, for a new user, `user.created` and `identity.linked`.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: VerifyWallet,
      reply: one(SignedIn),
      secret: true,
      errors: [
        ...ANSWER,
        'identity_unknown',
        'user_suspended',
        'guest_expired',
        'quota_exceeded',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
      extension: true,
    },
    (deps, { caller, origin, body }) => verifyWallet(deps, { caller, origin }, body),
  ),
  route(
    'POST /auth/wallet/link',
    {
      summary: 'Link an external wallet to the current user',
      description:
        'Takes the signature of a start with the purpose `link`, in the session that started it. From then on, the key signs the user in. A key belongs to one user of an app. Emits `identity.linked`.',
      callers: currentUser(),
      limit: 'sign_in',
      body: LinkWallet,
      reply: one(Identity),
      status: 201,
      errors: [...ANSWER, ...STEP_UP, 'already_exists', 'identity_limit'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => linkWallet(deps, { caller, origin, user }, body),
  ),
]
