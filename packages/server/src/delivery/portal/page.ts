import { fileURLToPath } from 'node:url'
import { fail } from '../../platform/http/errors.ts'
import { builtPage } from '../../platform/http/pages/built-pages.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainRoute } from '../../platform/http/route.ts'
import { embeddingOrigins, PORTAL_CALLS } from './service.ts'

const FOLDER = fileURLToPath(new URL('../../../assets/portal/', import.meta.url))
const BASE = '/portal'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"

/** @param origins of pages that may embed this one */
function headersFor(origins: readonly string[]): Record<string, string> {
  const ancestors = origins.length === 0 ? "'none'" : origins.join(' ')
  return {
    'content-security-policy': `${POLICY}; frame-ancestors ${ancestors}`,
    'referrer-policy': 'no-referrer',
    // Has no form for several origins; browsers that know frame-ancestors do not read it.
    ...(origins.length === 0 ? { 'x-frame-options': 'DENY' } : {}),
  }
}

/** The portal's page and its files. */
export function portalPages(): PlainRoute[] {
  const built = builtPage(FOLDER, 'portal')
  const nothing: PlainRoute['handler'] = async () => {
    throw fail('not_found')
  }
  const page: PlainRoute['handler'] = async (deps, request) => {
    const linkId = new URLSearchParams(request.queryText).get('link')
    if (linkId !== null) await limitPage(deps, PORTAL_CALLS, request.address)
    return built.page(request, headersFor(await embeddingOrigins(deps, linkId)))
  }
  const file: PlainRoute['handler'] = async (deps, request) => {
    const found = built.file(request.path.slice(BASE.length), request, headersFor([]))
    return found ?? nothing(deps, request)
  }
  // Calls for data never get a page.
  return [
    { path: BASE, handler: page },
    { path: `${BASE}/api`, handler: nothing },
    { path: `${BASE}/api/*`, handler: nothing },
    { path: `${BASE}/*`, handler: file },
  ]
}
