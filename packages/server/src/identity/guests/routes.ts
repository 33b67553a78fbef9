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
      description: 'Newest first, those that have ended too.',
      callers: secretKey('guests:read'),
      query: ListGuests,
      reply: list(Guest),
      extension: true,
    },
    (deps, { caller, query }) => listGuests(deps, caller, query),
  ),
  route(
    'POST /guests',
    {
      summary: 'Begin a guest session',
      description:
        'Makes a user that lists hide, with a party, and signs it in; its tokens end with the session. Emits `guest.created`.',
      callers: eitherKey('guests:write', 'ignored'),
      body: CreateGuest,
      reply: one(GuestWithTokens),
      status: 201,
      secret: true,
      limit: 'sign_in',
      errors: ['quota_exceeded'],
    },
    (deps, { caller, origin, body }) => createGuest(deps, { caller, origin }, body),
  ),
  route(
    'POST /guests/cleanup',
    {
      summary: 'End old guest sessions',
      description: `Ends those whose time is over, or with \`olderThanMinutes\` those created so long ago: of the key's app, or of all apps. At most ${CLEANUP_MAX} a call; \`hasMore\` says whether to call again. Emits \`guest.expired\` for each. Those whose time is over end without this call too.`,
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
      description: "One that has ended too. With a publishable key: the guest's own, by its token.",
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
        "Its tokens are refused at once. Emits `guest.expired`. With a publishable key: the guest's own, by its token.",
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
        "The user keeps the guest's id, party and wallet, and stays signed in; an email or an external id is needed. Nothing is merged with a user who has them already. Emits `user.created` and `guest.converted`. A server gets a new session, for the user's browser.",
      callers: eitherKey('guests:write', 'own_guest'),
      // It tells which emails are in use.
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
      ],
    },
    (deps, { caller, origin, user, params, body }) => convertGuest(deps, { caller, origin, user }, params.id, body),
  ),
]
