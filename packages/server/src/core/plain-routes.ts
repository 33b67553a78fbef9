import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from './deps.ts'
import type { PlainRoute } from './http.ts'
import { readBody } from './request-body.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** See `PlainRoute`. */
    anyHost?: boolean
  }
}

const NO_BODY = Buffer.alloc(0)

function answering(deps: Deps, route: PlainRoute) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const cut = request.url.indexOf('?')
    const answer = await route.handler(deps, {
      authorization: request.headers.authorization,
      host: request.headers.host,
      address: request.ip,
      queryText: cut === -1 ? '' : request.url.slice(cut + 1),
      headers: request.headers as IncomingHttpHeaders,
      body: Buffer.isBuffer(request.body) ? request.body : NO_BODY,
    })
    return reply
      .code(answer.status)
      .headers(answer.headers ?? {})
      .header('content-type', answer.contentType)
      .send(answer.body)
  }
}

/**
 * Serves the keyless endpoints outside `/v1`. Those that take a POST get its body as the bytes that came, whatever its
 * media type says: a signature covers those bytes and nothing else. @throws payload_too_large over 1 MiB
 */
export async function addPlainRoutes(app: FastifyInstance, deps: Deps, routes: readonly PlainRoute[]): Promise<void> {
  for (const route of routes.filter(({ method }) => method !== 'POST'))
    app.route({
      method: ['GET', 'HEAD'],
      url: route.path,
      config: { anyHost: route.anyHost ?? false },
      handler: answering(deps, route),
    })
  // In a scope of its own: how it reads bodies is not how the API does.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (request: FastifyRequest, stream: Readable) =>
      readBody(stream, Number(request.headers['content-length'])),
    )
    for (const route of routes.filter(({ method }) => method === 'POST'))
      scope.route({ method: 'POST', url: route.path, handler: answering(deps, route) })
  })
}
