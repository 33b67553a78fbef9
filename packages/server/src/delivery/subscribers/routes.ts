import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CreateSubscriber, ListSubscribers, Subscriber, UpdateSubscriber } from './schema.ts'
import { createSubscriber, deleteSubscriber, getSubscriber, listSubscribers, updateSubscriber } from './service.ts'

const read = secretKey('subscribers:read')
const write = secretKey('subscribers:write')

export const subscriberRoutes: Route[] = [
  route(
    'GET /subscribers',
    {
      summary: 'List subscribers',
      callers: read,
      query: ListSubscribers,
      reply: list(Subscriber),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listSubscribers(deps, caller, query),
  ),
  route(
    'POST /subscribers',
    {
      summary: 'Create a subscriber',
      description:
        'A subscriber is a customer of your app. Publish events for them with the `subscriberId` of `POST /events`, and let them manage their webhooks with `POST /subscribers/:id/portal-link`.',
      callers: write,
      body: CreateSubscriber,
      reply: one(Subscriber),
      status: 201,
      errors: ['already_exists'],
      extension: true,
    },
    (deps, { caller, origin, body }) => createSubscriber(deps, { caller, origin }, body),
  ),
  route(
    'GET /subscribers/:id',
    { summary: 'Get a subscriber', callers: read, params: IdParam, reply: one(Subscriber), extension: true },
    (deps, { caller, params }) => getSubscriber(deps, caller, params.id),
  ),
  route(
    'PATCH /subscribers/:id',
    {
      summary: 'Change a subscriber',
      callers: write,
      params: IdParam,
      body: UpdateSubscriber,
      reply: one(Subscriber),
      errors: ['already_exists'],
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateSubscriber(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /subscribers/:id',
    {
      summary: 'Delete a subscriber',
      description:
        'Its webhooks are deleted, their pending deliveries are cancelled, and the links to its portal stop working.',
      callers: write,
      params: IdParam,
      reply: one(Subscriber),
      extension: true,
    },
    (deps, { caller, origin, params }) => deleteSubscriber(deps, { caller, origin }, params.id),
  ),
]
