import {
  joined,
  type OnWebhookEvent,
  OVERSIZE,
  REJECTION,
  receivingOf,
  type WebhookHandlerOptions,
} from './receiving.ts'

export { type OnWebhookEvent, WebhookHandlerError, type WebhookHandlerOptions } from './receiving.ts'

/** The used part of Express' request: that of Node, and `body` if a middleware has set it. */
export interface ExpressRequest {
  headers: Record<string, string | string[] | undefined>
  body?: unknown
  /** The bytes, if the platform keeps them beside the parsed body. */
  rawBody?: unknown
  /** Whether its stream has been read from. */
  readonly readableDidRead: boolean
  on(event: string, listener: (...told: unknown[]) => void): unknown
  off(event: string, listener: (...told: unknown[]) => void): unknown
  pause(): unknown
}

/** The used part of Express' response: that of Node. */
export interface ExpressResponse {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
}

const PARSED =
  'The body of this webhook delivery was parsed before the handler ran, so its signature cannot be verified. ' +
  'Add the handler before express.json(), or put express.raw({ type: "application/json" }) on its route.'

/** Reads the whole body. Returns why that failed otherwise: `gone` means that the sender disconnected. */
function read(request: ExpressRequest, bytesMax: number): Promise<Uint8Array | 'too_large' | 'gone' | 'text'> {
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = []
    let bytes = 0
    const finish = (result: Uint8Array | 'too_large' | 'gone' | 'text') => {
      for (const [event, listener] of listeners) request.off(event, listener)
      resolve(result)
    }
    const take = (chunk: unknown) => {
      // A string, because an encoding was set: the original bytes are lost.
      if (!(chunk instanceof Uint8Array)) return finish('text')
      bytes += chunk.length
      chunks.push(chunk)
      if (bytes <= bytesMax) return
      request.pause()
      finish('too_large')
    }
    const listeners: [string, (chunk: unknown) => void][] = [
      ['data', take],
      ['end', () => finish(joined(chunks))],
      ['error', () => finish('gone')],
      ['close', () => finish('gone')],
    ]
    for (const [event, listener] of listeners) request.on(event, listener)
  })
}

/** The body's bytes, from `express.raw` or from the stream. @throws TypeError if the body was parsed */
async function bodyOf(request: ExpressRequest, bytesMax: number): Promise<Uint8Array | 'too_large' | 'gone'> {
  const body = request.rawBody ?? request.body
  if (body instanceof Uint8Array) return body.length > bytesMax ? 'too_large' : body
  if (request.readableDidRead) throw new TypeError(PARSED)
  const bytes = await read(request, bytesMax)
  if (bytes === 'text') throw new TypeError(PARSED)
  return bytes
}

/**
 * Receives webhooks in Express 4 and 5: `app.post('/webhooks/halfkey', webhookHandler(secret, onEvent))`, before
 * `express.json()` or with `express.raw` on the route. 200 when `onEvent` has resolved, 400 for a delivery that is not
 * genuine, 413 for a body over `bodyBytesMax`. An error of `onEvent` goes to `next` as a `WebhookHandlerError`, for which
 * Express responds with 500, so that the delivery is retried.
 * @param secrets the webhook's `whsec_…`, or several of them during a rotation
 * @throws TypeError for invalid secrets or options
 */
export function webhookHandler(
  secrets: string | readonly string[],
  onEvent: OnWebhookEvent,
  options: WebhookHandlerOptions = {},
): (request: ExpressRequest, response: ExpressResponse, next: (error?: unknown) => void) => Promise<void> {
  const { bodyBytesMax, receive } = receivingOf(secrets, onEvent, options)
  return async (request, response, next) => {
    const answer = (status: number, body?: string) => {
      response.statusCode = status
      if (body !== undefined) response.setHeader('content-type', 'application/json')
      response.end(body)
    }
    try {
      const body = await bodyOf(request, bodyBytesMax)
      // The sender is gone: no response is needed.
      if (body === 'gone') return
      if (body === 'too_large') {
        // The rest of the body is not read: the connection is closed.
        response.setHeader('connection', 'close')
        return answer(413, OVERSIZE)
      }
      const status = await receive(body, request.headers)
      answer(status, status === 400 ? REJECTION : undefined)
    } catch (error) {
      next(error)
    }
  }
}
