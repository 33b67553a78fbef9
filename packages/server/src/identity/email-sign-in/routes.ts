import { currentUser, eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import { SignedIn, User } from '../users/schema.ts'
import { ChangeEmail, EmailChallenge, LinkEmail, StartEmail, VerifyEmail } from './schema.ts'
import { changeEmail, linkEmail, startEmail, verifyEmail } from './service.ts'

const ANSWER = ['invalid_code', 'challenge_expired', 'email_locked'] as const

export const emailSignInRoutes: Route[] = [
  route(
    'POST /auth/email/start',
    {
      summary: 'Send a sign-in code by email',
      description:
        'Sends six digits that are valid for ten minutes and five attempts. A later code replaces an earlier one of the same address and purpose. The response is the same whether a user has the address or not. At most ten codes an hour are sent to one address. The app must have `email.enabled`.',
      callers: eitherKey('auth:write', 'optional'),
      limit: 'sign_in',
      body: StartEmail,
      reply: one(EmailChallenge),
      secret: true,
      errors: [
        'email_sign_in_disabled',
        'email_recovery_disabled',
        'email_not_configured',
        'email_locked',
        'stronger_sign_in_required',
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => startEmail(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /auth/email/verify',
    {
      summary: 'Sign in with a code',
      description:
        'Signs in the user who has the address. A code sent to an address that nobody has creates a user, if the app has `email.signUp`. A user whose address was never confirmed here is not signed in: another person may have named it (`email_not_linked`). Twenty wrong codes a day lock the address. A session that begins like this is weak: if the account has a passkey or a second factor, calls that touch keys, delegated sessions and ways to sign in need one of them to be shown first. Emits `user.signed_in` and, the first time, `identity.linked`.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: VerifyEmail,
      reply: one(SignedIn),
      secret: true,
      errors: [
        ...ANSWER,
        'email_not_linked',
        'sign_up_disabled',
        'email_sign_in_disabled',
        'already_exists',
        'user_suspended',
        'quota_exceeded',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
      extension: true,
    },
    (deps, { caller, origin, body }) => verifyEmail(deps, { caller, origin }, body),
  ),
  route(
    'POST /auth/email/link',
    {
      summary: "Confirm the current user's email",
      description:
        'Takes the code of `POST /auth/email/start` with the purpose `link`. The address becomes the verified email of the user, who can sign in with it from then on. Emits `user.updated` and `identity.linked`.',
      callers: currentUser(),
      limit: 'sign_in',
      body: LinkEmail,
      reply: one(User),
      errors: [...ANSWER, 'already_exists', 'stronger_sign_in_required', 'mfa_required'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => linkEmail(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /auth/email/change',
    {
      summary: "Change the current user's email",
      description:
        'Takes the two codes of `POST /auth/email/start` with the purpose `change`: the one sent to the new address, and the one sent to the address that the user has. A wrong code leaves the other one unused. The new address becomes the verified email of the user, who signs in with it from then on and with the old one no more. An address that was never confirmed needs no code. Emits `user.updated`, `identity.linked` and, if the user signed in with the old address, `identity.unlinked`.',
      callers: currentUser(),
      limit: 'sign_in',
      body: ChangeEmail,
      reply: one(User),
      errors: [...ANSWER, 'already_exists', 'stronger_sign_in_required', 'mfa_required'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => changeEmail(deps, { caller, origin, user }, body),
  ),
]
