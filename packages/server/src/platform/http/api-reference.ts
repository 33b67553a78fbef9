import scalar from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'

/** Everything comes from this server: the page works without the internet and sends nothing to anybody. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

/** Serves the interactive API reference at `/docs/api`, drawn from `/openapi.json`. */
export async function apiReference(app: FastifyInstance): Promise<void> {
  await app.register(scalar, {
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
}
