import { z } from 'zod'
import { Metadata, Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { ChangedOptions, NewOptions, ShownOptions } from './options/schema.ts'

const URL_CHARS_MAX = 2_048
const GRACE_SECONDS_MAX = 30 * 86_400

const Subscription = z.string().max(100).meta({
  description:
    'A type of Halfkey (`GET /webhooks/event-types` lists them), one of your types (`GET /event-types`), a family such as `user.*` or `acme.*`, or `*`.',
})
const Subscriptions = z
  .array(Subscription)
  .min(1)
  .max(100)
  .meta({ uniqueItems: true, example: ['user.created', 'tx.*'] })
const Url = z.string().min(1).max(URL_CHARS_MAX).meta({
  description:
    'An https URL with a public address. In development, `http` on loopback is also allowed. Required without a `destination`.',
  example: 'https://example.com/hook',
})
const Description = z.string().max(500)
const Filter = z.record(z.string(), z.unknown()).meta({
  description:
    'Conditions on the event, as it is sent: `{path, eq|in|prefix|exists|gt|gte|lt|lte}`, `{and: […]}`, `{or: […]}` or `{not: …}`, at most 64 conditions, 8 levels and 16 KiB. An event that does not match makes no delivery. Null: every event of the types in `events`.',
  example: { path: 'data.total', gte: '100.00' },
})
const Format = z.enum(['standard', 'cloudevents_structured', 'cloudevents_binary']).meta({
  description:
    'How an event is sent: `standard` is the event as JSON, the others are the two modes of CloudEvents 1.0 over HTTP.',
})
const Payload = z
  .enum(['full', 'thin'])
  .meta({ description: '`thin` sends events with empty `data`. `GET /events/:id` returns the whole event.' })
const IncludeSubscribers = z.boolean().meta({
  description:
    'Whether it also gets the events that you publish for subscribers (default false). Not for a webhook of a subscriber.',
})

const Health = z
  .object({
    attempts: z.int(),
    failed: z.int(),
    state: z.enum(['ok', 'failing', 'idle']).meta({
      description: '`failing`: at least half of the attempts failed. `idle`: there were none.',
    }),
  })
  .meta({
    id: 'WebhookHealth',
    description:
      'The attempts of the last 15 minutes, a few seconds late. Tests and deliveries of alerts do not count.',
  })

/** A webhook, as every response shows it. */
export const Webhook = z
  .object({
    id: z.string().meta({ example: 'wh_01jb2m7x9kq4t8v6w0r3s5y1zk' }),
    url: z.string().meta({
      description: 'Where events are sent. With a `destination`: the URL of the queue, or where the objects are.',
    }),
    events: z.array(z.string()),
    filter: Filter.nullable(),
    format: Format,
    payload: Payload,
    description: z.string().nullable(),
    status: z.enum(['active', 'paused', 'disabled']).meta({
      description:
        '`paused` by you: deliveries wait. `disabled` by Halfkey after days of failure: deliveries become dead letters.',
    }),
    disabledReason: z.string().nullable(),
    secretLast4: z.string(),
    previousSecretUntil: Time.nullable().meta({
      description:
        'After a rotation, the time until which deliveries are also signed with the previous secret. Otherwise null.',
    }),
    appId: z.string().nullable().meta({
      description:
        'The app whose events it gets. Null: all apps and the tenant. It gets events for subscribers only with `includeSubscribers`.',
    }),
    health: Health,
    ...ShownOptions.shape,
    subscriberId: z.string().nullable().meta({
      description: 'The subscriber whose events it gets, and no others. Null for a webhook of yours.',
    }),
    includeSubscribers: z.boolean().meta({
      description: 'Whether it also gets the events that you publish for subscribers.',
    }),
    metadata: z.record(z.string(), z.string()),
    ...Times,
  })
  .meta({ id: 'Webhook' })
export type Webhook = z.infer<typeof Webhook>

const Secret = z.string().meta({
  description: 'The secret that signs deliveries. Shown only here.',
  example: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8=',
})

export const WebhookWithSecret = Webhook.extend({ secret: Secret }).meta({ id: 'WebhookWithSecret' })
export const RotatedWebhook = Webhook.extend({ secret: Secret.nullable() }).meta({ id: 'RotatedWebhook' })

export const CreateWebhook = z
  .strictObject({
    url: Url.optional(),
    events: Subscriptions,
    filter: Filter.nullable().optional(),
    format: Format.optional(),
    payload: Payload.optional(),
    description: Description.nullable().optional(),
    appId: z.string().nullable().optional(),
    ...NewOptions,
    subscriberId: z.string().nullable().optional().meta({
      description:
        'The subscriber whose events it gets, and no others. It belongs to the subscriber’s app. Cannot be changed later.',
    }),
    includeSubscribers: IncludeSubscribers.optional(),
    metadata: Metadata.optional(),
  })
  .meta({ id: 'CreateWebhook' })
export type CreateWebhook = z.infer<typeof CreateWebhook>

export const UpdateWebhook = z
  .strictObject({
    url: Url.optional(),
    events: Subscriptions.optional(),
    filter: Filter.nullable().optional(),
    format: Format.optional(),
    payload: Payload.optional(),
    description: Description.nullable().optional(),
    status: z.enum(['active', 'paused']).optional(),
    ...ChangedOptions,
    includeSubscribers: IncludeSubscribers.optional(),
    metadata: z.record(z.string().max(200), z.string().nullable()).optional(),
  })
  .meta({ id: 'UpdateWebhook' })
export type UpdateWebhook = z.infer<typeof UpdateWebhook>

export const CheckFilter = z
  .strictObject({
    filter: Filter,
    event: z.record(z.string(), z.unknown()).meta({
      description: 'An event as `GET /events/:id` returns it, or a part of one.',
      example: { type: 'acme.invoice.paid', data: { total: '120.00' } },
    }),
  })
  .meta({ id: 'CheckFilter' })
export type CheckFilter = z.infer<typeof CheckFilter>

export const FilterCheck = z
  .object({
    matches: z.boolean(),
    reason: z.string().nullable().meta({
      description: 'The condition that does not match, and what it found. Null if the event matches.',
      example: '`filter`: data.total is "25.00", which does not match {"gte":"100.00"}.',
    }),
  })
  .meta({ id: 'FilterCheck' })

export const ListWebhooks = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  app_id: z.string().optional(),
  subscriber_id: z.string().optional(),
  status: z.enum(['active', 'paused', 'disabled']).optional(),
})
export type ListWebhooks = z.infer<typeof ListWebhooks>

export const RotateWebhook = z
  .strictObject({
    graceSeconds: z
      .int()
      .min(0)
      .max(GRACE_SECONDS_MAX)
      .optional()
      .meta({ description: 'How long deliveries are also signed with the old secret (default 86400).' }),
    endGrace: z
      .literal(true)
      .optional()
      .meta({ description: 'Ends the grace period of the last rotation now, without a new secret.' }),
  })
  .meta({ id: 'RotateWebhook' })
export type RotateWebhook = z.infer<typeof RotateWebhook>

export const TestWebhook = z
  .strictObject({
    eventType: z.string().optional().meta({
      description: 'The event type to send, one of Halfkey or of yours, with its example (default webhook.test).',
    }),
  })
  .meta({ id: 'TestWebhook' })

export const EventTypeRecord = z
  .object({
    type: z.string(),
    description: z.string(),
    example: z.record(z.string(), z.unknown()).meta({ description: 'An example of the event’s `data`.' }),
  })
  .meta({ id: 'EventType' })

const DELIVERY_STATUSES = [
  'pending',
  'delivering',
  'retrying',
  'succeeded',
  'dead_letter',
  'cancelled',
  'failed',
] as const

const Attempt = z
  .object({
    number: z.int().meta({ description: 'The number of the attempt. 0 is the first.' }),
    at: Time,
    statusCode: z.int().nullable(),
    durationMs: z.int(),
    error: z.string().nullable(),
    responseSnippet: z.string().nullable().meta({ description: 'The start of the response body, at most 4 KiB.' }),
  })
  .meta({ id: 'DeliveryAttempt' })

/** A delivery: one event on its way to one webhook. */
export const Delivery = z
  .object({
    id: z.string(),
    webhookId: z.string(),
    eventId: z.string(),
    eventType: z.string(),
    status: z.enum(DELIVERY_STATUSES).meta({
      description:
        '`pending`: not sent yet. `delivering`: being sent. `retrying`: waits for a retry. `succeeded`. `dead_letter`: all attempts failed. `cancelled`: the webhook was deleted. `failed`: a test that failed.',
    }),
    retryCount: z.int().meta({ description: 'The number of scheduled retries so far, 0 (the first attempt) to 5.' }),
    nextAttemptAt: Time.nullable(),
    heldByKey: z.string().nullable().meta({
      description:
        'The ordering key of the event, while an earlier delivery of this webhook with the same key has not ended. Otherwise null.',
    }),
    attempts: z.array(Attempt),
    ...Times,
  })
  .meta({ id: 'Delivery' })
export type Delivery = z.infer<typeof Delivery>

export const DeliveryWithPayload = Delivery.extend({
  format: Format.meta({
    description: 'The format of the last attempt. Without an attempt, like `payload`, that of the webhook.',
  }),
  headers: z
    .record(z.string(), z.string())
    .nullable()
    .meta({
      description:
        'The headers that describe the body: its `content-type`, and the `ce-` headers of `cloudevents_binary`. Null after the retention period of the event.',
      example: { 'content-type': 'application/json' },
    }),
  payload: z.unknown().meta({ description: 'The body as it is sent. Null after the retention period of the event.' }),
}).meta({ id: 'DeliveryWithPayload' })
export type DeliveryWithPayload = z.infer<typeof DeliveryWithPayload>

export const ListDeliveries = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: z.enum(DELIVERY_STATUSES).optional(),
  event_type: z.string().optional().meta({ description: 'A type of Halfkey or one of yours.' }),
})
export type ListDeliveries = z.infer<typeof ListDeliveries>
export const PurgeDeliveries = z.strictObject({ status: z.enum(['dead_letter']) })
export const Purged = z
  .object({ purged: z.int().meta({ description: 'How many dead letters were deleted.' }) })
  .meta({ id: 'PurgedDeliveries' })

const Since = z.iso
  .datetime({ offset: true })
  .meta({ 'x-expected': 'an ISO 8601 time such as 2026-11-21T08:30:00.000Z' })

export const RecoverWebhook = z
  .strictObject({ since: Since.meta({ description: 'Dead letters that were created since then are sent again.' }) })
  .meta({ id: 'RecoverWebhook' })

const BULK_DELIVERIES_MAX = 1_000

export const StartDeliveriesBulk = z
  .strictObject({
    action: z.enum(['retry', 'purge']).meta({ description: '`purge` deletes the dead letters permanently.' }),
    deliveryIds: z
      .array(z.string().min(1).max(100))
      .min(1)
      .max(BULK_DELIVERIES_MAX)
      .optional()
      .meta({
        description: 'The dead letters. Unknown ids are listed in the job’s `failures`.',
        example: ['dlv_01jb2m7x9kq4t8v6w0r3s5y1zc'],
      }),
    filter: z
      .strictObject({
        eventType: z.string().optional().meta({ description: 'A type of Halfkey or one of yours.' }),
        since: Since.optional().meta({ description: 'Only deliveries that were created since then.' }),
      })
      .optional()
      .meta({ description: 'Instead of `deliveryIds`: all dead letters that match. `{}` matches all.' }),
  })
  .meta({ id: 'StartDeliveriesBulk' })
export type StartDeliveriesBulk = z.infer<typeof StartDeliveriesBulk>

export const DeliveryParams = z.object({ id: z.string(), deliveryId: z.string() })
