import {
  checkedSecrets,
  type VerifyWebhookOptions,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  WebhookVerificationError,
} from './webhooks.ts'

/** Handles an event. The response is sent when it has resolved: after 30 seconds the delivery counts as failed. */
export type OnWebhookEvent = (event: WebhookEvent) => unknown | Promise<unknown>

/** Options of the handlers of all frameworks. */
export interface WebhookHandlerOptions extends VerifyWebhookOptions {
  /**
   * Says whether the event with this id was already handled; if true, the response is 200 and the handler is not called.
   * Store the id in the handler itself, in the transaction that does the work: otherwise an event whose handler failed
   * counts as handled when it is sent again.
   */
  seen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** How large a body may be, in bytes (default 1 MiB); a larger one is refused with 413, unread. */
  bodyBytesMax?: number | undefined
  /** Called with the reason of each 400, for a log. The sender does not learn it. */
  onRejected?: ((error: WebhookVerificationError) => void) | undefined
}

/** An error of the handler or of `seen`, as `cause`. The response is 500, so that the delivery is retried. */
export class WebhookHandlerError extends Error {
  override readonly name = 'WebhookHandlerError'
  /** For frameworks that respond with it. The `status` of the cause does not count. */
  readonly status = 500
  /** The same as `status`, under another common name. */
  readonly statusCode = 500
  /** The event that was being handled. */
  readonly eventId: string

  constructor(event: Pick<WebhookEvent, 'id' | 'type'>, cause: unknown) {
    // Frameworks send the message to the caller, so it says nothing about the cause.
    super(`The webhook handler failed on ${event.type} ${event.id}`, { cause })
    this.eventId = event.id
    // Loggers that print only the stack would hide the cause.
    if (cause instanceof Error) this.stack = `${this.stack}\nCaused by: ${cause.stack}`
  }
}

/** The response to a delivery that is not genuine. */
export const REJECTION = JSON.stringify({ error: 'This delivery could not be verified.' })
/** The response to a body over `bodyBytesMax`. */
export const OVERSIZE = JSON.stringify({ error: 'The body is too large.' })

const BODY_BYTES_MAX = 1_048_576

/** Concatenates byte arrays. */
export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((bytes, chunk) => bytes + chunk.length, 0))
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** A receiver whose settings were checked, so that a missing secret fails at start and not at the first delivery. */
export interface WebhookReceiving {
  bodyBytesMax: number
  /** Verifies and handles one delivery; returns the status of the response. @throws WebhookHandlerError */
  receive(rawBody: Uint8Array, headers: WebhookHeaders): Promise<200 | 400>
}

/** @throws TypeError for invalid secrets or options */
export function receivingOf(
  secrets: string | readonly string[],
  onEvent: OnWebhookEvent,
  options: WebhookHandlerOptions = {},
): WebhookReceiving {
  const known = checkedSecrets(secrets)
  if (typeof onEvent !== 'function') throw new TypeError('onEvent must be a function')
  const { seen, onRejected, bodyBytesMax = BODY_BYTES_MAX } = options
  if (!Number.isInteger(bodyBytesMax) || bodyBytesMax < 1) throw new TypeError('bodyBytesMax must be a number of bytes')

  async function handle(event: WebhookEvent): Promise<void> {
    try {
      if ((await seen?.(event.id)) !== true) await onEvent(event)
    } catch (cause) {
      throw new WebhookHandlerError(event, cause)
    }
  }

  return {
    bodyBytesMax,
    async receive(rawBody, headers) {
      let event: WebhookEvent
      try {
        event = await verifyWebhook(rawBody, headers, known, options)
      } catch (error) {
        if (!(error instanceof WebhookVerificationError)) throw error
        onRejected?.(error)
        return 400
      }
      await handle(event)
      return 200
    },
  }
}
