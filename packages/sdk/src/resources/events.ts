import { HalfkeyError } from '../errors.ts'
import { type Calls, delay, type RequestOptions } from '../http.ts'
import type { CustomEventData, CustomEventType, Delivery, EventPage } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'
import { retryDelayMs } from '../retry.ts'
import type { WebhookEvent } from '../webhooks.ts'

const WAIT_SECONDS = 25
/** Time for the response itself, beyond the wait. */
const SLACK_MS = 10_000
/** Pause after a response without events, in case a proxy does not let the request wait. */
const EMPTY_PAGE_DELAY_MS = 250

/** Where to start, which events, and until when. */
export interface FollowOptions extends Omit<Query<'/events', 'get'>, 'wait'> {
  /** Ends the iteration, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** A type of your own: those that you declared, or any. */
type OwnType = keyof CustomEventData | (string & {})

/** The `data` of a type that you declared in `CustomEventData`, or any object. */
type OwnData<Type extends OwnType> = Type extends keyof CustomEventData
  ? CustomEventData[Type]
  : Record<string, unknown>

/** An event to be published. */
export interface EventToPublish<Type extends OwnType = OwnType> {
  /** An event type of the app: see `eventTypes`. */
  type: Type
  /** At most 256 KiB as JSON. */
  data: OwnData<Type>
  /** By default, the key's app or the default app. */
  appId?: string | undefined
  /** The subscriber that the event is for; it reaches no webhook of another subscriber. See `subscribers`. */
  subscriberId?: string | undefined
  /** Identifies the event in its app for 24 hours: the same content returns the first event again. */
  idempotencyKey?: string | undefined
}

/** An event that was published, as it is delivered. */
export type PublishedEvent<Type extends OwnType = OwnType> = Omit<WebhookEvent, 'type' | 'data'> & {
  type: Type
  data: OwnData<Type>
}

/** The event feed from a position on, without an end. */
export interface EventFeed extends AsyncIterable<WebhookEvent> {
  /**
   * Where to continue, as `after`: behind the last page whose events were all consumed. It moves when the next event is
   * requested, so a cursor stored in the loop never skips an unfinished event; some may be returned again.
   */
  readonly cursor: string | undefined
}

/** Calls of the event feed. Every method may also throw what any call does: see `HalfkeyError`. */
export function eventsOf({ one, list: pages }: Calls) {
  const list = async (query?: Query<'/events', 'get'>, options?: RequestOptions): Promise<EventPage> =>
    (await one('get', '/events', { query }, options)) as EventPage

  /** Repeats a request while its failure may be temporary. */
  async function listWithRetries(query: Query<'/events', 'get'>, signal: AbortSignal | undefined): Promise<EventPage> {
    const options = { signal, maxRetries: 0, timeoutMs: WAIT_SECONDS * 1_000 + SLACK_MS }
    for (let failures = 1; ; failures++) {
      try {
        return await list(query, options)
      } catch (error) {
        const delayMs = error instanceof HalfkeyError ? retryDelayMs(error, failures, true) : null
        if (delayMs === null) throw error
        await delay(delayMs, signal)
      }
    }
  }

  return {
    /**
     * Reads a page of the event feed: all events in one order that never changes. `after` is the `nextCursor` of the previous
     * page; start at the oldest event kept, at `since` (ISO 8601), or at the `last` few. `type` is one or more types or
     * families, separated by commas; with `wait` the call waits up to so many seconds for an event. Scope `webhooks:read`.
     */
    list,

    /**
     * Publishes an event of yours: it is delivered to webhooks as Halfkey's own events are. With an `idempotencyKey` it is
     * published once in 24 hours. Scope `events:publish`.
     * @throws event_type_unknown, event_type_archived, event_key_conflict, validation_failed for data that does not match the schema
     */
    publish: async <Type extends OwnType>(
      event: EventToPublish<Type>,
      options?: RequestOptions,
    ): Promise<PublishedEvent<Type>> =>
      (await one('post', '/events', { body: event as Body<'/events', 'post'> }, options)) as PublishedEvent<Type>,

    /** Publishes 1 to 100 events, all or none. Returns them in the same order. Scope `events:publish`. @throws as `publish` */
    publishBatch: async (events: readonly EventToPublish[], options?: RequestOptions): Promise<PublishedEvent[]> => {
      const body = { events } as Body<'/events/batch', 'post'>
      const published = await one('post', '/events/batch', { body }, options)
      return published.events as PublishedEvent[]
    },

    /** Gets an event. Scope `webhooks:read`. @throws not_found, also once its retention is over */
    get: async (id: string, options?: RequestOptions): Promise<WebhookEvent> =>
      (await one('get', '/events/{id}', { path: { id } }, options)) as WebhookEvent,

    /** Lists where an event was sent: a delivery for each subscribed webhook. Scope `webhooks:read`. @throws not_found */
    deliveries: (
      id: string,
      query?: Query<'/events/{id}/deliveries', 'get'>,
      options?: RequestOptions,
    ): List<Delivery> => pages('/events/{id}/deliveries', { path: { id } }, query, options),

    /**
     * Iterates over events as they occur, each once, in the feed's order, until the loop ends. Temporary failures (network
     * errors, time-outs, 429, 5xx) are retried; a refusal, for example of the key, ends it. Scope `webhooks:read`.
     */
    follow({ signal, ...query }: FollowOptions = {}): EventFeed {
      let cursor = query.after
      async function* events(): AsyncGenerator<WebhookEvent, void, undefined> {
        let next: Query<'/events', 'get'> = cursor === undefined ? query : { ...query, after: cursor }
        for (;;) {
          const page = await listWithRetries({ ...next, wait: WAIT_SECONDS }, signal)
          yield* page.events
          cursor = page.nextCursor
          next = { after: cursor, type: query.type, subscriberId: query.subscriberId, limit: query.limit }
          if (page.events.length === 0 && !page.hasMore) await delay(EMPTY_PAGE_DELAY_MS, signal)
        }
      }
      return {
        [Symbol.asyncIterator]: events,
        get cursor() {
          return cursor
        },
      }
    },
  }
}

/** Calls of the types of the events that you publish. Every method may also throw what any call does: see `HalfkeyError`. */
export function eventTypesOf({ one, list }: Calls) {
  return {
    /** Lists event types, newest first; archived ones only with `status: 'archived'`. Scope `event_types:read`. */
    list: (query?: Query<'/event-types', 'get'>, options?: RequestOptions): List<CustomEventType> =>
      list('/event-types', {}, query, options),

    /**
     * Creates an event type, with a JSON Schema for the data of its events if you like. Scope `event_types:write`.
     * @throws already_exists, event_type_limit_reached
     */
    create: (body: Body<'/event-types', 'post'>, options?: RequestOptions): Promise<CustomEventType> =>
      one('post', '/event-types', { body }, options),

    /** Gets an event type. Scope `event_types:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<CustomEventType> =>
      one('get', '/event-types/{id}', { path: { id } }, options),

    /**
     * Changes the given fields. A changed `schema` gets a new `schemaVersion`. `status: 'active'` restores an archived type.
     * Scope `event_types:write`. @throws not_found
     */
    update: (
      id: string,
      body: Body<'/event-types/{id}', 'patch'>,
      options?: RequestOptions,
    ): Promise<CustomEventType> => one('patch', '/event-types/{id}', { path: { id }, body }, options),

    /** Archives an event type: its events can no longer be published. Scope `event_types:write`. @throws not_found */
    archive: (id: string, options?: RequestOptions): Promise<CustomEventType> =>
      one('delete', '/event-types/{id}', { path: { id } }, options),
  }
}
