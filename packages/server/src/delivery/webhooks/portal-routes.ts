import { IdParam, list, one, portalToken, type Route, route } from '../../platform/http/route.ts'
import { getDelivery, listDeliveries, retryDelivery } from './deliveries.ts'
import { checkChoice, checkTestType } from './portal-choice.ts'
import {
  CreatePortalWebhook,
  PortalDelivery,
  PortalDeliveryWithPayload,
  PortalWebhook,
  PortalWebhookWithSecret,
  RotatedPortalWebhook,
  UpdatePortalWebhook,
} from './portal-schema.ts'
import { DeliveryParams, ListDeliveries, ListWebhooks, RotateWebhook, TestWebhook } from './schema.ts'
import { awaitTest, type QueuedTest, queueTest } from './send-test.ts'
import {
  checkNewUrls,
  checkUrls,
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateSecret,
  updateWebhook,
} from './service.ts'

const callers = portalToken()

/**
 * What a subscriber may do with their webhooks, below `/portal/api`. The functions are those of the routes below `/v1`: a
 * caller with a `subscriberId` finds no webhook of anybody else.
 */
export const portalWebhookRoutes: Route[] = [
  route(
    'GET /webhooks',
    {
      summary: 'List webhooks',
      callers,
      query: ListWebhooks.pick({ page: true, page_size: true }),
      reply: list(PortalWebhook),
    },
    (deps, { caller, query }) => listWebhooks(deps, caller, query),
  ),
  route(
    'POST /webhooks',
    {
      summary: 'Create a webhook',
      callers,
      body: CreatePortalWebhook,
      reply: one(PortalWebhookWithSecret),
      status: 201,
      secret: true,
      errors: ['webhook_url_blocked', 'webhook_limit_reached'],
      before: async (deps, { caller, body }) => {
        await checkChoice(deps, caller, body.events)
        await checkUrls(deps, caller, body, true)
      },
    },
    (deps, { caller, origin, body }) => createWebhook(deps, { caller, origin }, body),
  ),
  route(
    'GET /webhooks/:id',
    { summary: 'Get a webhook', callers, params: IdParam, reply: one(PortalWebhook) },
    (deps, { caller, params }) => getWebhook(deps, caller, params.id),
  ),
  route(
    'PATCH /webhooks/:id',
    {
      summary: 'Change a webhook',
      callers,
      params: IdParam,
      body: UpdatePortalWebhook,
      reply: one(PortalWebhook),
      errors: ['webhook_url_blocked'],
      before: async (deps, { caller, params, body }) => {
        await checkChoice(deps, caller, body.events, params.id)
        await checkNewUrls(deps, caller, params.id, body)
      },
    },
    (deps, { caller, origin, params, body }) => updateWebhook(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /webhooks/:id',
    { summary: 'Delete a webhook', callers, params: IdParam, reply: one(PortalWebhook) },
    (deps, { caller, origin, params }) => deleteWebhook(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /webhooks/:id/rotate',
    {
      summary: 'Rotate the signing secret',
      callers,
      params: IdParam,
      body: RotateWebhook,
      reply: one(RotatedPortalWebhook),
      secret: true,
    },
    (deps, { caller, origin, params, body }) => rotateSecret(deps, { caller, origin }, params.id, body),
  ),
  route(
    'POST /webhooks/:id/test',
    {
      summary: 'Send a test event',
      callers,
      params: IdParam,
      body: TestWebhook,
      reply: one(PortalDelivery),
      before: (deps, { caller, body }) => checkTestType(deps, caller, body.eventType),
    },
    {
      effect: (deps, { caller, origin, params, body }) =>
        queueTest(deps, caller, origin, params.id, body.eventType ?? 'webhook.test'),
      finish: (deps, { caller }, recovery) => awaitTest(deps, caller, recovery as QueuedTest),
    },
  ),
  route(
    'GET /webhooks/:id/deliveries',
    {
      summary: 'List deliveries',
      callers,
      params: IdParam,
      query: ListDeliveries.pick({ page: true, page_size: true, status: true }),
      reply: list(PortalDelivery),
    },
    (deps, { caller, params, query }) => listDeliveries(deps, caller, params.id, query),
  ),
  route(
    'GET /webhooks/:id/deliveries/:deliveryId',
    { summary: 'Get a delivery', callers, params: DeliveryParams, reply: one(PortalDeliveryWithPayload) },
    (deps, { caller, params }) => getDelivery(deps, caller, params.id, params.deliveryId),
  ),
  route(
    'POST /webhooks/:id/deliveries/:deliveryId/retry',
    {
      summary: 'Retry a delivery',
      callers,
      params: DeliveryParams,
      reply: one(PortalDelivery),
      errors: ['webhook_disabled', 'delivery_not_retryable'],
    },
    (deps, { caller, origin, params }) => retryDelivery(deps, { caller, origin }, params.id, params.deliveryId),
  ),
]
