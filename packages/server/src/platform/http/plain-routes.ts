import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../deps.ts'
import { redact } from '../observability/log.ts'
import { formatTraceparent, parseTraceparent } from '../observability/traceparent.ts'
import { readBody } from './request-body.ts'
import type { InsideRequest, Origin, PlainRequest, PlainRoute } from './route.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** See `PlainRoute`. */
    anyHost?: boolean
  }
}

const NO_BODY = Buffer.alloc(0)
const USER_AGENT_CHARS_MAX = 300

function userAgent(request: FastifyRequest): string | null {
  const text = request.headers['user-agent']
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a header may hold them, a record need not
  return text === undefined ? null : redact(text.slice(0, USER_AGENT_CHARS_MAX)).replace(/[\x00-\x1f\x7f]/g, ' ')
}

/** Without tracing, a caller's trace goes on in what its call causes, as the caller has it. */
function traceOf({ traceparent, headers }: FastifyRequest): Pick<Origin, 'traceparent'> {
  if (traceparent !== undefined) return { traceparent }
  const given = parseTraceparent(headers.traceparent)
  return given === null ? {} : { traceparent: formatTraceparent(given) }
}

/** The origin of a request, as stored with its effects. */
export function originOf(request: FastifyRequest): Origin {
  return {
    requestId: redact(request.id),
    address: request.ip,
    userAgent: userAgent(request),
    webOrigin: request.headers.origin ?? null,
    actor: null,
    ...traceOf(request),
  }
}

/** RFC 9112, section 3.2.2: the absolute form of a target is accepted. All that follows knows paths only. */
export function originForm(url: string): string {
  if (url.startsWith('/')) return url
  const path = url.replace(/^https?:\/\/[^/?#]*/i, '')
  return path.startsWith('/') ? path : `/${path}`
}

/** Splits a request's target into path and query. */
export function pathAndQuery(url: string): { path: string; queryText: string } {
  const [path = '', ...query] = url.split('?')
  return { path, queryText: query.join('?') }
}

const asking =
  ({ server, ip: remoteAddress }: FastifyRequest): PlainRequest['ask'] =>
  async ({ method, path: url, headers, body }: InsideRequest) => {
    const payload = body === undefined ? {} : { payload: body }
    const answer = await server.inject({ method: method as 'GET', url, headers, remoteAddress, ...payload })
    const texts = Object.entries(answer.headers).map(([name, value]) => [name, String(value)])
    return { status: answer.statusCode, headers: Object.fromEntries(texts), body: answer.body }
  }

function answering(deps: Deps, route: PlainRoute) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    if (route.believesNothing !== true) deps.floor.require()
    const answer = await route.handler(deps, {
      method: request.method,
      ...pathAndQuery(request.url),
      origin: originOf(request),
      authorization: request.headers.authorization,
      host: request.headers.host,
      address: request.ip,
      headers: request.headers,
      body: Buffer.isBuffer(request.body) ? request.body : NO_BODY,
      ask: asking(request),
    })
    return reply
      .code(answer.status)
      .headers(answer.headers ?? {})
      .header('content-type', answer.contentType)
      .send(answer.body)
  }
}

/**
 * Serves the endpoints outside `/v1` that need no key. Those with a body get its bytes unchanged, with any
 * media type, because a signature covers exactly those bytes. @throws payload_too_large over 1 MiB
 */
export async function addPlainRoutes(app: FastifyInstance, deps: Deps, routes: readonly PlainRoute[]): Promise<void> {
  for (const route of routes.filter(({ method = 'GET' }) => method === 'GET'))
    app.route({
      method: ['GET', 'HEAD'],
      url: route.path,
      config: { anyHost: route.anyHost ?? false },
      handler: answering(deps, route),
    })
  // In a separate scope, because it reads bodies differently from the API.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (request: FastifyRequest, stream: Readable) =>
      readBody(stream, Number(request.headers['content-length'])),
    )
    for (const route of routes)
      if (route.method === 'POST' || route.method === 'DELETE')
        scope.route({ method: route.method, url: route.path, handler: answering(deps, route) })
  })
}
