import { z } from 'zod'
import { Paging, Time } from '../../platform/http/route.ts'
import { TypeName } from '../event-types/schema.ts'

/** Where to begin, which events, how many, and how long to wait for one. */
export const ListEvents = z.strictObject({
  after: z.string().optional().meta({
    description:
      'The `nextCursor` of the previous response. Without `after`, `since` and `last`, the feed starts at the oldest event kept.',
    example: 'cur_000000001w8f3k2x',
  }),
  since: z.iso.datetime({ offset: true }).optional().meta({
    description: 'Start at about this time: a little before it, never after it.',
    'x-expected': 'an ISO 8601 time such as 2026-11-21T08:30:00.000Z',
  }),
  last: z
    .string()
    .regex(/^(\d{1,3}|1000)$/)
    .optional()
    .meta({
      description: 'Start this many events before the end, 0 to 1000. With 0, only new events are returned.',
      'x-expected': 'a whole number from 0 to 1000',
      example: '20',
    }),
  limit: z
    .string()
    .regex(/^([1-9]\d{0,2}|1000)$/)
    .optional()
    .meta({
      description:
        'The maximum number of events to return, 1 to 1000 (default 100). Fewer if their text is over 1 MiB.',
      'x-expected': 'a whole number from 1 to 1000',
      example: '100',
    }),
  subscriber_id: z.string().optional().meta({ description: 'Only events for this subscriber.' }),
  type: z.string().max(4_000).optional().meta({
    description: 'Only these event types, families such as `user.*` or `acme.*`, or `*`, separated by commas.',
    example: 'user.*,tx.completed',
  }),
  wait: z
    .string()
    .regex(/^([12]?\d|30)$/)
    .optional()
    .meta({
      description: 'If there is no event, wait up to this many seconds for one, 0 to 30 (default 0).',
      'x-expected': 'a whole number from 0 to 30',
      example: '0',
    }),
})
export type ListEvents = z.infer<typeof ListEvents>

export const ListDeliveriesOfEvent = z.strictObject({ ...Paging })

/** An event as a delivery's body has it. */
export const FeedEvent = z
  .object({
    id: z.string().meta({ example: 'evt_01jb2m7x9kq4t8v6w0r3s5y1za' }),
    type: z.string().meta({
      description: 'A type of Halfkey (`GET /webhooks/event-types` lists them) or one of yours (`GET /event-types`).',
      example: 'user.created',
    }),
    created_at: Time,
    api_version: z.string().meta({ example: '2026-11-01' }),
    subscriber_id: z.string().optional().meta({
      description: 'The subscriber that the event is for. Absent if it is for none.',
    }),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Event', description: 'An event, as it is delivered to webhooks.' })
export type FeedEvent = z.infer<typeof FeedEvent>

/** A page of the feed, and where the next one begins. */
export const EventPage = z
  .object({
    events: z.array(FeedEvent),
    nextCursor: z
      .string()
      .meta({ description: 'Send it as `after` to continue. Always present, even if there is no event.' }),
    hasMore: z.boolean().meta({ description: 'Whether more events are available now.' }),
    missed: z.boolean().meta({
      description:
        'Whether your cursor is older than the retention period, so that events between `after` and `nextCursor` are no longer kept.',
    }),
  })
  .meta({ id: 'EventPage' })

const EVENTS_A_BATCH = 100

/** An event to be published. */
const PublishedEvent = {
  type: TypeName.meta({ description: 'An event type of the app (see `POST /event-types`).' }),
  data: z.record(z.string(), z.unknown()).meta({
    description: 'Anything that receivers need, at most 256 KiB as JSON.',
    example: { invoiceId: 'inv_1', total: '25.00' },
  }),
  appId: z.string().optional().meta({
    description: 'The app of the event. By default, the app of the API key; if the key has none, the default app.',
  }),
  orderingKey: z.string().min(1).max(255).optional().meta({
    description:
      'Events of the tenant with the same key are delivered to each webhook one at a time, in the order in which they were published. Others do not wait for them.',
    example: 'invoice-1',
  }),
  subscriberId: z.string().nullable().optional().meta({
    description:
      'The subscriber of the app that the event is for. It is delivered to the webhooks of this subscriber, and to yours with `includeSubscribers`.',
  }),
  idempotencyKey: z.string().min(1).max(255).optional().meta({
    description:
      'Identifies the event in its app for 24 hours: publishing it again with the same content returns the first event.',
    example: 'invoice-inv_1-paid',
  }),
}

export const PublishEvent = z.strictObject(PublishedEvent).meta({ id: 'PublishEvent' })
export type PublishEvent = z.infer<typeof PublishEvent>

export const PublishEvents = z
  .strictObject({ events: z.array(PublishEvent).min(1).max(EVENTS_A_BATCH) })
  .meta({ id: 'PublishEvents' })

export const PublishedEvents = z
  .object({ events: z.array(FeedEvent).meta({ description: 'In the order of the request.' }) })
  .meta({ id: 'PublishedEvents' })
