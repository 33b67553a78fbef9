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
        'Returns all events, in one order that never changes. Send `nextCursor` as `after` to get each event once. With `wait`, the call returns as soon as there is an event. The feed starts at the oldest event kept, at a time (`since`), or with the `last` events; give at most one of these. A key that is bound to an app gets only the events of that app.',
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
      description: 'Returns the event as webhooks receive it. An event is not found after its retention period.',
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
        'Returns one delivery for each webhook that was subscribed when the event happened, with its last ten attempts.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      query: ListDeliveriesOfEvent,
      reply: list(Delivery),
      extension: true,
    },
    (deps, { caller, params, query }) => listDeliveries(deps, caller, params.id, query),
  ),
]
