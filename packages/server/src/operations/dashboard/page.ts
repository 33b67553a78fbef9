import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { acceptsCoding } from '../../platform/http/pages/compressed.ts'
import { contentTypeOf, readAssets } from '../../platform/http/pages/pages.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import { fail } from './errors.ts'

/** Where the build leaves the page. */
export const DASHBOARD_FOLDER = fileURLToPath(new URL('../../../assets/dashboard/', import.meta.url))
const BASE = '/dashboard'

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}
const FOREVER = 'public, max-age=31536000, immutable'

interface File {
  contentType: string
  body: Buffer
  /** The same compressed, where the build left it so. */
  gzip: Buffer | undefined
}

/** What was built, by path below `/dashboard`. Null where nothing was. */
function readFiles(root: string): ReadonlyMap<string, File> | null {
  const inFolder = (path: string) => readAssets(join(root, path)).map((asset) => [path + asset.name, asset] as const)
  try {
    const found = new Map([...inFolder('/'), ...inFolder('/assets/')])
    if (!found.has('/index.html')) return null
    const plain = [...found].filter(([path]) => !path.endsWith('.gz'))
    return new Map(plain.map(([path, asset]) => [path, { ...asset, gzip: found.get(`${path}.gz`)?.body }]))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

const NOT_BUILT_HTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>The dashboard is not built</title>
<h1>The dashboard is not built</h1>
<p>This installation runs from its sources, and the dashboard's page has not been built from them yet. Run this and reload:</p>
<pre>npm run build -w @halfkey/dashboard</pre>
<p>The API works without it: <a href="/docs">its documentation</a>.</p>
</html>
`

const NOT_BUILT: File = { contentType: contentTypeOf('.html'), body: Buffer.from(NOT_BUILT_HTML), gzip: undefined }

function answerFile(file: File, request: PlainRequest, cacheControl: string): PlainAnswer {
  const headers = { ...HEADERS, 'cache-control': cacheControl }
  if (file.gzip === undefined) return { status: 200, contentType: file.contentType, headers, body: file.body }
  const zipped = acceptsCoding(request.headers, 'gzip')
  return {
    status: 200,
    contentType: file.contentType,
    headers: { ...headers, vary: 'Accept-Encoding', ...(zipped ? { 'content-encoding': 'gzip' } : {}) },
    body: zipped ? file.gzip : file.body,
  }
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
 * Answers with a file of the dashboard, or with its page: which of its views is meant, the page itself knows. Files are
 * read once, and looked for again while there are none; only those found then can be asked for. @throws not_found
 */
export function createDashboardPage(folder: string): PlainRoute['handler'] {
  let known: ReadonlyMap<string, File> | null = null
  return async (deps, request) => {
    known ??= readFiles(folder)
    const path = request.path.slice(BASE.length)
    const file = path === '/index.html' ? undefined : known?.get(path)
    if (file !== undefined) return answerFile(file, request, path.startsWith('/assets/') ? FOREVER : 'no-cache')
    if (path.startsWith('/assets/')) throw fail('not_found')
    return rightPlace(deps, request) ?? answerFile(known?.get('/index.html') ?? NOT_BUILT, request, 'no-store')
  }
}
