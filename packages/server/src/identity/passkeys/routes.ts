import { currentUser, eitherKey, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { loginOptions, loginVerify, provePasskey } from './login.ts'
import { registerOptions, registerVerify } from './registration.ts'
import {
  ListPasskeys,
  LoginChallenge,
  LoginOptions,
  LoginVerify,
  Passkey,
  PasskeyProof,
  RegisterOptions,
  RegisterVerify,
  RegistrationChallenge,
  RenamePasskey,
} from './schema.ts'
import { listPasskeys, listPasskeysOf, removePasskey, renamePasskey } from './service.ts'

const STEP_UP = [
  'stronger_sign_in_required',
  'mfa_required',
  'mfa_enrollment_required',
  'reauthentication_required',
] as const

export const passkeyRoutes: Route[] = [
  route(
    'POST /auth/passkey/register-options',
    {
      summary: 'Start a passkey registration',
      description:
        'Without a current user, the passkey is for a new user who signs up. With a current user (an access token, or a secret key and `x-user-id`), the passkey is added to that user, which needs a recent sign-in or second factor. Your server can request the challenge for one of your users, and a browser can answer it with the publishable key.',
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
        'Signs in with the new passkey. Emits `passkey.registered`, `user.signed_in` and, for a new user, `user.created`. If the email of a new user is taken, this call returns `already_exists`.',
      callers: eitherKey('auth:write', 'optional'),
      body: RegisterVerify,
      reply: one(SignedIn),
      secret: true,
      errors: [
        'attestation_invalid',
        'stronger_sign_in_required',
        'mfa_required',
        'user_suspended',
        'already_exists',
        'passkey_limit',
        'quota_exceeded',
        'challenge_expired',
        'guest_expired',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
    },
    (deps, { caller, origin, user, body }) => registerVerify(deps, { caller, origin, user }, body),
  ),
  route(
    'GET /auth/passkey/login-options',
    {
      summary: 'Start a passkey sign-in',
      description:
        'Without an email, the authenticator offers all of its passkeys. With an email, only the passkeys of that user are accepted. The response has the same form if no user has the email.',
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
      description:
        'Whatever is wrong with the response to the challenge, the error is the same: 401 `assertion_invalid`. Emits `user.signed_in`.',
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: LoginVerify,
      reply: one(SignedIn),
      secret: true,
      errors: [
        'assertion_invalid',
        'user_suspended',
        'challenge_expired',
        'guest_expired',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
    },
    (deps, { caller, origin, body }) => loginVerify(deps, { caller, origin }, body),
  ),
  route(
    'POST /auth/passkey/prove',
    {
      summary: 'Show a passkey in the current session',
      description:
        'Answers a challenge of `GET /auth/passkey/login-options` with a passkey of the current user, and begins no other session. It counts as a sign-in where a call needs a recent one, and opens a session that began with a token of a trusted issuer. It does not replace a second factor. Use the new access token from then on.',
      callers: currentUser(),
      limit: 'sign_in',
      body: LoginVerify,
      reply: one(PasskeyProof),
      secret: true,
      errors: ['assertion_invalid', 'challenge_expired', 'session_missing'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => provePasskey(deps, { caller, origin, user }, body),
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
      summary: "Rename one of the current user's passkeys",
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
        'Needs a recent sign-in or second factor. You cannot remove the last passkey of a user who has no messenger account, nor a passkey that is the only wrap of a key share. Other wraps of the passkey are deleted with it. No session of the user counts as having shown a passkey any more, until it shows one again. Emits `passkey.removed`.',
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
