import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PlainRoute } from '../route.ts'

const FOLDER = fileURLToPath(new URL('../../../../assets/brand/', import.meta.url))

/** The font has its version in its name, so that its content never changes. */
const FILES = [
  { name: 'tokens.css', contentType: 'text/css; charset=utf-8', cacheControl: 'no-cache' },
  {
    name: 'inter-latin-5.3.0-text.woff2',
    contentType: 'font/woff2',
    cacheControl: 'public, max-age=31536000, immutable',
  },
] as const

/** Serves the style tokens and the font of the server's own pages below a path. The dashboard bundles the same files. */
export function brandRoutes(base: string): PlainRoute[] {
  return FILES.map(({ name, contentType, cacheControl }) => {
    const body = readFileSync(join(FOLDER, name))
    return {
      path: `${base}/${name}`,
      handler: async () => ({ status: 200, contentType, headers: { 'cache-control': cacheControl }, body }),
    }
  })
}
