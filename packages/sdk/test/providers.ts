import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
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

/** Signs in with one Ed25519 key outside of Halfkey, and links another. */
export async function useExternalWallets(tenant: Tenant, client: HalfkeyClient, clientOf: ClientOf): Promise<void> {
  const origin = 'https://shop.example.com'
  await client.apps.update(tenant.appId, { allowedOrigins: [origin], externalWallets: { types: ['ed25519'] } })
  const answered = async (by: HalfkeyClient, purpose: 'sign_in' | 'link') => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const hex = Buffer.from(String(publicKey.export({ format: 'jwk' }).x), 'base64url').toString('hex')
    const asked = await by.auth.wallets.start({ type: 'ed25519', publicKey: hex, origin, purpose })
    const signature = sign(null, Buffer.from(asked.message), privateKey).toString('hex')
    return { challengeId: asked.challengeId, signature }
  }
  const signedIn = await client.auth.wallets.verify(await answered(client, 'sign_in'))
  expect(signedIn.isNewUser).toBe(true)
  const mine = clientOf(signedIn.accessToken)
  expect(await mine.auth.wallets.link(await answered(mine, 'link'))).toMatchObject({ provider: 'ed25519' })
}
