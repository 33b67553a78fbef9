import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { createCompressed } from './compressed.ts'

/** Everything comes from this server: the page works without the internet and sends nothing to anybody. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

/** The page's script: 4 MB of text. Its address names its release, so that browsers may keep it. */
const SCRIPT = 'js/scalar.js'
const { dependencies } = createRequire(import.meta.url)('../../../../package.json') as {
  dependencies: Record<string, string>
}
const RELEASE = dependencies['@scalar/fastify-api-reference']

/** Where the installation has left it compressed; see `scripts/reference-script.ts`. */
export const COMPRESSED_SCRIPT = fileURLToPath(
  new URL(`../../../../assets/reference/scalar-${RELEASE}.js.br`, import.meta.url),
)

/** Serves the interactive API reference at `/docs/api`, drawn from `/openapi.json`. */
export async function apiReference(app: FastifyInstance): Promise<void> {
  // 17 MB of text in memory, which commands and workers do without.
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  let script: ReturnType<typeof createCompressed> | undefined
  await app.register(async (scope) => {
    scope.addHook('onSend', async (request, reply, payload) => {
      if (typeof payload !== 'string') return payload
      if (!request.url.includes(SCRIPT)) return payload.replaceAll(SCRIPT, `${SCRIPT}?v=${RELEASE}`)
      if (script === undefined) {
        const brotli = existsSync(COMPRESSED_SCRIPT) ? readFileSync(COMPRESSED_SCRIPT) : undefined
        script = createCompressed(payload, 'public, max-age=31536000, immutable', brotli)
      }
      const { status, headers, body } = await script(request.headers)
      reply.code(status).headers(headers).removeHeader('content-length')
      return body
    })
    await scope.register(scalar, {
      routePrefix: '/docs/api',
      configuration: {
        url: '/openapi.json',
        pageTitle: 'Halfkey API',
        // Nothing that would call, or send people, elsewhere.
        withDefaultFonts: false,
        hideClientButton: true,
        telemetry: false,
        showDeveloperTools: 'never',
        agent: { disabled: true },
        mcp: { disabled: true },
      },
      hooks: {
        onRequest(_request, reply, done) {
          reply.header('content-security-policy', CONTENT_SECURITY_POLICY)
          done()
        },
      },
    })
  })
}
