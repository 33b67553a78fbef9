import {
  currentUser,
  eitherKey,
  IdParam,
  list,
  one,
  type PlainRoute,
  type Route,
  route,
  secretKey,
} from '../../platform/http/route.ts'
import { jwkSet } from '../../platform/security/access-token.ts'
import { ListSessions, LoggedOut, LogOut, Refresh, Session, Tokens } from './schema.ts'
import { endSession, listSessions, listSessionsOf, logOut, refresh } from './service.ts'

export const sessionRoutes: Route[] = [
  route(
    'POST /auth/refresh',
    {
      summary: 'Refresh a session',
      description:
        'Exchanges a refresh token for the next one and a new access token. If the response is lost, the same token returns the same next token for 30 seconds. If it is used again later, or after the next token was used, the session ends.',
      callers: eitherKey('auth:write', 'ignored'),
      body: Refresh,
      reply: one(Tokens),
      secret: true,
      errors: ['session_invalid', 'session_expired', 'session_revoked', 'user_suspended', 'guest_expired'],
      extension: true,
    },
    (deps, { caller, origin, body }) => refresh(deps, { caller, origin }, body.refreshToken),
  ),
  route(
    'POST /auth/logout',
    {
      summary: 'Log out',
      description:
        'Ends the session that makes the call, immediately. With `everywhere`, it ends all sessions of the user. A server that acts for a user ends all of them.',
      callers: currentUser(),
      body: LogOut,
      reply: one(LoggedOut),
      extension: true,
    },
    (deps, { caller, origin, user, body }) => logOut(deps, { caller, origin, user }, body.everywhere ?? false),
  ),
  route(
    'GET /auth/sessions',
    {
      summary: "List the current user's sessions",
      description: 'Newest first. By default, only active sessions.',
      callers: currentUser(),
      query: ListSessions,
      reply: list(Session),
      extension: true,
    },
    (deps, { caller, user, query }) => listSessions(deps, caller.tenantId, user, query),
  ),
  route(
    'DELETE /auth/sessions/:id',
    {
      summary: "End one of the current user's sessions",
      callers: currentUser(),
      params: IdParam,
      reply: one(Session),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => endSession(deps, { caller, origin, user }, params.id),
  ),
  route(
    'GET /users/:id/sessions',
    {
      summary: "List a user's sessions",
      description: 'Newest first. By default, only active sessions.',
      callers: secretKey('users:read'),
      params: IdParam,
      query: ListSessions,
      reply: list(Session),
      extension: true,
    },
    (deps, { caller, params, query }) => listSessionsOf(deps, caller, params.id, query),
  ),
]

/** How long verifiers may cache the key set. If they find an unknown `kid`, they read it again. */
const JWKS_SECONDS = 300

/** The public keys for verifying access tokens. */
export const jwksRoute: PlainRoute = {
  path: '/.well-known/jwks.json',
  handler: async (deps) => ({
    status: 200,
    contentType: 'application/jwk-set+json',
    headers: { 'cache-control': `public, max-age=${JWKS_SECONDS}`, 'access-control-allow-origin': '*' },
    body: JSON.stringify(await jwkSet(deps)),
  }),
}
