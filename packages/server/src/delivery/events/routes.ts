import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { Delivery } from '../webhooks/schema.ts'
import { checkEvents, publishEvents } from './publish.ts'
import {
  EventPage,
  FeedEvent,
  ListDeliveriesOfEvent,
  ListEvents,
  PublishEvent,
  PublishEvents,
  PublishedEvents,
} from './schema.ts'
import { getEvent, listDeliveries, listEvents } from './service.ts'

const fieldOfOne = (_: number, name: string) => name
const fieldOfBatch = (at: number, name: string) => `events[${at}].${name}`
const bodyFieldOfBatch = (keys: string) => keys.replace(/^events\.(\d+)/, 'events[$1]')

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
    'POST /events',
    {
      summary: 'Publish an event',
      description:
        'Publishes an event of yours. It is stored before the response. Halfkey delivers it to the webhooks that subscribe to its type, if its `subscriberId` and their filters allow it. It is signed and retried like Halfkey’s own events.',
      callers: secretKey('events:publish'),
      body: PublishEvent,
      reply: one(FeedEvent),
      status: 201,
      errors: ['event_type_unknown', 'event_type_archived', 'event_key_conflict'],
      extension: true,
      before: (deps, { caller, body }) => checkEvents(deps, caller, [body], fieldOfOne),
    },
    async (deps, { caller, origin, body }) => {
      const [event] = await publishEvents(deps, { caller, origin }, [body], fieldOfOne)
      return event as FeedEvent
    },
  ),
  route(
    'POST /events/batch',
    {
      summary: 'Publish several events',
      description: 'Publishes 1 to 100 events: all of them, or none if one is refused. The body may have 1 MiB.',
      callers: secretKey('events:publish'),
      body: PublishEvents,
      reply: one(PublishedEvents),
      status: 201,
      errors: ['event_type_unknown', 'event_type_archived', 'event_key_conflict'],
      extension: true,
      bodyField: bodyFieldOfBatch,
      before: (deps, { caller, body }) => checkEvents(deps, caller, body.events, fieldOfBatch),
    },
    async (deps, { caller, origin, body }) => ({
      events: await publishEvents(deps, { caller, origin }, body.events, fieldOfBatch),
    }),
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
        'Returns one delivery for each webhook that the event was sent to or waits for, with its last ten attempts.',
      callers: secretKey('webhooks:read'),
      params: IdParam,
      query: ListDeliveriesOfEvent,
      reply: list(Delivery),
      replica: true,
      extension: true,
    },
    (deps, { caller, params, query }) => listDeliveries(deps, caller, params.id, query),
  ),
]
