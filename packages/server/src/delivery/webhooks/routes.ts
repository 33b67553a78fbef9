import { z } from 'zod'
import { IdParam, list, one, Paging, type Route, route, secretKey } from '../../platform/http/route.ts'
import { JobRecord, toJobRecord } from '../jobs/schema.ts'
import { startBulk } from './bulk.ts'
import { getDelivery, listDeliveries, purgeDeadLetters, retryDelivery } from './deliveries.ts'
import { recoverDeadLetters } from './recover.ts'
import {
  CheckFilter,
  CreateWebhook,
  Delivery,
  DeliveryParams,
  DeliveryWithPayload,
  EventTypeRecord,
  FilterCheck,
  ListDeliveries,
  ListWebhooks,
  PurgeDeliveries,
  Purged,
  RecoverWebhook,
  RotatedWebhook,
  RotateWebhook,
  StartDeliveriesBulk,
  TestWebhook,
  UpdateWebhook,
  Webhook,
  WebhookWithSecret,
} from './schema.ts'
import { awaitTest, type QueuedTest, queueTest } from './send-test.ts'
import {
  checkNewUrls,
  checkUrls,
  createWebhook,
  deleteWebhook,
  eventTypes,
  getWebhook,
  listWebhooks,
  rotateSecret,
  tryFilter,
  updateWebhook,
} from './service.ts'

const read = secretKey('webhooks:read')
const write = secretKey('webhooks:write')

export const webhookRoutes: Route[] = [
  route(
    'GET /webhooks',
    { summary: 'List webhooks', callers: read, query: ListWebhooks, reply: list(Webhook) },
    (deps, { caller, query }) => listWebhooks(deps, caller, query),
  ),
  route(
    'POST /webhooks',
    {
      summary: 'Create a webhook',
      description:
        'Subscribes an endpoint to events. Only this response contains the signing `secret`. The URL is checked now and before every delivery.',
      callers: write,
      body: CreateWebhook,
      reply: one(WebhookWithSecret),
      status: 201,
      secret: true,
      errors: ['webhook_url_blocked', 'webhook_limit_reached'],
      before: (deps, { caller, body }) => checkUrls(deps, caller, body, body.subscriberId != null),
    },
    (deps, { caller, origin, body }) => createWebhook(deps, { caller, origin }, body),
  ),
  route(
    'GET /webhooks/event-types',
    {
      summary: 'List event types',
      description:
        'Returns every type of Halfkey’s own events, with an example. `GET /event-types` lists the types that you defined.',
      callers: read,
      query: z.strictObject(Paging),
      reply: list(EventTypeRecord),
      extension: true,
    },
    async (_, { query }) => eventTypes(query),
  ),
  route(
    'POST /webhooks/filters/check',
    {
      summary: 'Check a filter',
      description: 'Applies a filter to an event that you send. Nothing is stored or delivered.',
      callers: read,
      body: CheckFilter,
      reply: one(FilterCheck),
      extension: true,
    },
    async (_, { body }) => tryFilter(body),
  ),
  route(
    'GET /webhooks/:id',
    { summary: 'Get a webhook', callers: read, params: IdParam, reply: one(Webhook), extension: true },
    (deps, { caller, params }) => getWebhook(deps, caller, params.id),
  ),
  route(
    'PATCH /webhooks/:id',
    {
      summary: 'Change a webhook',
      description:
        '`status: paused` holds deliveries. `active` resumes them, and enables a disabled webhook. All changes except those of `filter` and `events` apply to waiting deliveries too. A `url` with another scheme, host, port or path needs `headers` and `oauth` again.',
      callers: write,
      params: IdParam,
      body: UpdateWebhook,
      reply: one(Webhook),
      errors: ['webhook_url_blocked'],
      before: (deps, { caller, params, body }) => checkNewUrls(deps, caller, params.id, body),
    },
    (deps, { caller, origin, params, body }) => updateWebhook(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /webhooks/:id',
    {
      summary: 'Delete a webhook',
      description: 'Pending deliveries are cancelled.',
      callers: write,
      params: IdParam,
      reply: one(Webhook),
    },
    (deps, { caller, origin, params }) => deleteWebhook(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /webhooks/:id/rotate',
    {
      summary: 'Rotate the signing secret',
      description:
        'For `graceSeconds` (default 86400), `webhook-signature` carries both signatures and `X-Service-Signature` carries the old one. `{endGrace: true}` ends this period now and returns `secret` null.',
      callers: write,
      params: IdParam,
      body: RotateWebhook,
      reply: one(RotatedWebhook),
      secret: true,
      extension: true,
    },
    (deps, { caller, origin, params, body }) => rotateSecret(deps, { caller, origin }, params.id, body),
  ),
  route(
    'POST /webhooks/:id/test',
    {
      summary: 'Send a test event',
      description:
        'Sends one event to this webhook only, at once, without retries, in the same way as any other event. The webhook’s filter is not applied. Returns when the attempt has ended, or after 10 s. Each webhook may have at most 10 unfinished tests. More are refused with 429 `rate_limited`.',
      callers: write,
      params: IdParam,
      body: TestWebhook,
      reply: one(Delivery),
    },
    {
      effect: async (deps, { caller, origin, params, body }) =>
        queueTest(deps, caller, origin, params.id, body.eventType ?? 'webhook.test'),
      finish: (deps, { caller }, recovery) => awaitTest(deps, caller, recovery as QueuedTest),
    },
  ),
  route(
    'GET /webhooks/:id/deliveries',
    {
      summary: 'List deliveries',
      description:
        'Newest first. Each delivery has its last ten attempts, in ascending order. `GET …/deliveries/:deliveryId` returns all attempts. `status=dead_letter` returns the dead-letter queue.',
      callers: read,
      params: IdParam,
      query: ListDeliveries,
      reply: list(Delivery),
      replica: true,
    },
    (deps, { caller, params, query }) => listDeliveries(deps, caller, params.id, query),
  ),
  route(
    'DELETE /webhooks/:id/deliveries',
    {
      summary: 'Purge dead letters',
      description: 'Deletes all dead letters of the webhook permanently.',
      callers: write,
      params: IdParam,
      query: PurgeDeliveries,
      reply: one(Purged),
      extension: true,
    },
    (deps, { caller, origin, params }) => purgeDeadLetters(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /webhooks/:id/deliveries/bulk',
    {
      summary: 'Retry or purge many dead letters',
      description:
        'Starts a job for up to 1000 dead letters by id, or for all that match a filter at the time of the call. `GET /jobs/:id` shows its progress, and in `failures` the deliveries that it left unchanged. The job survives restarts. A dead letter that several jobs or calls retry starts one new cycle of attempts.',
      callers: write,
      params: IdParam,
      body: StartDeliveriesBulk,
      reply: one(JobRecord),
      status: 201,
      errors: ['webhook_disabled'],
      extension: true,
    },
    async (deps, { caller, origin, params, body }) =>
      toJobRecord(await startBulk(deps, { caller, origin }, params.id, body)),
  ),
  route(
    'GET /webhooks/:id/deliveries/:deliveryId',
    {
      summary: 'Get a delivery',
      description: 'Returns the delivery with its payload and every attempt.',
      callers: read,
      params: DeliveryParams,
      reply: one(DeliveryWithPayload),
      extension: true,
    },
    (deps, { caller, params }) => getDelivery(deps, caller, params.id, params.deliveryId),
  ),
  route(
    'POST /webhooks/:id/deliveries/:deliveryId/retry',
    {
      summary: 'Retry a delivery',
      description:
        'Starts a new cycle of attempts for a delivery that has ended. Its history and event id stay the same. A waiting delivery is sent now. A delivery that has had 100 attempts cannot be retried.',
      callers: write,
      params: DeliveryParams,
      reply: one(Delivery),
      errors: ['webhook_disabled', 'delivery_not_retryable'],
      extension: true,
    },
    (deps, { caller, origin, params }) => retryDelivery(deps, { caller, origin }, params.id, params.deliveryId),
  ),
  route(
    'POST /webhooks/:id/recover',
    {
      summary: 'Recover dead letters',
      description:
        'Starts a job that sends every dead letter since a time again, except those with 100 attempts. Deliveries that become dead letters after the call stay as they are. `GET /jobs/:id` shows its progress. A webhook has one such job at a time: while one runs, the call extends it to the current dead letters, and to an earlier `since`, and returns it.',
      callers: write,
      params: IdParam,
      body: RecoverWebhook,
      reply: one(JobRecord),
      status: 201,
      errors: ['webhook_disabled'],
      extension: true,
    },
    async (deps, { caller, origin, params, body }) =>
      toJobRecord(await recoverDeadLetters(deps, { caller, origin }, params.id, body.since)),
  ),
]
