import { currentUser, eitherKey, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { loginOptions, loginVerify } from './login.ts'
import { registerOptions, registerVerify } from './registration.ts'
import {
  ListPasskeys,
  LoginChallenge,
  LoginOptions,
  LoginVerify,
  Passkey,
  RegisterOptions,
  RegisterVerify,
  RegistrationChallenge,
  RenamePasskey,
} from './schema.ts'
import { listPasskeys, listPasskeysOf, removePasskey, renamePasskey } from './service.ts'

const STEP_UP = ['mfa_required', 'mfa_enrollment_required', 'reauthentication_required'] as const

export const passkeyRoutes: Route[] = [
  route(
    'POST /auth/passkey/register-options',
    {
      summary: 'Begin to register a passkey',
      description:
        'Without a current user, for somebody who signs up. With one (an access token, or a secret key and `x-user-id`) the passkey is added to that user: needs a recent sign-in or second factor. The challenge may be answered elsewhere: a server can make one for a user of its own, and a browser complete it with the publishable key.',
      callers: eitherKey('auth:write', 'optional'),
      limit: 'sign_in',
      body: RegisterOptions,
      reply: one(RegistrationChallenge),
      secret: true,
      errors: [...STEP_UP, 'user_suspended', 'passkey_limit', 'quota_exceeded', 'guest_expired'],
    },
    (deps, { caller, origin, user, body }) => registerOptions(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /auth/passkey/register-verify',
    {
      summary: 'Register a passkey',
      description:
        'Signs in with the new passkey. Emits `user.created` when somebody signs up, `passkey.registered` and `user.signed_in`. An email that is taken is told here.',
      callers: eitherKey('auth:write', 'optional'),
      body: RegisterVerify,
      reply: one(SignedIn),
      secret: true,
      errors: [
        'attestation_invalid',
        'user_suspended',
        'already_exists',
        'passkey_limit',
        'quota_exceeded',
        'challenge_expired',
        'guest_expired',
      ],
    },
    (deps, { caller, origin, user, body }) => registerVerify(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /auth/passkey/login-options',
    {
      summary: 'Begin to sign in with a passkey',
      description:
        'Without an email the authenticator offers what it has. With one only that user’s passkeys count; an email that nobody has is answered in the same way.',
      callers: eitherKey('auth:write', 'ignored'),
      query: LoginOptions,
      reply: one(LoginChallenge),
      secret: true,
    },
    (deps, { caller, origin, query }) => loginOptions(deps, { caller, origin }, query),
  ),
  route(
    'POST /auth/passkey/login-verify',
    {
      summary: 'Sign in with a passkey',
      description: 'Whatever is wrong with the answer, it is one error. Emits `user.signed_in`.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: LoginVerify,
      reply: one(SignedIn),
      secret: true,
      errors: ['assertion_invalid', 'user_suspended', 'challenge_expired', 'guest_expired'],
    },
    (deps, { caller, origin, body }) => loginVerify(deps, { caller, origin }, body),
  ),
  route(
    'GET /auth/passkeys',
    {
      summary: "List the current user's passkeys",
      description: 'Newest first.',
      callers: currentUser(),
      query: ListPasskeys,
      reply: list(Passkey),
      extension: true,
    },
    (deps, { caller, user, query }) => listPasskeys(deps, caller.tenantId, user.id, query),
  ),
  route(
    'PATCH /auth/passkeys/:id',
    {
      summary: "Name one of the current user's passkeys",
      callers: currentUser(),
      params: IdParam,
      body: RenamePasskey,
      reply: one(Passkey),
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => renamePasskey(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'DELETE /auth/passkeys/:id',
    {
      summary: "Remove one of the current user's passkeys",
      description:
        'Needs a recent sign-in or second factor. The last one stays, unless the user can sign in by a messenger; so does one that is a key share’s only wrap. Its other wraps go with it. Emits `passkey.removed`.',
      callers: currentUser(),
      params: IdParam,
      reply: one(Passkey),
      errors: [...STEP_UP, 'last_sign_in_method', 'share_would_be_lost'],
      extension: true,
    },
    (deps, { caller, origin, user, params }) => removePasskey(deps, { caller, origin, user }, params.id),
  ),
  route(
    'GET /users/:id/passkeys',
    {
      summary: "List a user's passkeys",
      description: 'Newest first.',
      callers: secretKey('users:read'),
      params: IdParam,
      query: ListPasskeys,
      reply: list(Passkey),
      extension: true,
    },
    (deps, { caller, params, query }) => listPasskeysOf(deps, caller, params.id, query),
  ),
]
