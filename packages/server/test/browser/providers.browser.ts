import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OidcProvider, startOidcProvider } from '../harness/oidc-provider.ts'
import { openSignIn, signOut } from './person.ts'
import { useSignIn } from './stage.ts'

const stage = useSignIn()
let login: OidcProvider
beforeAll(async () => {
  login = await startOidcProvider()
})
afterAll(() => login.close())

/** Somebody at the page of an app that has a provider. */
async function arriveWithProvider(clientId: string, query?: Record<string, string>) {
  const arrival = await stage.arrive()
  const body = { preset: 'oidc', name: 'Acme ID', issuer: login.issuer, clientId, clientSecret: 'a secret' }
  const { status, text, body: made } = await arrival.tenant.post(`/apps/${arrival.tenant.appId}/providers`, body)
  expect(status, text).toBe(201)
  await login.register({
    client_id: clientId,
    client_secret: 'a secret',
    redirect_uris: [made.data.callbackUrl],
    token_endpoint_auth_method: 'client_secret_post',
  })
  await openSignIn(arrival.ada, stage.service, arrival.tenant, query)
  return arrival
}

test('somebody new continues with a provider, is offered a passkey, and comes back as the same user', async () => {
  const { ada, page, tenant } = await arriveWithProvider('first')
  login.person = { sub: 'ada', email: 'ada@example.com', email_verified: true, name: 'Ada' }
  await page.getByRole('button', { name: 'Continue with Acme ID' }).waitFor()
  await ada.look('provider-first')
  await page.getByRole('button', { name: 'Continue with Acme ID' }).click()
  await page.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
  // What signed in is not in the address bar.
  expect(page.url()).not.toContain('code=')
  await page.getByRole('button', { name: 'Not now' }).click()
  await page.getByText('You have no passkey yet.').waitFor()
  await ada.look('provider-signed-in')
  await signOut(ada)
  await page.getByRole('button', { name: 'Continue with Acme ID' }).click()
  await page.getByText('You have no passkey yet.').waitFor()
  expect((await tenant.get('/users')).body.data).toMatchObject([{ email: 'ada@example.com', emailVerified: true }])
})

test('who refuses at the provider is told that they are not signed in, and can try again', async () => {
  const { ada, page, tenant } = await arriveWithProvider('second')
  login.person = null
  await page.getByRole('button', { name: 'Continue with Acme ID' }).click()
  await page.getByText('You did not continue there, so you are not signed in.').waitFor()
  await ada.look('provider-refused')
  login.person = { sub: 'grace' }
  await page.getByRole('button', { name: 'Continue with Acme ID' }).click()
  await page.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
  expect((await tenant.get('/users')).body.total).toBe(1)
})

test('a link to the page of another app does not take up what this tab keeps, nor show the address of the first app', async () => {
  const { ada, page, tenant } = await arriveWithProvider('third')
  const other = await stage.service.newTenant()
  await page.route('**/signin/providers/**', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: '<!doctype html><title>x</title><h1>On the way to the provider</h1>',
    }),
  )
  await page.getByRole('button', { name: 'Continue with Acme ID' }).click()
  await page.getByRole('heading', { name: 'On the way to the provider' }).waitFor()
  await openSignIn(ada, stage.service, other, { code: 'hk_sc_of_somebody_else' })
  await page.getByRole('button', { name: 'Continue as guest' }).waitFor()
  expect(page.url()).toContain(other.appId)
  expect(page.url()).not.toContain('code=')
  expect(await page.evaluate((name) => sessionStorage.getItem(name), `halfkey.provider.${tenant.appId}`)).toContain(
    'codeVerifier',
  )
})
