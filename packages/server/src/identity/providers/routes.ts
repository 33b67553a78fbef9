import { currentUser, eitherKey, one, type PlainRoute, type Route, route } from '../../platform/http/route.ts'
import { Identity } from '../identities/schema.ts'
import { SignedIn } from '../users/schema.ts'
import { LinkProvider, ProviderParam, ProviderStart, ProviderToken, StartProvider } from './schema.ts'
import {
  beginAtProvider,
  formFromProvider,
  linkProvider,
  prepareProviderLink,
  prepareSignIn,
  returnFromProvider,
  signInWithToken,
  startProvider,
} from './service.ts'

const STEP_UP = [
  'stronger_sign_in_required',
  'mfa_required',
  'mfa_enrollment_required',
  'reauthentication_required',
] as const

export const providerSignInRoutes: Route[] = [
  route(
    'POST /auth/providers/:id/start',
    {
      summary: 'Start a sign-in with a provider',
      description:
        'Returns the URL to send the browser to. It comes back to `redirectUrl` with a `code` for `POST /auth/exchange`, or with `error`: `access_denied` if the person did not agree, `provider_failed` if the provider gave no valid answer, or the code of an error of Halfkey, such as `identity_unknown`. Users are found by the provider and their account there, never by an email. The first sign-in of an account creates a user, if the `jit` of the provider is `create`. A session that begins like this is weak: if the account has a passkey or a second factor, calls that touch keys, delegated sessions and ways to sign in need one of them to be shown first. Emits `user.signed_in` and, for a new user, `user.created` and `identity.linked`.',
      callers: eitherKey('auth:write', 'optional'),
      limit: 'sign_in',
      params: ProviderParam,
      body: StartProvider,
      reply: one(ProviderStart),
      secret: true,
      errors: STEP_UP,
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => startProvider(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'POST /auth/providers/:id/token',
    {
      summary: 'Sign in with the ID token of a native app',
      description:
        "Signs in with an ID token that the provider gave to an app of yours on a phone: for the provider's `clientId` or one of its `nativeClientIds`, at most ten minutes old, and once. Make a random `nonce`, and give the provider its SHA-256. GitHub issues no ID tokens. Users are found as with `POST /auth/providers/:id/start`. Emits the same events.",
      callers: eitherKey('auth:write', 'ignored'),
      limit: 'sign_in',
      params: ProviderParam,
      body: ProviderToken,
      reply: one(SignedIn),
      secret: true,
      before: (deps, { caller, params, body }) => prepareSignIn(deps, caller, params.id, body),
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
    (deps, { caller, origin, params, body }) => signInWithToken(deps, { caller, origin }, params.id, body),
  ),
  route(
    'POST /auth/providers/:id/link',
    {
      summary: 'Link an account at a provider to the current user',
      description:
        'Takes the `code` that came back from a start with the purpose `link`, in the session that started it, or an ID token of a native app. From then on, the account signs the user in. An account belongs to one user. Emits `identity.linked`.',
      callers: currentUser(),
      limit: 'sign_in',
      params: ProviderParam,
      body: LinkProvider,
      reply: one(Identity),
      status: 201,
      before: (deps, { caller, user, params, body }) => prepareProviderLink(deps, { caller, user }, params.id, body),
      errors: [
        ...STEP_UP,
        'code_invalid',
        'code_expired',
        'issuer_unavailable',
        'token_invalid',
        'already_exists',
        'identity_limit',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => linkProvider(deps, { caller, origin, user }, params.id, body),
  ),
]

/** Where browsers go to a provider, and come back. */
export const providerPages: PlainRoute[] = [
  { path: '/signin/providers/:id/begin', handler: beginAtProvider },
  { path: '/signin/providers/:id/callback', handler: returnFromProvider },
  { method: 'POST', path: '/signin/providers/:id/callback', handler: formFromProvider },
]
