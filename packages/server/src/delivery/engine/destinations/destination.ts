import type { SendRequest, SendResult } from '../../../platform/egress/egress.ts'

/** One delivery on its way: the body and the headers are those that an HTTP endpoint gets, with fresh signatures. */
export interface Outgoing extends SendRequest {
  body: string
  deliveryId: string
  /** Counts retries by hand. */
  cycle: number
  eventId: string
  eventType: string
  orderingKey: string | null
  /** How many deliveries to this destination may be on their way at once. */
  atOnce: number
  /** The database's clock, Unix milliseconds. */
  nowMs: number
}

/** How a send ended. */
export interface Sent extends SendResult {
  /**
   * Only if deliveries are written together: how many at most, and an id that follows from those that were. All of them
   * have the same result.
   */
  batch?: { id: string; max: number }
}

/**
 * Where the deliveries of a webhook go. It settles within the request's `timeoutMs`, and is `ok` only once the other side
 * has confirmed. Retries, limits and dead letters are the engine's.
 */
export interface Destination {
  send(outgoing: Outgoing): Promise<Sent>
}
