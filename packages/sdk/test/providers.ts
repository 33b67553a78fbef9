import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { startFakeProvider } from '../../server/src/identity/providers/provider.fixture.ts'
import type { Service, Tenant } from '../../server/test/harness/harness.ts'
import type { HalfkeyClient } from '../src/client.ts'
import type { ClientOf } from './sign-in.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64url')

/** Adds a provider, signs in with an ID token of it, and links another account; a browser is sent to it. */
export async function useProviders(
  service: Service,
  tenant: Tenant,
  client: HalfkeyClient,
  clientOf: ClientOf,
): Promise<void> {
  const login = await startFakeProvider(service)
  const { providers } = client.apps
  const { id } = await providers.create(tenant.appId, { preset: 'oidc', issuer: login.issuer, clientId: 'else' })
  const provider = await providers.update(tenant.appId, id, { clientId: 'shop-web' })
  expect(await providers.get(tenant.appId, id)).toEqual(provider)
  expect((await providers.list(tenant.appId)).data).toEqual([provider])
  const redirectUrl = 'https://shop.example.com/signed-in'
  await client.apps.update(tenant.appId, { allowedRedirectUrls: [redirectUrl] })
  const codeChallenge = sha256(randomBytes(32).toString('base64url'))
  const started = await client.auth.providers.start(id, { redirectUrl, codeChallenge })
  expect(started.authorizationUrl).toContain(`/signin/providers/${id}/begin?flow=chl_`)
  const tokenOf = async (sub: string) => {
    const nonce = randomBytes(32).toString('base64url')
    return { nonce, idToken: await login.idToken({ claims: { sub, nonce: sha256(nonce) } }) }
  }
  const signedIn = await client.auth.providers.token(id, await tokenOf('ada'))
  expect(signedIn.isNewUser).toBe(true)
  const linked = await clientOf(signedIn.accessToken).auth.providers.link(id, await tokenOf('lovelace'))
  expect(linked).toMatchObject({ provider: 'oidc', issuer: login.issuer, subject: 'lovelace' })
  expect((await providers.remove(tenant.appId, id)).id).toBe(id)
  await login.close()
}
