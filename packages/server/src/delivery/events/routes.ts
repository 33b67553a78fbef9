import { one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { EventPage, ListEvents } from './schema.ts'
import { listEvents } from './service.ts'

export const eventRoutes: Route[] = [
  route(
    'GET /events',
    {
      summary: 'Read the event feed',
      description:
        'All events, in one order that never changes, for whoever asks instead of being called: give `nextCursor` as `after` and each event comes once. With `wait` the call answers as soon as there is one. Begin at the oldest event kept, `since` a time, or with the `last` few; at most one of these. A key that is bound to an app gets its events only.',
      callers: secretKey('webhooks:read'),
      query: ListEvents,
      reply: one(EventPage),
      extension: true,
    },
    (deps, { caller, query }) => listEvents(deps, caller, query),
  ),
]
