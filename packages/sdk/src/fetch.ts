import {
  joined,
  type OnWebhookEvent,
  OVERSIZE,
  REJECTION,
  receivingOf,
  type WebhookHandlerError,
  type WebhookHandlerOptions,
} from './receiving.ts'

export { type OnWebhookEvent, WebhookHandlerError, type WebhookHandlerOptions } from './receiving.ts'

/** Options of `webhookHandler` for the Fetch standard's requests. */
export interface FetchWebhookOptions extends WebhookHandlerOptions {
  /** Called with the handler's error, in `cause`; by default it is written to the console. */
  onError?: ((error: WebhookHandlerError) => void) | undefined
}

function answer(status: number, body: string | null = null, headers: Record<string, string> = {}): Response {
  const type: Record<string, string> = body === null ? {} : { 'content-type': 'application/json' }
  return new Response(body, { status, headers: { ...type, ...headers } })
}

const PARSED = 'The body of this request has been read already. Pass the request to the handler unread.'

/** Reads the whole body; null if it is larger than `bytesMax`. */
async function readBody(request: Request, bytesMax: number): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  const reader = request.body?.getReader()
  for (;;) {
    const chunk = await reader?.read()
    if (chunk === undefined || chunk.done) break
    bytes += chunk.value.length
    if (bytes > bytesMax) {
      // Not awaited: a sender that never ends would block it.
      reader?.cancel().catch(() => undefined)
      return null
    }
    chunks.push(chunk.value)
  }
  return joined(chunks)
}

/**
 * Receives webhooks as Fetch API requests, for Hono, Next.js, Cloudflare Workers, Deno and Bun: pass it the request with
 * its body unread, and return its response. 200 when `onEvent` has resolved, 400 for a delivery that is not
 * genuine, 405 for another method than POST, 413 for a body over `bodyBytesMax`, 500 when `onEvent` throws, so that the
 * delivery is retried.
 * @param secrets the webhook's `whsec_…`, or several of them during a rotation
 * @throws TypeError for invalid secrets or options; its result, on a request whose body was read before
 */
export function webhookHandler(
  secrets: string | readonly string[],
  onEvent: OnWebhookEvent,
  options: FetchWebhookOptions = {},
): (request: Request) => Promise<Response> {
  const { bodyBytesMax, receive } = receivingOf(secrets, onEvent, options)
  // biome-ignore lint/suspicious/noConsole: without onError, the error would be lost
  const onError = options.onError ?? ((error: WebhookHandlerError) => console.error(error))
  return async (request) => {
    if (request.method !== 'POST') return answer(405, null, { allow: 'POST' })
    if (request.bodyUsed) throw new TypeError(PARSED)
    // The request was cut off: its sender is gone.
    const body = await readBody(request, bodyBytesMax).catch(() => undefined)
    if (body === undefined) return answer(400, REJECTION)
    if (body === null) return answer(413, OVERSIZE)
    try {
      return (await receive(body, request.headers)) === 200 ? answer(200) : answer(400, REJECTION)
    } catch (error) {
      onError(error as WebhookHandlerError)
      return answer(500)
    }
  }
}
