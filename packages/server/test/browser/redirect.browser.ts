import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { generate } from 'otplib'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectError } from '../harness/envelope.ts'
import type { Tenant } from '../harness/harness.ts'
import { openSignIn, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const STATE = 'a b&c=ü'

const stage = useSignIn()
let shop: Server
/** What the app's server was asked for. */
let visits: string[] = []
beforeAll(async () => {
  shop = createServer((request, response) => {
    // Browsers ask for an icon by themselves.
    if (request.url !== '/favicon.ico') visits.push(request.url ?? '')
    response
      .writeHead(200, { 'content-type': 'text/html' })
      .end('<!doctype html><title>Shop</title><h1>Back in the shop</h1>')
  })
  await new Promise<void>((done) => shop.listen(0, '127.0.0.1', done))
})
afterAll(() => {
  shop.closeAllConnections()
  shop.close()
})
afterEach(() => {
  visits = []
})

const shopUrl = () => `http://127.0.0.1:${(shop.address() as AddressInfo).port}/signed-in?from=halfkey%20page`

/** A link as an app makes it, followed. */
async function follow(query: Record<string, string> = {}, settings: object = {}) {
  const redirectUri = shopUrl()
  const codeVerifier = randomBytes(32).toString('base64url')
  const arrival = await stage.arrive({
    app: { name: 'Shop', allowedRedirectUrls: [redirectUri], ...settings },
    query: {
      redirect_uri: redirectUri,
      state: STATE,
      code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
      code_challenge_method: 'S256',
      ...query,
    },
  })
  return { ...arrival, exchange: { codeVerifier, redirectUri } }
}

/** The code that the app's server was visited with. */
function codeOf(visit: string | undefined): string {
  const url = new URL(visit ?? '', 'http://shop')
  expect(url.search).toMatch(/^\?from=halfkey%20page&/)
  expect([...url.searchParams.keys()]).toEqual(['from', 'code', 'state'])
  expect(url.searchParams.get('state')).toBe(STATE)
  return url.searchParams.get('code') ?? ''
}

const isLive = async (tenant: Tenant, accessToken: string) =>
  (await tenant.get('/auth/sessions', { headers: { authorization: `Bearer ${accessToken}` } })).status === 200

test(
  'an app gets its user back with a code for the session, once; a second exchange ends the session',
  SMOKE,
  async () => {
    const { ada, page, tenant, exchange } = await follow()
    await page.getByRole('heading', { name: 'Sign in to Shop' }).waitFor()
    await signUp(ada, { email: 'ada@example.com' })
    await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
    expect(visits).toHaveLength(1)
    const code = codeOf(visits[0])
    const first = await tenant.post('/auth/exchange', { code, ...exchange })
    expect(first.status, first.text).toBe(200)
    expect(first.body.data).toMatchObject({ user: { email: 'ada@example.com' }, isNewUser: true })
    expect(await isLive(tenant, first.body.data.accessToken)).toBe(true)
    expectError(await tenant.post('/auth/exchange', { code, ...exchange }), 400, 'code_invalid')
    expect(await isLive(tenant, first.body.data.accessToken)).toBe(false)
  },
)

test('the way back leaves no sign-in page in the history, and no referrer', async () => {
  const { ada, page } = await follow()
  await signUp(ada)
  await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
  expect(await page.evaluate('document.referrer')).toBe('')
  await page.goBack()
  expect(page.url()).toBe('about:blank')
})

test('a guest is brought back too', async () => {
  const { page, tenant, exchange } = await follow()
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
  const answer = await tenant.post('/auth/exchange', { code: codeOf(visits[0]), ...exchange })
  expect(answer.status, answer.text).toBe(200)
})

test('who has a second factor is asked for it before the way back', async () => {
  const { ada, page, tenant, exchange } = await follow()
  await signUp(ada)
  await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
  const first = await tenant.post('/auth/exchange', { code: codeOf(visits[0]), ...exchange })
  const headers = { authorization: `Bearer ${first.body.data.accessToken}` }
  const { secret } = (await tenant.post('/mfa/setup', {}, { headers })).body.data
  const codeNow = () => generate({ secret, epoch: Math.floor(stage.service.deps.now().getTime() / 1000) })
  expect((await tenant.post('/mfa/verify-setup', { code: await codeNow() }, { headers })).status).toBe(200)
  stage.service.advance(30_000)
  visits = []
  await openSignIn(ada, stage.service, tenant, {
    redirect_uri: exchange.redirectUri,
    state: STATE,
    code_challenge: createHash('sha256').update(exchange.codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Two-step verification' }).waitFor()
  expect(visits).toEqual([])
  await page.getByLabel('6-digit code').fill(await codeNow())
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
  const second = await tenant.post('/auth/exchange', { code: codeOf(visits[0]), ...exchange })
  expect(second.body.data).toMatchObject({ isNewUser: false, user: { id: first.body.data.user.id } })
})

test('where the code cannot be made, the page says so and tries again', async () => {
  const { ada, page } = await follow()
  await page.route('**/signin/api/code', (route) => route.fulfill({ status: 500, json: { code: 'internal_error' } }))
  await signUp(ada)
  await page.getByText('Something went wrong on our side').waitFor()
  await ada.look('redirect-failed')
  await page.unroute('**/signin/api/code')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('heading', { name: 'Back in the shop' }).waitFor()
})

test('on the way back it is said where to, and an app that opens by a tap has a link for it', async () => {
  const uri = 'com.example.shop:/signed-in'
  const { ada, page } = await follow({ redirect_uri: uri }, { allowedRedirectUrls: [uri] })
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  await page.getByRole('heading', { name: 'Taking you back to Shop…' }).waitFor()
  const link = page.getByRole('link', { name: 'Continue' })
  await link.waitFor()
  await ada.look('redirect')
  expect(await link.getAttribute('href')).toMatch(/^com\.example\.shop:\/signed-in\?code=hk_sc_[\w-]+&state=a\+b/)
})

test('a redirect that the app did not allow shows an error, and nothing on the page leads there', async () => {
  const foreign = 'https://evil.example/?x=</script><script>alert(1)</script>'
  const { ada, page } = await follow({ redirect_uri: foreign })
  await page.getByRole('heading', { name: 'This sign-in link does not work' }).waitFor()
  await ada.look('redirect-refused')
  expect(await page.getByRole('link').count()).toBe(0)
  expect(await page.getByRole('button').count()).toBe(0)
  expect(await page.content()).not.toContain('evil.example')
  expect(new URL(page.url()).pathname).toBe('/signin')
})

test('a link without PKCE, or for no app, shows an error', async () => {
  const { page } = await follow({ code_challenge: '' })
  await page.getByRole('heading', { name: 'This sign-in link does not work' }).waitFor()
  await page.goto(page.url().replace(/app_\w+/, 'app_none'))
  await page.getByRole('heading', { name: 'App not found' }).waitFor()
})
