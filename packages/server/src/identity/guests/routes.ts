import { eitherKey, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CLEANUP_MAX, cleanUpGuests } from './expiry.ts'
import {
  CleanUpGuests,
  ConvertedGuest,
  ConvertGuest,
  CreateGuest,
  ExpiredGuests,
  Guest,
  GuestWithTokens,
  ListGuests,
} from './schema.ts'
import { convertGuest, createGuest, expireGuest, getGuest, listGuests } from './service.ts'

export const guestRoutes: Route[] = [
  route(
    'GET /guests',
    {
      summary: 'List guest sessions',
      description: 'Newest first, including those that have ended.',
      callers: secretKey('guests:read'),
      query: ListGuests,
      reply: list(Guest),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listGuests(deps, caller, query),
  ),
  route(
    'POST /guests',
    {
      summary: 'Start a guest session',
      description:
        'Creates a user with a party, hidden from lists, and signs the user in. The tokens end with the session. Emits `guest.created`.',
      callers: eitherKey('guests:write', 'ignored'),
      body: CreateGuest,
      reply: one(GuestWithTokens),
      status: 201,
      secret: true,
      limit: 'sign_in',
      errors: ['quota_exceeded', 'sign_in_refused', 'sign_in_hook_failed'],
    },
    (deps, { caller, origin, body }) => createGuest(deps, { caller, origin }, body),
  ),
  route(
    'POST /guests/cleanup',
    {
      summary: 'End old guest sessions',
      description: `Ends expired guest sessions or, with \`olderThanMinutes\`, all guest sessions that are at least that old. A key that is bound to an app ends those of its app, other keys those of all apps. At most ${CLEANUP_MAX} per call; \`hasMore\` says whether to call again. Emits \`guest.expired\` for each. Expired sessions end without this call too.`,
      callers: secretKey('guests:write'),
      body: CleanUpGuests,
      reply: one(ExpiredGuests),
    },
    (deps, { caller, origin, body }) => cleanUpGuests(deps, { caller, origin }, body),
  ),
  route(
    'GET /guests/:id',
    {
      summary: 'Get a guest session',
      description:
        'Also returns a session that has ended. With a publishable key, a guest can read only its own session, with its token.',
      callers: eitherKey('guests:read', 'own_guest'),
      params: IdParam,
      reply: one(Guest),
      errors: ['session_invalid', 'session_expired', 'session_revoked'],
    },
    (deps, { caller, user, params }) => getGuest(deps, { caller, user }, params.id),
  ),
  route(
    'DELETE /guests/:id',
    {
      summary: 'End a guest session',
      description:
        'Its tokens are refused immediately. Emits `guest.expired`. With a publishable key, a guest can end only its own session, with its token.',
      callers: eitherKey('guests:write', 'own_guest'),
      params: IdParam,
      reply: one(Guest),
      errors: ['session_invalid', 'session_expired', 'session_revoked', 'already_converted'],
    },
    (deps, { caller, origin, user, params }) => expireGuest(deps, { caller, origin, user }, params.id),
  ),
  route(
    'POST /guests/:id/convert',
    {
      summary: 'Convert a guest to a user',
      description:
        "The user keeps the id, party and wallet, and stays signed in. Send an email or an external id. If another user has it, the call is refused and nothing is merged. Emits `user.created` and `guest.converted`. A server gets a new session, for the user's browser.",
      callers: eitherKey('guests:write', 'own_guest'),
      // The call reveals which emails are in use.
      limit: 'sign_in',
      params: IdParam,
      body: ConvertGuest,
      reply: one(ConvertedGuest),
      secret: true,
      errors: [
        'session_invalid',
        'session_expired',
        'session_revoked',
        'user_suspended',
        'already_converted',
        'already_exists',
        'quota_exceeded',
        'guest_expired',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
    },
    (deps, { caller, origin, user, params, body }) => convertGuest(deps, { caller, origin, user }, params.id, body),
  ),
]
