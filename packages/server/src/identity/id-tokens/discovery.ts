import type { Deps } from '../../platform/deps.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { fail } from '../../platform/http/errors.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest, PlainRoute } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { issuerOf, tenantOfApp } from '../../tenancy/apps/service.ts'
import { JWKS_SECONDS, jwkSetOf } from './keys.ts'

const CONFIGURATION_SECONDS = 3600

const CALLS = { base: '/apps', limit: 'publishable' } as const

const CONFIGURATION_PATH = '/.well-known/openid-configuration'
const JWKS_PATH = '/.well-known/jwks.json'

/** The app in the path of a call. @throws not_found, the same whatever the path holds */
async function appOfPath(deps: Deps, { path }: PlainRequest): Promise<OfApp> {
  const appId = path.split('/')[2] ?? ''
  const tenantId = await tenantOfApp(deps, appId)
  // Not kept by caches: the app may be created a moment later.
  if (tenantId === undefined) throw fail('not_found', [], { 'cache-control': 'no-store' })
  return { tenantId, appId: appId as Id<'app'> }
}

/**
 * What an app's issuer can do (OpenID Connect Discovery, section 3). There is no authorization endpoint: apps get their tokens
 * by `POST /auth/id-token`.
 */
const configurationOf = (issuer: string) => ({
  issuer,
  jwks_uri: issuer + JWKS_PATH,
  response_types_supported: ['id_token'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  scopes_supported: ['openid', 'email'],
  claims_supported: 'iss sub aud azp iat exp jti auth_time amr nonce email email_verified'.split(' '),
})

type Public = Pick<PlainAnswer, 'contentType'> & { maxAgeSeconds: number; body: object }

/** Answers everybody, browsers of any page included. */
const publicRoute = (path: string, read: (deps: Deps, of: OfApp) => Promise<Public>): PlainRoute => ({
  path: `/apps/:appId${path}`,
  handler: async (deps, request) => {
    const limits = await limitPage(deps, CALLS, request.address)
    const { contentType, maxAgeSeconds, body } = await read(deps, await appOfPath(deps, request))
    const caching = { 'cache-control': `public, max-age=${maxAgeSeconds}`, 'access-control-allow-origin': '*' }
    return { status: 200, contentType, headers: { ...limits, ...caching }, body: JSON.stringify(body) }
  },
})

/** What verifiers of an app's ID tokens read, without a key. */
export const discoveryRoutes: readonly PlainRoute[] = [
  publicRoute(CONFIGURATION_PATH, async (deps, { appId }) => ({
    contentType: 'application/json; charset=utf-8',
    maxAgeSeconds: CONFIGURATION_SECONDS,
    body: configurationOf(issuerOf(deps, appId)),
  })),
  publicRoute(JWKS_PATH, async (deps, of) => {
    const { whole, keys } = await jwkSetOf(deps, of)
    const maxAgeSeconds = whole ? JWKS_SECONDS : 0
    return { contentType: 'application/jwk-set+json', maxAgeSeconds, body: { keys } }
  }),
]
