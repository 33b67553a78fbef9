import { createPrivateKey } from 'node:crypto'
import { SignJWT } from 'jose'
import {
  allowInsecureRequests,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  customFetch,
  None,
  type ServerMetadata,
} from 'openid-client'
import type { Deps } from '../../../platform/deps.ts'
import { openSecret, type ProviderRow } from '../../../tenancy/apps/providers/service.ts'
import { guardedFetch, timeoutOf } from './egress-fetch.ts'
import { metadataOf } from './metadata.ts'

/** A client secret of Apple's is used at once. */
const APPLE_SECRET_SECONDS = 300

/** What an app learns of its users: who they are, and no access to anything of theirs. */
const SCOPES: Readonly<Record<ProviderRow['preset'], string>> = {
  google: 'openid email profile',
  apple: 'openid email name',
  microsoft: 'openid email profile',
  github: 'read:user user:email',
  oidc: 'openid email profile',
}

/** Apple takes a JWT that the app's private key has signed in place of a secret. */
async function appleSecret({ now }: Pick<Deps, 'now'>, row: ProviderClient, pem: string): Promise<string> {
  const issuedAt = now()
  return new SignJWT()
    .setProtectedHeader({ alg: 'ES256', kid: row.key_id ?? '' })
    .setIssuer(row.team_id ?? '')
    .setSubject(row.client_id)
    .setAudience(row.issuer)
    .setIssuedAt(issuedAt)
    .setExpirationTime(new Date(issuedAt.getTime() + APPLE_SECRET_SECONDS * 1000))
    .sign(createPrivateKey(pem))
}

/** What being a client of a provider takes. */
export type ProviderClient = Pick<
  ProviderRow,
  'tenant_id' | 'id' | 'preset' | 'issuer' | 'client_id' | 'client_secret_sealed' | 'team_id' | 'key_id'
>

/** How the client proves who it is: in the form where the provider takes that, or else in the header. */
async function authenticationOf(deps: Deps, row: ProviderClient, metadata: ServerMetadata): Promise<ClientAuth> {
  const secret = await openSecret(deps, row)
  if (secret === null) return None()
  if (row.preset === 'apple') return ClientSecretPost(await appleSecret(deps, row, secret))
  const methods = metadata.token_endpoint_auth_methods_supported
  return methods?.includes('client_secret_post') ? ClientSecretPost(secret) : ClientSecretBasic(secret)
}

/** The app as a client of the provider, all of whose requests go through the guard. @throws ProviderFailed, and the errors of the library */
export async function clientOf(deps: Deps, row: ProviderClient): Promise<Configuration> {
  const metadata = await metadataOf(deps, row)
  const authentication = await authenticationOf(deps, row, metadata)
  const client = new Configuration(metadata, row.client_id, undefined, authentication)
  client[customFetch] = guardedFetch(deps)
  client.timeout = Math.ceil(timeoutOf(deps) / 1000) + 1
  if (deps.config.env === 'development') allowInsecureRequests(client)
  return client
}

/** What binds the answer of a provider to the browser that was sent there. */
export interface Binding {
  state: string
  nonce: string
  codeChallenge: string
}

/** Where the browser is sent to, and where the provider sends it back to. */
export function authorizationUrl(
  { preset }: Pick<ProviderClient, 'preset'>,
  client: Configuration,
  binding: Binding,
  redirectUri: string,
): URL {
  return buildAuthorizationUrl(client, {
    redirect_uri: redirectUri,
    scope: SCOPES[preset],
    state: binding.state,
    code_challenge: binding.codeChallenge,
    code_challenge_method: 'S256',
    ...(preset === 'github' ? {} : { nonce: binding.nonce }),
    // Apple tells name and email only in this way.
    ...(preset === 'apple' ? { response_mode: 'form_post' } : {}),
  })
}
