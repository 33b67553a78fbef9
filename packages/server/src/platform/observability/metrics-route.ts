import { createServer } from 'node:http'
import type { Deps } from '../deps.ts'
import { envelope, fail } from '../http/errors.ts'
import type { PlainRoute } from '../http/route.ts'
import { equalSecrets, sha256 } from '../security/crypto.ts'

const hidden = ({ config }: Deps) => ({
  status: 404,
  contentType: 'application/json; charset=utf-8',
  body: envelope(config, fail('not_found')),
})

const hasToken = (token: string, authorization: string | undefined) =>
  equalSecrets(sha256(`Bearer ${token}`), sha256(authorization ?? ''))

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/

function mayRead(deps: Deps, authorization: string | undefined, address: string): boolean {
  const { metricsToken, metricsPort, env } = deps.config
  if (metricsToken !== null) return hasToken(metricsToken, authorization)
  return metricsPort === null && env === 'development' && LOOPBACK.test(address)
}

/** `/metrics` on the main port: with the token, or on loopback in development; for others it is not there. */
export const metricsRoute: PlainRoute = {
  path: '/metrics',
  believesNothing: true,
  async handler(deps, { authorization, address }) {
    if (!mayRead(deps, authorization, address)) return hidden(deps)
    return { status: 200, contentType: deps.metrics.registry.contentType, body: await deps.metrics.registry.metrics() }
  },
}

/** `/metrics` on a separate port, for a network that only the operator's monitoring reaches; with the token, if there is one. */
export async function listenForMetrics(
  deps: Deps,
  host: string,
  port: number,
): Promise<{ port: number; close(): Promise<void> }> {
  const { metricsToken } = deps.config
  const { status, contentType, body } = hidden(deps)
  const server = createServer((request, response) => {
    const allowed = metricsToken === null || hasToken(metricsToken, request.headers.authorization)
    if (!allowed || request.method !== 'GET' || request.url?.split('?')[0] !== '/metrics') {
      response.writeHead(status, { 'content-type': contentType }).end(body)
      return
    }
    deps.metrics.registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': deps.metrics.registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
