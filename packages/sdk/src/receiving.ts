import {
  checkedSecrets,
  type VerifyWebhookOptions,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  WebhookVerificationError,
} from './webhooks.ts'

/** What an app does with an event. The delivery is answered when it has resolved: 30 seconds after it came it counts as failed. */
export type OnWebhookEvent = (event: WebhookEvent) => unknown | Promise<unknown>

/** What the handlers of all frameworks may have their own way. */
export interface WebhookHandlerOptions extends VerifyWebhookOptions {
  /**
   * Asked before every event whether this id has been handled already; true answers 200 and handles nothing. It only asks:
   * remember the id in the handler itself, in the transaction that does the work, or an event whose handler failed is
   * taken for done when it comes again.
   */
  seen?: ((eventId: string) => boolean | Promise<boolean>) | undefined
  /** How large a body may be, in bytes (default 1 MiB); a larger one is answered 413 unread. */
  bodyBytesMax?: number | undefined
  /** Told why a delivery was answered 400, for a log: its sender is not told. */
  onRejected?: ((error: WebhookVerificationError) => void) | undefined
}

/** What a handler threw, or `seen`, as its `cause`. The delivery is answered 500, so that it comes again. */
export class WebhookHandlerError extends Error {
  override readonly name = 'WebhookHandlerError'
  /** For frameworks that answer by it; whatever `status` the cause has is not the delivery's. */
  readonly status = 500
  /** As `status`, under the name that others read. */
  readonly statusCode = 500
  /** The event that was being handled. */
  readonly eventId: string

  constructor(event: Pick<WebhookEvent, 'id' | 'type'>, cause: unknown) {
    // Frameworks answer with the message: it tells nothing of the cause.
    super(`The webhook handler failed on ${event.type} ${event.id}`, { cause })
    this.eventId = event.id
    // Loggers that print the stack alone would hide what happened.
    if (cause instanceof Error) this.stack = `${this.stack}\nCaused by: ${cause.stack}`
  }
}

/** What is said to the sender of a delivery that was not believed, and no more. */
export const REJECTION = JSON.stringify({ error: 'This delivery could not be verified.' })
/** What is said about a body over `bodyBytesMax`. */
export const OVERSIZE = JSON.stringify({ error: 'The body is too large.' })

const BODY_BYTES_MAX = 1_048_576

/** One array of several. */
export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((bytes, chunk) => bytes + chunk.length, 0))
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** A receiver with its settings looked at once, so that a missing secret fails at start and not at the first delivery. */
export interface WebhookReceiving {
  bodyBytesMax: number
  /** Verifies and handles one delivery; answers its status. @throws WebhookHandlerError */
  receive(rawBody: Uint8Array, headers: WebhookHeaders): Promise<200 | 400>
}

/** @throws TypeError on secrets or options that could never work */
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
