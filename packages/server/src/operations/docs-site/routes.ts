import { createRequire } from 'node:module'
import { brandRoutes } from '../../platform/http/pages/brand-files.ts'
import { createCompressed } from '../../platform/http/pages/compressed.ts'
import type { PlainAnswer, PlainRoute } from '../../platform/http/route.ts'
import { docsAssets, listPages, renderGuide, renderMissing, searchIndex } from './site.ts'

/** Where the guides are edited, once the package says it. */
const { repository: REPOSITORY } = createRequire(import.meta.url)('../../../package.json') as {
  repository?: { url: string }
}

const HTML = 'text/html; charset=utf-8'
const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
}

/** Serves a text that is made at the first request and then kept, so that a start does not wait for it. */
function textRoute(
  path: string,
  contentType: string,
  make: () => string | Promise<string>,
  headers: Record<string, string> = {},
): PlainRoute {
  let made: Promise<ReturnType<typeof createCompressed>> | undefined
  return {
    path,
    handler: async (_deps, request): Promise<PlainAnswer> => {
      made ??= Promise.resolve(make()).then((text) => createCompressed(text, 'no-cache'))
      const answer = await (await made)(request.headers)
      return { ...answer, contentType, headers: { ...headers, ...answer.headers } }
    },
  }
}

const assetRoutes = docsAssets().map(({ name, contentType, body }): PlainRoute => {
  const path = `/docs/assets/${name}`
  if (/^text\//.test(contentType)) return textRoute(path, contentType, () => body.toString())
  return { path, handler: async () => ({ status: 200, contentType, headers: { 'cache-control': 'no-cache' }, body }) }
})

/** The documentation: the guides, one page for each error code, and what they are made of. */
export const docsPages = (repository = REPOSITORY?.url ?? null): PlainRoute[] => [
  ...listPages().map((path) => textRoute(path, HTML, () => renderGuide(path, repository), PAGE_HEADERS)),
  // The API reference is served with a trailing slash; here it means the home page.
  {
    path: '/docs/',
    handler: async () => ({ status: 301, contentType: 'text/plain', headers: { location: '/docs' }, body: '' }),
  },
  textRoute('/docs/search.json', 'application/json; charset=utf-8', searchIndex),
  ...assetRoutes,
  ...brandRoutes('/docs/assets'),
  {
    path: '/docs/*',
    handler: async () => ({
      status: 404,
      contentType: HTML,
      headers: { ...PAGE_HEADERS, 'cache-control': 'no-cache' },
      body: renderMissing(),
    }),
  },
]
