import { fileURLToPath } from 'node:url'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { builtPage } from '../../platform/http/pages/built-pages.ts'
import { contentTypeOf } from '../../platform/http/pages/pages.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import { fail } from './errors.ts'

/** Where the build leaves the page. */
export const DASHBOARD_FOLDER = fileURLToPath(new URL('../../../assets/dashboard/', import.meta.url))
const BASE = '/dashboard'

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

/**
 * In development the page goes by the name in the public URL, as the sign-in page does: its cookie and its links belong to
 * that name. What stands behind `#` goes with the browser.
 */
function rightPlace({ config }: Deps, { host, path, queryText }: PlainRequest): PlainAnswer | undefined {
  const wanted = new URL(publicUrl(config))
  if (config.env !== 'development' || host === undefined || host === wanted.host) return undefined
  const query = queryText === '' ? '' : `?${queryText}`
  return {
    status: 302,
    contentType: contentTypeOf('.txt'),
    headers: { location: `${publicUrl(config)}${path}${query}`, 'cache-control': 'no-store' },
    body: '',
  }
}

/**
 * Answers with a file of the dashboard, or with its page: which of its views is meant, the page itself knows.
 * @throws not_found
 */
export function createDashboardPage(folder: string): PlainRoute['handler'] {
  const built = builtPage(folder, 'dashboard')
  return async (deps, request) => {
    const path = request.path.slice(BASE.length)
    const file = built.file(path, request, HEADERS)
    if (file !== undefined) return file
    if (path.startsWith('/assets/')) throw fail('not_found')
    return rightPlace(deps, request) ?? built.page(request, HEADERS)
  }
}
