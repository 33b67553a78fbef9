import type { Calls, RequestOptions } from '../http.ts'
import type {
  Delivery,
  DeliveryWithPayload,
  EventTypeRecord,
  FilterCheck,
  Job,
  PortalLink,
  PurgedDeliveries,
  RevokedPortalLinks,
  RotatedWebhook,
  Subscriber,
  Webhook,
  WebhookWithSecret,
} from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

function deliveriesOf({ one, list }: Calls) {
  return {
    /** Lists a webhook's deliveries, newest first; `status: 'dead_letter'` is the dead-letter queue. Scope `webhooks:read`. @throws not_found */
    list: (
      webhookId: string,
      query?: Query<'/webhooks/{id}/deliveries', 'get'>,
      options?: RequestOptions,
    ): List<Delivery> => list('/webhooks/{id}/deliveries', { path: { id: webhookId } }, query, options),

    /** Gets a delivery with its payload. Scope `webhooks:read`. @throws not_found */
    get: (webhookId: string, deliveryId: string, options?: RequestOptions): Promise<DeliveryWithPayload> =>
      one('get', '/webhooks/{id}/deliveries/{deliveryId}', { path: { id: webhookId, deliveryId } }, options),

    /**
     * Retries a delivery: an ended one starts a new cycle with the same event id, a waiting one is sent now.
     * Scope `webhooks:write`. @throws not_found, webhook_disabled, delivery_not_retryable
     */
    retry: (webhookId: string, deliveryId: string, options?: RequestOptions): Promise<Delivery> =>
      one('post', '/webhooks/{id}/deliveries/{deliveryId}/retry', { path: { id: webhookId, deliveryId } }, options),

    /**
     * Starts a job that retries or deletes dead letters: up to 1000 by id, or all that match a filter. `jobs.get` returns its
     * progress. Scope `webhooks:write`. @throws not_found, webhook_disabled
     */
    bulk: (
      webhookId: string,
      body: Body<'/webhooks/{id}/deliveries/bulk', 'post'>,
      options?: RequestOptions,
    ): Promise<Job> => one('post', '/webhooks/{id}/deliveries/bulk', { path: { id: webhookId }, body }, options),
  }
}

/** Calls of webhooks and their deliveries. Every method may also throw what any call does: see `HalfkeyError`. */
export function webhooksOf(calls: Calls) {
  const { one, list } = calls
  return {
    /** Lists webhooks, newest first. Scope `webhooks:read`. */
    list: (query?: Query<'/webhooks', 'get'>, options?: RequestOptions): List<Webhook> =>
      list('/webhooks', {}, query, options),

    /**
     * Subscribes an endpoint to events: a `url`, or a `destination`, which needs the scope `destinations:write` too.
     * `secret`, with which `verifyWebhook` verifies deliveries, is in this response only. Scope `webhooks:write`.
     * @throws webhook_url_blocked, not_found (the app)
     */
    create: (body: Body<'/webhooks', 'post'>, options?: RequestOptions): Promise<WebhookWithSecret> =>
      one('post', '/webhooks', { body }, options),

    /** Applies a webhook's `filter` to an event that you send. Nothing is stored. Scope `webhooks:read`. */
    checkFilter: (body: Body<'/webhooks/filters/check', 'post'>, options?: RequestOptions): Promise<FilterCheck> =>
      one('post', '/webhooks/filters/check', { body }, options),

    /** Gets a webhook. Scope `webhooks:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Webhook> =>
      one('get', '/webhooks/{id}', { path: { id } }, options),

    /**
     * Changes the given fields. `status: 'paused'` holds deliveries back, `'active'` resumes them. `filter` is replaced as a
     * whole, and applies to later events. Scope `webhooks:write`.
     * @throws not_found, webhook_url_blocked
     */
    update: (id: string, body: Body<'/webhooks/{id}', 'patch'>, options?: RequestOptions): Promise<Webhook> =>
      one('patch', '/webhooks/{id}', { path: { id }, body }, options),

    /**
     * Deletes a webhook and cancels pending deliveries. Returns the record's final state. Scope `webhooks:write`.
     * A repeat after a lost response gets `not_found`. @throws not_found
     */
    delete: (id: string, options?: RequestOptions): Promise<Webhook> =>
      one('delete', '/webhooks/{id}', { path: { id } }, options),

    /**
     * Gives a webhook a new signing secret. For `graceSeconds` (default 86400) deliveries are also signed with the old one;
     * `{ endGrace: true }` creates no secret, but ends that period. Scope `webhooks:write`. @throws not_found
     */
    rotate: (
      id: string,
      body: Body<'/webhooks/{id}/rotate', 'post'> = {},
      options?: RequestOptions,
    ): Promise<RotatedWebhook> => one('post', '/webhooks/{id}/rotate', { path: { id }, body }, options),

    /**
     * Sends one test event, once, and returns its delivery when the attempt has ended, or after 10 s. Scope
     * `webhooks:write`. @throws not_found
     */
    test: (id: string, body: Body<'/webhooks/{id}/test', 'post'> = {}, options?: RequestOptions): Promise<Delivery> =>
      one('post', '/webhooks/{id}/test', { path: { id }, body }, options),

    /**
     * Starts a job that retries every dead letter since a time (ISO 8601); `jobs.get` returns its progress. Scope
     * `webhooks:write`. @throws not_found, webhook_disabled
     */
    recover: (id: string, body: Body<'/webhooks/{id}/recover', 'post'>, options?: RequestOptions): Promise<Job> =>
      one('post', '/webhooks/{id}/recover', { path: { id }, body }, options),

    /** Deletes a webhook's dead letters permanently. Scope `webhooks:write`. @throws not_found */
    purge: (id: string, options?: RequestOptions): Promise<PurgedDeliveries> =>
      one('delete', '/webhooks/{id}/deliveries', { path: { id }, query: { status: 'dead_letter' } }, options),

    /** Lists every kind of event, with an example of its data. Scope `webhooks:read`. */
    eventTypes: (query?: Query<'/webhooks/event-types', 'get'>, options?: RequestOptions): List<EventTypeRecord> =>
      list('/webhooks/event-types', {}, query, options),

    /** Deliveries that were or will be sent to a webhook. */
    deliveries: deliveriesOf(calls),
  }
}

/** Calls of subscribers, your app's customers. Every method may also throw what any call does: see `HalfkeyError`. */
export function subscribersOf({ one, list }: Calls) {
  return {
    /** Lists subscribers, newest first; `externalId` finds one by your id. Scope `subscribers:read`. */
    list: (query?: Query<'/subscribers', 'get'>, options?: RequestOptions): List<Subscriber> =>
      list('/subscribers', {}, query, options),

    /**
     * Creates a subscriber. Publish events for them with `events.publish` and `subscriberId`. Scope `subscribers:write`.
     * @throws already_exists
     */
    create: (body: Body<'/subscribers', 'post'>, options?: RequestOptions): Promise<Subscriber> =>
      one('post', '/subscribers', { body }, options),

    /** Gets a subscriber. Scope `subscribers:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Subscriber> =>
      one('get', '/subscribers/{id}', { path: { id } }, options),

    /** Changes the given fields. Scope `subscribers:write`. @throws not_found, already_exists */
    update: (id: string, body: Body<'/subscribers/{id}', 'patch'>, options?: RequestOptions): Promise<Subscriber> =>
      one('patch', '/subscribers/{id}', { path: { id }, body }, options),

    /** Deletes a subscriber with its webhooks and the links to its portal. Scope `subscribers:write`. @throws not_found */
    delete: (id: string, options?: RequestOptions): Promise<Subscriber> =>
      one('delete', '/subscribers/{id}', { path: { id } }, options),

    /**
     * Creates a link to the page where the customer manages their webhooks. Create one each time that you show it: as a link,
     * or embedded in a page of one of the `origins` (`WebhookPortal` of `@halfkey/sdk/react`). Scope `subscribers:write`.
     * @throws not_found
     */
    createPortalLink: (
      id: string,
      body: Body<'/subscribers/{id}/portal-link', 'post'> = {},
      options?: RequestOptions,
    ): Promise<PortalLink> => one('post', '/subscribers/{id}/portal-link', { path: { id }, body }, options),

    /** Ends all links to a subscriber's portal at once. Scope `subscribers:write`. @throws not_found */
    revokePortalLinks: (id: string, options?: RequestOptions): Promise<RevokedPortalLinks> =>
      one('delete', '/subscribers/{id}/portal-links', { path: { id } }, options),
  }
}

/** Calls of jobs. Every method may also throw what any call does: see `HalfkeyError`. */
export function jobsOf({ one }: Calls) {
  return {
    /** Gets a job with its progress. Scope `webhooks:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Job> => one('get', '/jobs/{id}', { path: { id } }, options),
  }
}
