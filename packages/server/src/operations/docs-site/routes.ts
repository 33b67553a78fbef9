import { brandRoutes } from '../../platform/http/pages/brand-files.ts'
import type { PlainRoute } from '../../platform/http/route.ts'
import { docsAssets, docsIndex, docsPage, listPages, missingPage } from './site.ts'

/** The documentation: the guides, one page for each error code, and what they are made of. */
export const docsPages: PlainRoute[] = [
  ...listPages().map((path) => ({ path, handler: async () => docsPage(path) })),
  // The API reference is served with a trailing slash; here it means the home page.
  {
    path: '/docs/',
    handler: async () => ({ status: 301, contentType: 'text/plain', headers: { location: '/docs' }, body: '' }),
  },
  { path: '/docs/index.json', handler: async () => docsIndex() },
  ...docsAssets().map(({ name, contentType, body }) => ({
    path: `/docs/assets/${name}`,
    handler: async () => ({ status: 200, contentType, headers: { 'cache-control': 'no-cache' }, body }),
  })),
  ...brandRoutes('/docs/assets'),
  { path: '/docs/*', handler: async () => missingPage() },
]
