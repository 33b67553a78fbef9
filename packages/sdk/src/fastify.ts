import { type OnWebhookEvent, REJECTION, receivingOf, type WebhookHandlerOptions } from './receiving.ts'

export { type OnWebhookEvent, WebhookHandlerError, type WebhookHandlerOptions } from './receiving.ts'

/** Options of `webhookPlugin`. */
export interface FastifyWebhookOptions extends WebhookHandlerOptions {
  /** The path of the route, below the plugin's prefix if it is registered with one (default `/`). */
  path?: string | undefined
}

interface FastifyRequest {
  body: unknown
  headers: Record<string, string | string[] | undefined>
}

interface FastifyReply {
  code(status: number): unknown
  header(name: string, value: string): unknown
  send(payload?: string): unknown
}

/** The used part of a Fastify instance. */
export interface FastifyScope {
  removeAllContentTypeParsers(): void
  addContentTypeParser(
    contentType: string,
    options: { parseAs: 'buffer'; bodyLimit: number },
    parser: (request: unknown, body: Uint8Array, done: (error: null, body: Uint8Array) => void) => void,
  ): unknown
  post(
    path: string,
    options: { bodyLimit: number },
    handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  ): unknown
}

/**
 * Receives webhooks in Fastify: `app.register(webhookPlugin(secret, onEvent, { path: '/webhooks/halfkey' }))`. In its own
 * scope bodies stay bytes; the app's other routes parse theirs as before. 200 when `onEvent` has resolved, 400 for a
 * delivery that is not genuine, 413 for a body over `bodyBytesMax`. Fastify logs an error of `onEvent` and responds with
 * 500, so that the delivery is retried.
 * @param secrets the webhook's `whsec_…`, or several of them during a rotation
 * @throws TypeError for invalid secrets or options
 */
export function webhookPlugin(
  secrets: string | readonly string[],
  onEvent: OnWebhookEvent,
  options: FastifyWebhookOptions = {},
): (scope: FastifyScope) => Promise<void> {
  const { bodyBytesMax: bodyLimit, receive } = receivingOf(secrets, onEvent, options)
  return async (scope) => {
    scope.removeAllContentTypeParsers()
    // For any content type: the signature decides.
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, (_, body, done) => done(null, body))
    scope.post(options.path ?? '/', { bodyLimit }, async ({ body, headers }, reply) => {
      const bytes = body instanceof Uint8Array ? body : new Uint8Array()
      const status = await receive(bytes, headers)
      reply.code(status)
      if (status === 200) return reply.send()
      reply.header('content-type', 'application/json')
      return reply.send(REJECTION)
    })
  }
}
