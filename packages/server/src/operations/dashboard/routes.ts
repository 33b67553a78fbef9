import type { Deps } from '../../platform/deps.ts'
import { fail, invalid } from '../../platform/http/errors.ts'
import { parseJson } from '../../platform/http/json.ts'
import { limitPage, limitSignIn, type RateHeaders } from '../../platform/http/rate-limits/limits.ts'
import { one, type PlainAnswer, type PlainRequest, type PlainRoute } from '../../platform/http/route.ts'
import { serialiser, validator } from '../../platform/http/schema.ts'
import { createDashboardPage, DASHBOARD_FOLDER } from './page.ts'
import { checkOrigin, noCookie, sessionCookie } from './request-checks.ts'
import { Session, SignIn } from './schema.ts'
import { getSession, signIn, signOut } from './service.ts'

/** Where the dashboard's calls go, and how they are limited. */
export const DASHBOARD_CALLS = { base: '/dashboard/api', limit: 'secret' } as const

const check = validator(SignIn)
const write = serialiser(one(Session).schema)

const answer = (body: string, headers: Record<string, string>): PlainAnswer => ({
  status: 200,
  contentType: 'application/json; charset=utf-8',
  headers: { 'cache-control': 'no-store', ...headers },
  body,
})

/** JSON alone: what other pages can send without asking first, a form's body, is refused before it is looked at. */
function readBody({ headers, body }: PlainRequest): SignIn {
  const type = String(headers['content-type'] ?? '').split(';', 1)[0]
  if (type?.trim().toLowerCase() !== 'application/json')
    throw fail('unsupported_media_type', [
      { field: 'content-type', code: 'unsupported_media_type', message: 'Must be application/json.' },
    ])
  if (body.length === 0) throw invalid('body', 'Send {"link": …} or {"key": …}.', 'required')
  const value = parseJson(body)
  const [wrong, ...more] = check(value, body.length)
  if (wrong !== undefined) throw fail('validation_failed', [wrong, ...more])
  return value as SignIn
}

/** Signs in. Counted as a sign-in for the client's address. @throws as `signIn`, rate_limited */
async function createSessionAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits: RateHeaders = await limitSignIn(deps, request.address)
  const { token, session } = await signIn(deps, request, request.origin, readBody(request))
  return answer(write({ data: session }), { ...limits, 'set-cookie': sessionCookie(deps.config, token) })
}

/** Tells a session to its page. @throws as `enterDashboard`, rate_limited */
async function sessionAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
  return answer(write({ data: await getSession(deps, request) }), limits)
}

/** Signs out. The browser forgets the cookie and what it kept of the page. @throws as `enterDashboard`, rate_limited */
async function endSessionAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
  await signOut(deps, request, request.origin)
  return answer('{"data":{}}', {
    ...limits,
    'set-cookie': noCookie(deps.config),
    'clear-site-data': '"cache", "storage"',
  })
}

/** The page and its files, built into a folder. */
export function dashboardPages(folder: string): PlainRoute[] {
  const handler = createDashboardPage(folder)
  return [
    { path: '/dashboard', believesNothing: true, handler },
    { path: '/dashboard/*', believesNothing: true, handler },
  ]
}

/** Calls for data never get a page. */
const nothing: PlainRoute['handler'] = async () => {
  throw fail('not_found')
}

/**
 * The session's own endpoints, and the page with its files. All others below `/dashboard/api` are those of `/v1`, by the
 * session's cookie.
 */
export const dashboardRoutes: PlainRoute[] = [
  { method: 'POST', path: '/dashboard/api/session', handler: createSessionAnswer },
  { path: '/dashboard/api/session', handler: sessionAnswer },
  { method: 'DELETE', path: '/dashboard/api/session', handler: endSessionAnswer },
  { path: '/dashboard/api', handler: nothing },
  { path: '/dashboard/api/*', handler: nothing },
  ...dashboardPages(DASHBOARD_FOLDER),
]
