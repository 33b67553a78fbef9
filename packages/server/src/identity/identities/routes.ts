import { currentUser, eitherKey, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { exchangeToken, prepareExchange } from './exchange.ts'
import { linkIdentity, prepareLink } from './link.ts'
import { ExchangeToken, Identity, LinkIdentity, ListIdentities } from './schema.ts'
import { listIdentities, listIdentitiesOf, unlinkIdentity } from './service.ts'

const STEP_UP = [
  'stronger_sign_in_required',
  'mfa_required',
  'mfa_enrollment_required',
  'reauthentication_required',
] as const

export const identityRoutes: Route[] = [
  route(
    'POST /auth/token/exchange',
    {
      summary: 'Exchange a token of your own login',
      description:
        "Signs in with a JWT of an issuer that the app trusts (`/apps/:id/issuers`), after RFC 8693. A token with a `jti` is accepted once. The user is the one with this identity: the issuer together with the token's subject, never an email. The first token of an identity creates a user, if the issuer's `jit` is `create`. A session that begins like this is weak: if the account has a passkey or a second factor, calls that touch keys, delegated sessions and ways to sign in need one of them to be shown first. Emits `user.signed_in` and, for a new user, `user.created` and `identity.linked`.",
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      body: ExchangeToken,
      reply: one(SignedIn),
      secret: true,
      before: (deps, { caller, body }) => prepareExchange(deps, caller, body),
      errors: [
        'issuer_unavailable',
        'token_invalid',
        'identity_unknown',
        'user_suspended',
        'quota_exceeded',
        'already_exists',
        'guest_expired',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
      extension: true,
    },
    (deps, { caller, origin, body }) => exchangeToken(deps, { caller, origin }, body),
  ),
  route(
    'GET /auth/identities',
    {
      summary: "List the current user's identities",
      description: 'Accounts elsewhere that sign the user in. Newest first.',
      callers: currentUser(),
      query: ListIdentities,
      reply: list(Identity),
      extension: true,
    },
    (deps, { caller, user, query }) => listIdentities(deps, caller.tenantId, user.id, query),
  ),
  route(
    'POST /auth/identities',
    {
      summary: 'Link an identity to the current user',
      description:
        'From then on, tokens of this issuer with this subject sign the user in. Needs a recent second factor or sign-in, and a token that was not used before. An identity belongs to one user. Emits `identity.linked`.',
      callers: currentUser(),
      body: LinkIdentity,
      reply: one(Identity),
      status: 201,
      before: (deps, { caller, user, body }) => prepareLink(deps, { caller, user }, body),
      errors: [...STEP_UP, 'issuer_unavailable', 'token_invalid', 'already_exists', 'identity_limit'],
      extension: true,
    },
    (deps, { caller, origin, user, body }) => linkIdentity(deps, { caller, origin, user }, body),
  ),
  route(
    'DELETE /auth/identities/:id',
    {
      summary: 'Unlink an identity',
      description:
        'It no longer signs the user in; sessions that have begun go on. The last way to sign in cannot be removed. Needs a recent second factor or sign-in. Returns the record in its final state. Emits `identity.unlinked`.',
      callers: currentUser(),
      params: IdParam,
      reply: one(Identity),
      errors: [...STEP_UP, 'last_sign_in_method'],
      extension: true,
    },
    (deps, { caller, origin, user, params }) => unlinkIdentity(deps, { caller, origin, user }, params.id),
  ),
  route(
    'GET /users/:id/identities',
    {
      summary: "List a user's identities",
      description: 'Newest first.',
      callers: secretKey('users:read'),
      params: IdParam,
      query: ListIdentities,
      reply: list(Identity),
      extension: true,
    },
    (deps, { caller, params, query }) => listIdentitiesOf(deps, caller, params.id, query),
  ),
]
