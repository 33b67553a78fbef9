import { randomUUID } from 'node:crypto'
import { type Duplex, Readable } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Deps } from '../deps.ts'
import { redact } from '../observability/log.ts'
import { REQUEST } from '../observability/terminal-line.ts'
import { unrecordedTraceparent } from '../observability/traceparent.ts'
import type { Tracing } from '../observability/tracing.ts'
import type { KeyHolder } from '../security/authenticator.ts'
import { sha256 } from '../security/crypto.ts'
import { KeyServiceError } from '../security/key-services/key-service.ts'
import { cors, preflight } from './cors.ts'
import { whileAllowed } from './csv.ts'
import { envelope, fail, HttpError } from './errors.ts'
import { createHostCheck, rightHost } from './host-check.ts'
import { parseJson } from './json.ts'
import { apiReference } from './pages/api-reference.ts'
import { addPlainRoutes, originForm, originOf, pathAndQuery } from './plain-routes.ts'
import { limitKey, limitPage, limitSignIn, limitSubscriber } from './rate-limits/limits.ts'
import { addressIn, endpoint } from './request.ts'
import { DISCARDED_BYTES_MAX, readBody } from './request-body.ts'
import type { Entrance, PlainRoute, Route } from './route.ts'
import { followUnused } from './unused-connections.ts'

const BASE = '/v1'
const PARAM_CHARS_MAX = 16 * 1024
const KEY_SERVICE_RETRY_S = '5'

declare module 'fastify' {
  interface FastifyRequest {
    holder: KeyHolder | null
    bodyBytes: number
    /** See `Incoming`. */
    bodyHash: string | null
    /** Of a request that is traced. */
    traceId: string | undefined
    /** Where tracing is on: the place of the request in its trace, if it has one, also if it is not recorded. */
    traceparent: string | undefined
  }
}

export interface Server {
  /** Binds the socket. @returns its address */
  listen(host: string, port: number): Promise<{ address: string; port: number }>
  /** After this, each response closes its connection, and `draining` is true for the probes. */
  drain(): void
  close(): Promise<void>
  draining(): boolean
}

const malformed = (part: string, message: string) => fail('malformed_request', [{ code: `malformed_${part}`, message }])

const wrongHost = (deps: Deps) =>
  fail('malformed_request', [
    {
      field: 'host',
      code: 'wrong_host',
      message: `In development, the Host must be ${rightHost(deps.config)} or another loopback name. Set HALFKEY_PUBLIC_URL to the address that you use.`,
    },
  ])

function requestId(headers: FastifyRequest['headers']): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID()
}

/** Turns any failure into an error response. Unexpected errors are logged with their cause, which is not shown to the client. */
function toHttpError(error: unknown, request: FastifyRequest, deps: Deps): HttpError {
  if (error instanceof HttpError) return error
  const { code, statusCode, message } = error as { code?: string; statusCode?: number; message: string }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
    return fail('unsupported_media_type', [
      { field: 'content-type', code: 'unsupported_media_type', message: 'Must be application/json.' },
    ])
  if (code === 'FST_ERR_BAD_URL') return malformed('path', 'The path is not valid percent-encoded UTF-8.')
  if (typeof code === 'string' && code.startsWith('FST_') && statusCode !== undefined && statusCode < 500)
    return malformed('request', redact(message))
  // The same codes come from connections to the database: then the request was complete.
  if (!request.raw.complete && (code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE'))
    return malformed('body', 'The connection ended before the body was complete.')
  deps.log.error({ err: error, requestId: redact(request.id), route: request.routeOptions.url }, 'request failed')
  if (error instanceof KeyServiceError)
    return fail('key_service_unavailable', [], { 'retry-after': KEY_SERVICE_RETRY_S })
  return fail('internal_error')
}

function send(deps: Deps, reply: FastifyReply, error: HttpError): FastifyReply {
  return reply
    .code(error.status)
    .headers(error.headers)
    .header('content-type', 'application/json; charset=utf-8')
    .send(envelope(deps.config, error))
}

const PROBES = new Set([`${BASE}/healthz`, `${BASE}/readyz`])

function isProbe(request: FastifyRequest): boolean {
  return request.method === 'GET' && PROBES.has(pathAndQuery(request.url).path)
}

/** Finds the key's holder: the first check. Synchronous if the key is cached, which is nearly always. */
function findHolder(deps: Deps, request: FastifyRequest): KeyHolder | null | Promise<KeyHolder | null> {
  const key = request.headers['x-api-key']
  if (key === undefined || key === '') throw fail('api_key_missing')
  if (typeof key !== 'string') return null
  const known = deps.auth.authenticateNow(key)
  if (known !== undefined) return known
  return isProbe(request) ? deps.auth.authenticateProbe(key) : deps.auth.authenticate(key)
}

/** Checks the key's holder, then the rate limit, for every path below the base, known or not. Waits only for shared limits. */
function admit(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  holder: KeyHolder | null,
): void | Promise<void> {
  if (holder === null) throw fail('api_key_invalid')
  if (holder.allowedIps.length > 0 && !addressIn(request.ip, holder.allowedIps)) throw fail('ip_not_allowed')
  request.holder = holder
  const limit = limitKey(deps, holder, request.ip)
  if (limit instanceof Promise) return limit.then((headers) => void reply.headers(headers))
  reply.headers(limit)
}

/** The headers of every response. */
function addHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id)
  reply.header('x-content-type-options', 'nosniff')
}

const isApi = (url: string) => url === BASE || url.startsWith(`${BASE}/`) || url.startsWith(`${BASE}?`)

/** A request that the HTTP parser rejects never reaches a handler. This sends the same error envelope. */
function answerParserError(deps: Deps, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const body = envelope(
    deps.config,
    fail('malformed_request', [
      { code: (error.code ?? 'malformed').toLowerCase(), message: 'The HTTP parser rejected the request.' },
    ]),
  )
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-Id: ${randomUUID()}\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

function newFastify(deps: Deps): FastifyInstance {
  const app = Fastify({
    genReqId: (raw) => requestId(raw.headers),
    rewriteUrl: (raw) => originForm(raw.url ?? '/'),
    trustProxy: deps.config.trustedProxies.length > 0 ? deps.config.trustedProxies : false,
    routerOptions: { maxParamLength: PARAM_CHARS_MAX, ignoreTrailingSlash: false },
    exposeHeadRoutes: false,
    bodyLimit: DISCARDED_BYTES_MAX,
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => answerParserError(deps, error, socket),
    http: { requireHostHeader: false },
    frameworkErrors: async (error, request, reply) => {
      // A path with broken percent-encoding never reaches the hooks, so the key is checked here.
      addHeaders(request, reply)
      try {
        if (isApi(request.url)) {
          cors(request, reply)
          if (request.method === 'OPTIONS') return preflight(reply)
          await admit(deps, request, reply, await findHolder(deps, request))
        }
        throw error
      } catch (failure) {
        send(deps, reply, toHttpError(failure, request, deps))
      }
    },
  })
  app.server.on('checkExpectation', (_, response) => {
    const body = envelope(deps.config, malformed('expectation', 'The `Expect` header must be 100-continue.'))
    response
      .writeHead(400, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body),
        'x-request-id': randomUUID(),
        connection: 'close',
      })
      .end(body)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest, stream: Readable): Promise<unknown> => {
    const body = await readBody(stream, Number(request.headers['content-length']))
    if (body.length === 0)
      throw fail('malformed_json', [
        { code: 'malformed_json', message: 'The body is empty. Send {}, or omit the content type.' },
      ])
    request.bodyBytes = body.length
    if (request.headers.dpop !== undefined) request.bodyHash = sha256(body).toString('base64url')
    return parseJson(body)
  })
  app.setErrorHandler((error, request, reply) => send(deps, reply, toHttpError(error, request, deps)))
  app.setNotFoundHandler((_, reply) => send(deps, reply, fail('not_found')))
  return app
}

/** Routes without traces: they are called every few seconds and are not interesting. */
const UNTRACED = new Set(['/healthz', '/readyz', '/metrics'])

/** Before all other hooks: everything that a request does runs within its trace. */
function trace(app: FastifyInstance, tracing: Tracing): void {
  app.addHook('onRequest', (request, reply, done) => {
    const route = request.is404 ? undefined : request.routeOptions.url
    const traced = UNTRACED.has(route ?? '')
      ? null
      : tracing.beginRequest(request.method, route, request.headers.traceparent)
    request.traceparent = traced?.traceparent ?? unrecordedTraceparent(request.headers.traceparent)
    if (traced === null) return done()
    request.traceId = traced.traceId
    reply.raw.once('close', () =>
      traced.end(reply.raw.writableFinished ? reply.statusCode : null, request.holder?.tenantId),
    )
    traced.run(done)
  })
}

function addHooks(app: FastifyInstance, deps: Deps, state: { draining: boolean }): void {
  if (deps.tracing !== null) trace(app, deps.tracing)
  const isOurHost = createHostCheck(deps.config)
  app.decorateRequest('holder', null)
  app.decorateRequest('bodyBytes', 0)
  app.decorateRequest('bodyHash', null)
  for (const name of ['traceId', 'traceparent']) app.decorateRequest(name, undefined)
  // A callback instead of a promise: a cached key then costs no turn of the event loop.
  app.addHook('onRequest', (request, reply, done) => {
    try {
      const forApi = isForApi(request, reply, state)
      const { host } = request.headers
      const { anyHost = false } = request.routeOptions.config
      if (host !== undefined && !anyHost && !isOurHost(host)) throw wrongHost(deps)
      if (!forApi) return done()
      if (request.method === 'OPTIONS') return void preflight(reply)
      if (!isProbe(request)) deps.floor.require()
      // Before the body is read: an unknown route is a 404 for any body.
      const found = () => {
        deps.requests.count(request.holder as KeyHolder)
        return request.is404 ? done(fail('not_found')) : done()
      }
      const enter = (holder: KeyHolder | null) => admit(deps, request, reply, holder)
      const holder = findHolder(deps, request)
      const admitted = holder instanceof Promise ? holder.then(enter) : enter(holder)
      if (!(admitted instanceof Promise)) return found()
      admitted.then(found, (error: Error) => done(error))
    } catch (error) {
      done(error as Error)
    }
  })
  const histograms = new Map<string, { observe(seconds: number): void }>()
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown')
    const status = reply.statusCode
    const labels = `${request.method} ${status} ${route}`
    // Looked up once for each set of labels: a look-up per request would cost more than the counting.
    const histogram = histograms.get(labels) ?? deps.metrics.requests.labels(route, request.method, String(status))
    histograms.set(labels, histogram)
    histogram.observe(reply.elapsedTime / 1000)
    const { holder } = request
    deps.log.info(
      {
        requestId: redact(request.id),
        method: request.method,
        route,
        status,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        tenantId: holder?.tenantId,
        keyId: holder?.keyId,
        traceId: request.traceId,
      },
      REQUEST,
    )
    done()
  })
}

/** Runs the checks of every request. @returns whether it is for the API @throws malformed_request */
function isForApi(request: FastifyRequest, reply: FastifyReply, state: { draining: boolean }): boolean {
  addHeaders(request, reply)
  if (state.draining) reply.header('connection', 'close')
  // RFC 9112, section 3.2. Node would refuse it too, but not in the envelope.
  if (request.headers.host === undefined && request.raw.httpVersion === '1.1')
    throw malformed('request', 'The `Host` header is missing.')
  // Uses the matched route, because the path may be percent-encoded: no spelling may bypass the key.
  if (!isApi(request.routeOptions.url ?? request.url)) return false
  cors(request, reply)
  return true
}

const limitsSignIn = (deps: Deps) => async (request: FastifyRequest, reply: FastifyReply) => {
  reply.headers(await limitSignIn(deps, request.ip))
}

/** A call that ends sooner did not wait for anything, unless it was asked to. */
const TRUSTED_MS = 100

/** Whether an answer may have what happened after the call was authenticated: it took long, or waited for something to happen. */
const isLate = ({ url }: FastifyRequest, { elapsedTime }: FastifyReply): boolean =>
  elapsedTime > TRUSTED_MS || new URLSearchParams(pathAndQuery(url).queryText).has('wait')

/** Whether somebody else lowered the role of the member who calls, or took the app away that the call was for. */
const haveRightsChanged = (before: KeyHolder, now: KeyHolder) =>
  before.member?.role !== now.member?.role || before.appId !== now.appId

/** Authenticates a call again after it waited for data: the key or session may have ended in the meantime. */
async function askAgain(deps: Deps, request: FastifyRequest, entrance: Entrance | undefined): Promise<void> {
  const { method, ip: address, headers } = request
  if (entrance !== undefined) {
    const holder = await entrance.enter(deps, { method, address, headers })
    if (haveRightsChanged(request.holder as KeyHolder, holder)) throw fail('session_revoked')
  } else if ((await findHolder(deps, request)) === null) throw fail('api_key_invalid')
}

const enters = (deps: Deps, entrance: Entrance) => async (request: FastifyRequest, reply: FastifyReply) => {
  const { method, ip: address, headers } = request
  // Responses that depend on a cookie must not be cached.
  reply.header('cache-control', 'no-store')
  deps.floor.require()
  reply.headers(await limitPage(deps, entrance, address))
  const holder = await entrance.enter(deps, { method, address, headers })
  request.holder = holder
  // The limit belongs to the key or the subscriber, for every way in and any number of addresses.
  if (entrance.limit === 'secret') reply.headers(await limitKey(deps, holder, address))
  if (holder.subscriberId !== undefined) await limitSubscriber(deps, holder.subscriberId)
}

function addRoute(app: FastifyInstance, deps: Deps, route: Route, entrance?: Entrance): void {
  const answer = endpoint(deps, route)
  app.route({
    method: route.method,
    url: `${entrance?.base ?? BASE}${route.path}`,
    onRequest: [
      ...(entrance === undefined ? [] : [enters(deps, entrance)]),
      ...(route.limit === 'sign_in' ? [limitsSignIn(deps)] : []),
    ],
    handler: async (request, reply) => {
      // A body that came slowly: whoever calls may have lost what they had when the call began.
      if (route.method !== 'GET' && reply.elapsedTime > TRUSTED_MS) await askAgain(deps, request, entrance)
      const outgoing = await answer({
        holder: request.holder as KeyHolder,
        origin: originOf(request),
        params: request.params as Record<string, string>,
        ...pathAndQuery(request.url),
        body: request.body,
        bodyBytes: request.bodyBytes,
        bodyHash: request.bodyHash,
        headers: request.headers,
      })
      if (route.method === 'GET' && isLate(request, reply)) await askAgain(deps, request, entrance)
      if (outgoing.replayed) reply.header('idempotency-replayed', 'true')
      if (route.secret) reply.header('cache-control', 'no-store')
      reply.code(outgoing.status)
      const { body } = outgoing
      if (typeof body === 'string') return reply.header('content-type', 'application/json; charset=utf-8').send(body)
      const lines = whileAllowed(body, () => askAgain(deps, request, entrance))
      return reply.header('content-type', 'text/csv; charset=utf-8; header=present').send(Readable.from(lines))
    },
  })
}

/** Builds the HTTP server out of the route tables. Listens to nothing yet. */
export async function createServer(
  deps: Deps,
  routes: readonly Route[],
  plainRoutes: readonly PlainRoute[],
  entrances: readonly Entrance[] = [],
): Promise<Server> {
  const state = { draining: false }
  const app = newFastify(deps)
  const unused = followUnused(app.server)
  addHooks(app, deps, state)
  for (const route of routes) addRoute(app, deps, route)
  for (const entrance of entrances) for (const route of entrance.routes) addRoute(app, deps, route, entrance)
  await addPlainRoutes(app, deps, plainRoutes)
  await apiReference(app)
  await app.ready()
  return {
    async listen(host, port) {
      await app.listen({ host, port, listenTextResolver: () => '' })
      const address = app.server.address()
      if (address === null || typeof address === 'string') throw new Error('the server listens on no port')
      return { address: address.address, port: address.port }
    },
    drain: () => {
      state.draining = true
    },
    close() {
      unused.close()
      return app.close()
    },
    draining: () => state.draining,
  }
}
