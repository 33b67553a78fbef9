import { join } from 'node:path'
import type { PlainAnswer, PlainRequest } from '../route.ts'
import { acceptsCoding } from './compressed.ts'
import { contentTypeOf, readAssets } from './pages.ts'

/** A file of a page that the build leaves in a folder. */
interface BuiltFile {
  contentType: string
  body: Buffer
  /** The same compressed, where the build left it so. */
  gzip: Buffer | undefined
}

const FOREVER = 'public, max-age=31536000, immutable'

/** What was built, by path below the page's base. Null where nothing was. */
function readFiles(root: string): ReadonlyMap<string, BuiltFile> | null {
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

const notBuilt = (page: string): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>The ${page} is not built</title>
<h1>The ${page} is not built</h1>
<p>This installation runs from its sources, and the ${page}'s page has not been built from them yet. Run this and reload:</p>
<pre>npm run build -w @halfkey/dashboard</pre>
<p>The API works without it: <a href="/docs">its documentation</a>.</p>
</html>
`

type Headers = Record<string, string>

function answerFile(file: BuiltFile, request: PlainRequest, headers: Headers): PlainAnswer {
  const { contentType } = file
  if (file.gzip === undefined) return { status: 200, contentType, headers, body: file.body }
  const zipped = acceptsCoding(request.headers, 'gzip')
  return {
    status: 200,
    contentType,
    headers: { ...headers, vary: 'Accept-Encoding', ...(zipped ? { 'content-encoding': 'gzip' } : {}) },
    body: zipped ? file.gzip : file.body,
  }
}

/**
 * The files of a built page, and the page itself. Files are read once, and looked for again while there are none; only those
 * found then can be asked for.
 * @param name names the page where it is not built
 */
export function builtPage(folder: string, name: string) {
  let known: ReadonlyMap<string, BuiltFile> | null = null
  const files = () => {
    known ??= readFiles(folder)
    return known
  }
  const missing = { contentType: contentTypeOf('.html'), body: Buffer.from(notBuilt(name)), gzip: undefined }
  return {
    /** A file, by its path below the page's base; undefined if there is none. */
    file(path: string, request: PlainRequest, headers: Headers): PlainAnswer | undefined {
      const file = path === '/index.html' ? undefined : files()?.get(path)
      const cacheControl = path.startsWith('/assets/') ? FOREVER : 'no-cache'
      return file && answerFile(file, request, { ...headers, 'cache-control': cacheControl })
    },
    /** The page, which no cache may keep. */
    page(request: PlainRequest, headers: Headers): PlainAnswer {
      const file = files()?.get('/index.html') ?? missing
      return answerFile(file, request, { ...headers, 'cache-control': 'no-store' })
    },
  }
}
