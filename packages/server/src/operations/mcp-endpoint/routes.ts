import type { PlainRoute } from '../../platform/http/route.ts'

const path = '/mcp'
/** For clients that their users connect by OAuth. */
const connected = '/mcp/:appId'

// Loaded with the first call: the protocol's library takes megabytes, which no other process needs.
const handler: PlainRoute['handler'] = async (deps, request) =>
  (await import('./service.ts')).answerAgent(deps, request)

const connectedHandler: PlainRoute['handler'] = async (deps, request) =>
  (await import('./service.ts')).answerConnected(deps, request)

/** Streamable HTTP has one path. Without sessions of the protocol, GET and DELETE are answered with 405. */
export const mcpRoutes: readonly PlainRoute[] = [
  { method: 'POST', path, handler },
  { method: 'GET', path, handler },
  { method: 'DELETE', path, handler },
  { method: 'POST', path: connected, handler: connectedHandler },
  { method: 'GET', path: connected, handler: connectedHandler },
  { method: 'DELETE', path: connected, handler: connectedHandler },
]
