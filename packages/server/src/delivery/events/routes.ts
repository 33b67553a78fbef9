import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { Delivery } from '../webhooks/schema.ts'
import { EventPage, FeedEvent, ListDeliveriesOfEvent, ListEvents } from './schema.ts'
import { getEvent, listDeliveries, listEvents } from './service.ts'

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
  route(
    'GET /events/:id',
    {
      summary: 'Get an event',
      description: 'As webhooks receive it. After its retention period an event is not found.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      reply: one(FeedEvent),
      extension: true,
    },
    (deps, { caller, params }) => getEvent(deps, caller, params.id),
  ),
  route(
    'GET /events/:id/deliveries',
    {
      summary: 'List the deliveries of an event',
      description:
        'Where the event was sent: one delivery for each webhook that was subscribed when it happened, with its last ten attempts.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      query: ListDeliveriesOfEvent,
      reply: list(Delivery),
      extension: true,
    },
    (deps, { caller, params, query }) => listDeliveries(deps, caller, params.id, query),
  ),
]
