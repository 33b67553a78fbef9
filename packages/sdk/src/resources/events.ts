import { HalfkeyError } from '../errors.ts'
import { type Calls, pause, type RequestOptions } from '../http.ts'
import type { EventPage } from '../models.ts'
import type { Query } from '../operations.ts'
import { retryDelayMs } from '../retry.ts'
import type { WebhookEvent } from '../webhooks.ts'

const WAIT_SECONDS = 25
/** Beyond the wait, for the answer itself. */
const SLACK_MS = 10_000
/** Between two answers without an event, whatever comes between us and the service. */
const EMPTY_MS = 250

/** Where to begin, which events, and until when. */
export interface FollowOptions extends Omit<Query<'/events', 'get'>, 'wait'> {
  /** Ends the iteration, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** The event feed from a place on, without an end. */
export interface EventFeed extends AsyncIterable<WebhookEvent> {
  /**
   * Where to go on, as `after`: behind the last portion whose events were all taken. It moves when the next event is asked for,
   * so what is stored of it in the loop never skips an event that is not done; some may come again.
   */
  readonly cursor: string | undefined
}

/** Calls of the event feed. Every method may also throw what any call does: see `HalfkeyError`. */
export function eventsOf({ one }: Calls) {
  const list = async (query?: Query<'/events', 'get'>, options?: RequestOptions): Promise<EventPage> =>
    (await one('get', '/events', { query }, options)) as EventPage

  /** Asks until it is answered, for as long as the answer may be another one later. */
  async function listPatiently(query: Query<'/events', 'get'>, signal: AbortSignal | undefined): Promise<EventPage> {
    const options = { signal, maxRetries: 0, timeoutMs: WAIT_SECONDS * 1_000 + SLACK_MS }
    for (let failures = 1; ; failures++) {
      try {
        return await list(query, options)
      } catch (error) {
        const delayMs = error instanceof HalfkeyError ? retryDelayMs(error, failures, true) : null
        if (delayMs === null) throw error
        await pause(delayMs, signal)
      }
    }
  }

  return {
    /**
     * Reads a portion of the event feed: all events in one order that never changes. `after` is the `nextCursor` of the portion
     * before; begin at the oldest event kept, `since` a time (ISO 8601), or with the `last` few. `type` is one or more types
     * or families, with commas between them; `wait` lets the call wait so many seconds for an event. Scope `webhooks:read`.
     */
    list,

    /**
     * Iterates over events as they come, each once, in the feed's order, for as long as the loop goes on. What passes by itself
     * (network errors, time-outs, 429, 5xx) is waited for; a refusal, such as of the key, ends it. Scope `webhooks:read`.
     */
    follow({ signal, ...query }: FollowOptions = {}): EventFeed {
      let cursor = query.after
      async function* events(): AsyncGenerator<WebhookEvent, void, undefined> {
        let next: Query<'/events', 'get'> = cursor === undefined ? query : { ...query, after: cursor }
        for (;;) {
          const page = await listPatiently({ ...next, wait: WAIT_SECONDS }, signal)
          yield* page.events
          cursor = page.nextCursor
          next = { after: cursor, type: query.type, limit: query.limit }
          if (page.events.length === 0 && !page.hasMore) await pause(EMPTY_MS, signal)
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
