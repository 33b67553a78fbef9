import { fail } from '../../platform/http/errors.ts'
import type { PlainRoute } from '../../platform/http/route.ts'
import { createDashboardPage, DASHBOARD_FOLDER } from './page.ts'
import { createSessionAnswer, endSessionAnswer, sessionAnswer } from './session.ts'

/** The page and its files, built into a folder. */
export function dashboardPages(folder: string): PlainRoute[] {
  const handler = createDashboardPage(folder)
  return [
    { path: '/dashboard', handler },
    { path: '/dashboard/*', handler },
  ]
}

/** What calls for data is not answered with a page. */
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
