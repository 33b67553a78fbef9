import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../../../..')

const IMPORTS = {
  '@halfkey/keys': '/packages/keys/src/index.ts',
  '@halfkey/sdk': '/packages/sdk/src/index.ts',
  '@noble/curves/': '/node_modules/@noble/curves/',
  '@noble/hashes/': '/node_modules/@noble/hashes/',
  '@hpke/core': '/node_modules/@hpke/core/esm/mod.js',
  '@hpke/common': '/node_modules/@hpke/common/esm/mod.js',
}

const page = (module: string) => `<!doctype html><html lang="en"><title>An app</title>
<script type="importmap">${JSON.stringify({ imports: IMPORTS })}</script>
<script type="module">import * as app from '/packages/server/test/browser/${module}'; globalThis.app = app</script>
<p>An app</p>`

function moduleAt(path: string): string {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return path.endsWith('.ts') ? stripTypeScriptTypes(text) : text
}

/** A site whose one page has a module of this folder as `app`, with the packages as they are in the repository. */
export interface Site {
  origin: string
  close(): Promise<void>
}

/** Opens a site, on a port of its own. */
export async function openSite(module: string): Promise<Site> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const answer = (type: string, body: string) => response.writeHead(200, { 'content-type': type }).end(body)
    if (pathname === '/') answer('text/html', page(module))
    else if (/^\/(packages|node_modules)\/[\w@./-]+\.(ts|js)$/.test(pathname))
      answer('text/javascript', moduleAt(pathname))
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
