import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainRoute } from '../../platform/http/route.ts'
import {
  authorizationServerOf,
  type Connectable,
  connectableApp,
  DETAILS_TYPE,
  OAUTH_CALLS,
  resourceOf,
} from './place.ts'

const MAX_AGE_SECONDS = 300

/** What agents call, and who gives them tokens for it (RFC 9728, section 2). */
const resourceMetadata = (deps: Deps, { appId, app }: Connectable) => ({
  resource: resourceOf(deps, appId),
  authorization_servers: [authorizationServerOf(deps, appId)],
  bearer_methods_supported: ['header'],
  authorization_details_types_supported: [DETAILS_TYPE],
  resource_name: app.name,
})

/** What the authorization server can do (RFC 8414, section 2). */
function serverMetadata(deps: Deps, { appId }: Connectable) {
  const issuer = authorizationServerOf(deps, appId)
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    revocation_endpoint: `${issuer}/revoke`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    authorization_details_types_supported: [DETAILS_TYPE],
    protected_resources: [resourceOf(deps, appId)],
  }
}

/** Answers everybody, browsers of any page included. */
const metadataRoute = (path: string, write: (deps: Deps, found: Connectable) => object): PlainRoute => ({
  path,
  handler: async (deps, request) => {
    const limits = await limitPage(deps, OAUTH_CALLS, request.address)
    const found = await connectableApp(deps, request.path.slice(request.path.lastIndexOf('/') + 1))
    if (found === undefined) throw fail('not_found', [], { 'cache-control': 'no-store' })
    const caching = { 'cache-control': `public, max-age=${MAX_AGE_SECONDS}`, 'access-control-allow-origin': '*' }
    return {
      status: 200,
      contentType: 'application/json; charset=utf-8',
      headers: { ...limits, ...caching },
      body: JSON.stringify(write(deps, found)),
    }
  },
})

/** What a client reads before it asks for a connection, without a key. */
export const metadataRoutes: readonly PlainRoute[] = [
  metadataRoute('/.well-known/oauth-protected-resource/mcp/:appId', resourceMetadata),
  metadataRoute('/.well-known/oauth-authorization-server/oauth/:appId', serverMetadata),
]
