import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import { limitPage, limitSignIn, type RateHeaders } from '../../platform/http/rate-limits/limits.ts'
import { one, type PlainAnswer, type PlainRequest, type PlainRoute } from '../../platform/http/route.ts'
import { serialiser, validator } from '../../platform/http/schema.ts'
import { codeRoutes } from './code-calls.ts'
import { answer, DASHBOARD_CALLS, readJson } from './json-calls.ts'
import { oidcRoutes } from './oidc-calls.ts'
import { createDashboardPage, DASHBOARD_FOLDER } from './page.ts'
import { passkeyRoutes } from './passkey-calls.ts'
import { checkOrigin, noCookie, sessionCookie } from './request-checks.ts'
import { Session, SignIn } from './schema.ts'
import { getSession, signIn, signOut } from './service.ts'

const check = validator(SignIn)
const write = serialiser(one(Session).schema)

/** Signs in. Counted as a sign-in for the client's address. @throws as `signIn`, rate_limited */
async function createSessionAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits: RateHeaders = await limitSignIn(deps, request.address)
  const { token, session } = await signIn(deps, request, request.origin, readJson<SignIn>(request, check))
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
  ...passkeyRoutes,
  ...codeRoutes,
  ...oidcRoutes,
  { path: '/dashboard/api', handler: nothing },
  { path: '/dashboard/api/*', handler: nothing },
  ...dashboardPages(DASHBOARD_FOLDER),
]
