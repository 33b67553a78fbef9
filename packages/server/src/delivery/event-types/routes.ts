import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CreateEventType, CustomEventType, ListEventTypes, UpdateEventType } from './schema.ts'
import {
  archiveEventType,
  checkChange,
  checkDefinition,
  createEventType,
  getEventType,
  listEventTypes,
  updateEventType,
} from './service.ts'

const read = secretKey('event_types:read')
const write = secretKey('event_types:write')

export const eventTypeRoutes: Route[] = [
  route(
    'GET /event-types',
    {
      summary: 'List your event types',
      description:
        'Types of the events that you publish. Archived types are listed only with `status=archived`. `GET /webhooks/event-types` lists the types of Halfkey’s own events.',
      callers: read,
      query: ListEventTypes,
      reply: list(CustomEventType),
      extension: true,
    },
    (deps, { caller, query }) => listEventTypes(deps, caller, query),
  ),
  route(
    'POST /event-types',
    {
      summary: 'Create an event type',
      description:
        'Defines a type of event that you publish with `POST /events`. Its name is unique in the app. Names that begin with a family of Halfkey’s events, such as `user.`, or with `halfkey.` are refused.',
      callers: write,
      body: CreateEventType,
      reply: one(CustomEventType),
      status: 201,
      errors: ['already_exists', 'event_type_limit_reached'],
      before: (deps, { caller, body }) => checkDefinition(deps, caller, body),
      extension: true,
    },
    (deps, { caller, origin, body }) => createEventType(deps, { caller, origin }, body),
  ),
  route(
    'GET /event-types/:id',
    {
      summary: 'Get an event type',
      callers: read,
      params: IdParam,
      reply: one(CustomEventType),
      extension: true,
    },
    (deps, { caller, params }) => getEventType(deps, caller, params.id),
  ),
  route(
    'PATCH /event-types/:id',
    {
      summary: 'Change an event type',
      description:
        'The name cannot be changed. A changed `schema` gets a new `schemaVersion` and applies to events that are published from now on. `status: active` restores an archived type.',
      callers: write,
      params: IdParam,
      body: UpdateEventType,
      reply: one(CustomEventType),
      before: (deps, { caller, params, body }) => checkChange(deps, caller, params.id, body),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateEventType(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /event-types/:id',
    {
      summary: 'Archive an event type',
      description: 'Events of this type can no longer be published. Events that were published are still delivered.',
      callers: write,
      params: IdParam,
      reply: one(CustomEventType),
      extension: true,
    },
    (deps, { caller, origin, params }) => archiveEventType(deps, { caller, origin }, params.id),
  ),
]
