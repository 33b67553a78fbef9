import type { FastifyReply, FastifyRequest } from 'fastify'

const PREFLIGHT_SECONDS = '600'
const ALLOWED_HEADERS = 'authorization, content-type, dpop, idempotency-key, x-api-key, x-request-id, x-user-id'
const EXPOSED_HEADERS = 'X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, WWW-Authenticate'

/** Lets pages of any origin read a response: what they may do, their key decides. */
export function cors(request: FastifyRequest, reply: FastifyReply): void {
  const origin = request.headers.origin
  reply.header('vary', 'Origin')
  if (origin === undefined) return
  reply.header('access-control-allow-origin', origin)
  reply.header('access-control-expose-headers', EXPOSED_HEADERS)
}

/** Answers a browser that asks before a request. */
export function preflight(reply: FastifyReply): FastifyReply {
  return reply
    .headers({
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': ALLOWED_HEADERS,
      'access-control-max-age': PREFLIGHT_SECONDS,
    })
    .code(200)
    .send('')
}
