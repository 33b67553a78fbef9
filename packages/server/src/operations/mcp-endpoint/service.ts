import { createMcpHandler } from '@modelcontextprotocol/server'
import { createAgent } from '../../../../mcp/src/agent.ts'
import { createAgentServer } from '../../../../mcp/src/server.ts'
import { resourceMetadataOf, sessionTokenFor } from '../../delegation/service.ts'
import type { Deps } from '../../platform/deps.ts'
import { envelope, fail, pathId } from '../../platform/http/errors.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import { VERSION } from '../../platform/version.ts'
import { outsideOf } from './outside.ts'

/** Where agents call: the same checks as from outside, without a network between. */
const BASE = '/agent/api'
/** Only the path of an address is used. */
const INSIDE = 'http://halfkey.invalid'
const JSON_TYPE = 'application/json; charset=utf-8'
/** Longer than the attempts of a tool, and shorter than a client waits. */
const ANSWER_MS_MAX = 55_000

/** How calls are limited before their token is looked up: for each address, as at the entrance that accepted ones go through. */
const CONNECTED_CALLS = { base: '/mcp', limit: 'secret' } as const
/** How calls without a valid token are limited, as well. */
const REFUSED_CALLS = { base: '/mcp', limit: 'publishable' } as const

const BEARER = /^Bearer +(\S+)$/i

/** Headers of the request that calls inside carry on: who calls from where is decided on them. */
function carriedOn({ headers, host, origin }: PlainRequest): Record<string, string> {
  const { origin: page, 'user-agent': agent } = headers
  return {
    'x-request-id': origin.requestId,
    ...(host === undefined ? {} : { host }),
    ...(typeof page === 'string' ? { origin: page } : {}),
    ...(typeof agent === 'string' ? { 'user-agent': agent } : {}),
  }
}

/** The SDK's `fetch`: asks this process. */
const inside = (request: PlainRequest) => async (url: string, init: RequestInit) => {
  const { pathname, search } = new URL(url)
  const headers = { ...Object.fromEntries(new Headers(init.headers)), ...carriedOn(request) }
  const body = typeof init.body === 'string' ? { body: init.body } : {}
  const answer = await request.ask({ method: init.method ?? 'GET', path: pathname + search, headers, ...body })
  return new Response(answer.body, { status: answer.status, headers: new Headers(answer.headers) })
}

/** Clients of the protocol cannot make proofs, and one request becomes several calls. */
const needsKey = () =>
  fail('dpop_proof_required').about(
    'authorization',
    'Sessions that are bound to a key cannot be used at /mcp. Run `npx @halfkey/mcp` with HALFKEY_KEY_FILE.',
  )

/** Several messages in one body, as revisions of the protocol before 2025-06-18 had it: each would count as one call. */
const isBatch = ({ method, body }: PlainRequest) =>
  method === 'POST' && new TextDecoder().decode(body).trimStart().startsWith('[')

/** The protocol's own refusal (JSON-RPC 2.0, section 5.1). */
const NO_BATCHES: PlainAnswer = {
  status: 400,
  contentType: JSON_TYPE,
  headers: { 'cache-control': 'no-store' },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: null,
    error: { code: -32_600, message: 'Send one message in each request: batches are not supported.' },
  }),
}

/** The request as the protocol's handler takes it, without the token. */
function webRequest({ method, headers, body }: PlainRequest): Request {
  const passed = new Headers()
  for (const [name, value] of Object.entries(headers))
    if (typeof value === 'string' && !['authorization', 'content-length', 'transfer-encoding'].includes(name))
      passed.set(name, value)
  const sent = method === 'POST' ? { body: new Uint8Array(body) } : {}
  return new Request(`${INSIDE}/mcp`, { method, headers: passed, ...sent, signal: AbortSignal.timeout(ANSWER_MS_MAX) })
}

/** What is asked of a client without a valid token (RFC 6750, section 3); of one that can get one by OAuth, where (RFC 9728, section 5.1). */
const challengeFor = (token: string, metadata: string | null) =>
  [
    'Bearer realm="halfkey"',
    ...(metadata === null ? [] : [`resource_metadata="${metadata}"`]),
    ...(token === '' ? [] : ['error="invalid_token"']),
  ].join(', ')

/** A refusal of the API passed on. */
function refusal(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>>,
  challenge: string,
): PlainAnswer {
  const { 'retry-after': retryAfter } = headers
  return {
    status,
    contentType: JSON_TYPE,
    headers: {
      'cache-control': 'no-store',
      ...(status === 401 ? { 'www-authenticate': challenge } : {}),
      ...(retryAfter === undefined ? {} : { 'retry-after': retryAfter }),
    },
    body,
  }
}

/** The session of a token. */
function findSession(request: PlainRequest, authorization: string) {
  const headers = { ...carriedOn(request), ...(authorization === '' ? {} : { authorization }) }
  return request.ask({ method: 'GET', path: `${BASE}/delegated-sessions/me`, headers })
}

/** Has the protocol's handler answer a request whose token was accepted. */
async function answerWith(deps: Deps, request: PlainRequest, token: string): Promise<PlainAnswer> {
  if (isBatch(request)) return NO_BATCHES
  const agent = createAgent({ baseUrl: INSIDE + BASE, token }, inside(request))
  const context = {
    scrub: (text: string) => text.replaceAll(token, 'dst_[removed]'),
    report: (error: unknown) => deps.log.error({ err: error, requestId: request.origin.requestId }, 'MCP call failed'),
  }
  // The tools send nothing before their results, so each answer is one body. A subscription would stay open.
  const outside = outsideOf(deps, token)
  const { fetch: answer, close } = createMcpHandler(() => createAgentServer(agent, outside, VERSION, context), {
    maxSubscriptions: 0,
  })
  const response = await answer(webRequest(request))
  const contentType = response.headers.get('content-type') ?? JSON_TYPE
  const body = await response.text()
  await close()
  const { allow } = Object.fromEntries(response.headers)
  const more = allow === undefined ? {} : { allow }
  return { status: response.status, contentType, headers: { 'cache-control': 'no-store', ...more }, body }
}

/**
 * Answers one request of an agent's client. Each stands for itself: nothing is kept between two. The token, the origin and
 * the limits are checked by the API before the protocol's handler sees the request. A session that has ended is let in: the
 * tools say that it has.
 */
export async function answerAgent(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const { authorization = '' } = request
  const [, token = ''] = BEARER.exec(authorization) ?? []
  const me = await findSession(request, authorization)
  const hasEnded = me.status === 410 || (me.status === 403 && me.body.includes('"user_suspended"'))
  const isBound = me.status === 401 && me.body.includes('"dpop_proof_')
  const challenge = challengeFor(token, null)
  if (isBound) return refusal(me.status, envelope(deps.config, needsKey()), me.headers, challenge)
  if (me.status !== 200 && !hasEnded) return refusal(me.status, me.body, me.headers, challenge)
  return answerWith(deps, request, token)
}

/** Whether a session may be used by a token of OAuth: such a token ends with its session, and while the wallet is frozen. */
const isUsable = ({ status, body }: { status: number; body: string }): boolean =>
  status === 200 && (JSON.parse(body) as { data: { wallet: { status: string } } }).data.wallet.status !== 'frozen'

/** An ended session is no reason to keep a client from asking its user again. */
const ENDED = /"(user_suspended|guest_expired|delegated_session_(revoked|expired|exhausted))"/

/**
 * The same for a client that its user connected by OAuth, at the `/mcp` of their app. Only an access token for it counts: it stands for the
 * token of the session, which stays inside. @throws not_found for what is no app's id
 */
export async function answerConnected(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const { authorization = '', path } = request
  const appId = pathId('app', path.slice(path.lastIndexOf('/') + 1))
  const [, accessToken = ''] = BEARER.exec(authorization) ?? []
  const challenge = challengeFor(authorization, resourceMetadataOf(deps, appId))
  const invalid = () =>
    refusal(
      401,
      envelope(deps.config, fail(authorization === '' ? 'session_missing' : 'session_invalid')),
      {},
      challenge,
    )
  await limitPage(deps, CONNECTED_CALLS, request.address)
  const token = await sessionTokenFor(deps, appId, accessToken)
  if (token === undefined) {
    await limitPage(deps, REFUSED_CALLS, request.address)
    return invalid()
  }
  const me = await findSession(request, `Bearer ${token}`)
  if (isUsable(me)) return answerWith(deps, request, token)
  if (me.status === 200 || ENDED.test(me.body)) return invalid()
  return refusal(me.status, me.body, me.headers, challenge)
}
