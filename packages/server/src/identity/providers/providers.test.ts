import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { type OidcProvider, startOidcProvider } from '../../../test/harness/oidc-provider.ts'
import { dump, eventsOf, personOf } from '../sessions/sessions.fixture.ts'
import {
  CLIENT_ID,
  newBrowser,
  newPkce,
  newProviderApp,
  newSubject,
  type ProviderApp,
  REDIRECT,
} from './provider.fixture.ts'

let service: Service
let login: OidcProvider
beforeAll(async () => {
  service = await startService()
  login = await startOidcProvider()
})
afterAll(async () => {
  await service.stop()
  await login.close()
})

/** An app that is a client of the real provider. */
async function newApp(settings: object = {}): Promise<ProviderApp> {
  const clientId = newSubject()
  const app = await newProviderApp(service, login.issuer, { clientId, ...settings })
  await login.register({
    client_id: clientId,
    client_secret: 'a secret of the client',
    redirect_uris: [app.record.callbackUrl],
    token_endpoint_auth_method: 'client_secret_post',
  })
  return app
}

/** Signs in with a new browser as whoever is at the provider. */
async function signIn(app: ProviderApp) {
  const pkce = newPkce()
  const browser = newBrowser()
  const started = await app.start(pkce)
  expect(started.status, started.text).toBe(200)
  const back = await browser.follow(started.body.data.authorizationUrl)
  return { pkce, browser, back, started }
}

describe('with a real provider', () => {
  test('a new person becomes a user, and comes back as the same one', async () => {
    const app = await newApp()
    login.person = { sub: newSubject(), email: 'ada@example.com', email_verified: true, name: 'Ada' }
    const { back, pkce, browser } = await signIn(app)
    expect(back.searchParams.get('state')).toBe('app state')
    expect(back.searchParams.get('error')).toBeNull()
    const answer = await app.exchange(back.searchParams.get('code'), pkce)
    expect(answer.status, answer.text).toBe(200)
    const { data } = answer.body
    expect(data).toMatchObject({
      isNewUser: true,
      user: { email: 'ada@example.com', emailVerified: true, name: 'Ada' },
    })
    // The cookie of the flow is gone.
    expect(
      [...browser.cookies.values()].flatMap((jar) => [...jar.keys()]).filter((name) => name.includes('halfkey')),
    ).toEqual([])
    const person = personOf(service.url, app.key, { userId: data.user.id, appId: app.tenant.appId }, data)
    expect((await person.get('/auth/identities')).body.data).toMatchObject([
      { provider: 'oidc', issuer: login.issuer, subject: login.person.sub },
    ])
    expect((await person.get('/auth/sessions')).body.data).toMatchObject([{ methods: ['provider'] }])
    const again = await signIn(app)
    const second = await app.exchange(again.back.searchParams.get('code'), again.pkce)
    expect(second.body.data).toMatchObject({ isNewUser: false, user: { id: data.user.id } })
    expect(await eventsOf(service, app.tenant, 'user.signed_in')).toMatchObject([
      { userId: data.user.id, method: 'provider' },
      { userId: data.user.id, method: 'provider' },
    ])
    expect(await eventsOf(service, app.tenant, 'identity.linked')).toHaveLength(1)
  })

  test('nothing of the provider is kept: no token, no secret in the clear', async () => {
    const app = await newApp()
    login.person = { sub: newSubject() }
    const { back, pkce } = await signIn(app)
    expect((await app.exchange(back.searchParams.get('code'), pkce)).status).toBe(200)
    const stored = await dump(service)
    expect(stored).not.toContain('a secret of the client')
    expect(stored).not.toMatch(/eyJ[\w-]+\.eyJ[\w-]+\./)
    expect(service.logs()).not.toMatch(/eyJ[\w-]+\.eyJ|a secret of the client/)
  })

  test('somebody who refuses there is not signed in, and the app learns it', async () => {
    const app = await newApp()
    login.person = null
    const { back } = await signIn(app)
    expect(Object.fromEntries(back.searchParams)).toEqual({ error: 'access_denied', state: 'app state' })
  })

  test('an unverified email is not stored, and a verified one never finds a user', async () => {
    const app = await newApp()
    const other = (await app.tenant.post('/users', { email: 'grace@example.com' })).body.data
    login.person = { sub: newSubject(), email: 'grace@example.com', email_verified: true }
    const taken = await signIn(app)
    const first = (await app.exchange(taken.back.searchParams.get('code'), taken.pkce)).body.data
    expect(first.user.id).not.toBe(other.id)
    expect(first.user.email).toBeNull()
    login.person = { sub: newSubject(), email: 'hopper@example.com', email_verified: false }
    const unverified = await signIn(app)
    const second = (await app.exchange(unverified.back.searchParams.get('code'), unverified.pkce)).body.data
    expect(second.user.email).toBeNull()
  })

  test('a provider that creates nobody signs in linked accounts only', async () => {
    const app = await newApp({ jit: 'match' })
    login.person = { sub: newSubject() }
    expect((await signIn(app)).back.searchParams.get('error')).toBe('identity_unknown')
    expect((await app.tenant.get('/users')).body.total).toBe(0)
  })

  test('a suspended user stays out', async () => {
    const app = await newApp()
    login.person = { sub: newSubject() }
    const { back, pkce } = await signIn(app)
    const { user } = (await app.exchange(back.searchParams.get('code'), pkce)).body.data
    await app.tenant.patch(`/users/${user.id}`, { status: 'suspended' })
    expect((await signIn(app)).back.searchParams.get('error')).toBe('user_suspended')
  })

  test('the wrong client secret signs nobody in', async () => {
    const app = await newApp()
    await app.tenant.patch(`/apps/${app.tenant.appId}/providers/${app.id}`, { clientSecret: 'another one' })
    login.person = { sub: newSubject() }
    expect((await signIn(app)).back.searchParams.get('error')).toBe('provider_failed')
  })
})

describe('a start', () => {
  test('leads only where the app allows', async () => {
    const app = await newApp()
    for (const redirectUrl of [
      'https://evil.example/',
      `${REDIRECT}/`,
      `${REDIRECT}?x`,
      `${REDIRECT}#x`,
      'javascript:alert(1)',
      `${service.url}/signin?app=${app.tenant.appId}`.replace('127.0.0.1', 'evil.example'),
      `http://localhost:${new URL(service.url).port}/signin?app=${app.tenant.appId}@evil.example`,
    ])
      expectError(await app.start(newPkce(), { redirectUrl }), 400, 'validation_failed')
  })

  test('names a provider of the same app, which is on', async () => {
    const app = await newApp()
    const other = await newApp()
    const path = `/auth/providers/${other.id}/start`
    const body = { redirectUrl: REDIRECT, codeChallenge: newPkce().codeChallenge }
    expectError(await app.tenant.post(path, body, { key: app.key }), 404, 'not_found')
    await app.tenant.patch(`/apps/${app.tenant.appId}/providers/${app.id}`, { jit: 'refuse' })
    expectError(await app.start(newPkce()), 404, 'not_found')
  })

  test('can be opened once, by one browser', async () => {
    const app = await newApp()
    const { started } = await signIn(app)
    const again = await newBrowser().visit(started.body.data.authorizationUrl)
    expect(again.status).toBe(400)
    expect(again.location).toBe('')
  })

  test('is not used up by a program that only asks for its headers, nor is the answer', async () => {
    const app = await newApp()
    const pkce = newPkce()
    const started = await app.start(pkce)
    const { authorizationUrl } = started.body.data
    const browser = newBrowser()
    const head = await browser.visit(authorizationUrl, { method: 'HEAD' })
    expect([head.status, head.location, head.headers.getSetCookie()]).toEqual([200, '', []])
    const away = await browser.visit(authorizationUrl)
    expect(away.status).toBe(303)
    const state = new URL(away.location).searchParams.get('state') ?? ''
    const callback = `${app.record.callbackUrl}?${new URLSearchParams({ error: 'access_denied', state })}`
    expect((await browser.visit(callback, { method: 'HEAD' })).status).toBe(200)
    // The flow is still there: it returns to the app, where one that was used up leads nowhere.
    expect((await browser.visit(callback)).location).toContain(`${REDIRECT}?error=`)
  })

  test('expires', async () => {
    const app = await newApp()
    const started = await app.start(newPkce())
    service.advance(6 * 60_000)
    try {
      expect((await newBrowser().visit(started.body.data.authorizationUrl)).status).toBe(400)
    } finally {
      service.advance(-6 * 60_000)
    }
  })

  test('sends the provider what it needs and nothing more', async () => {
    const app = await newApp()
    const pkce = newPkce()
    const sent = await app.begin(newBrowser(), pkce)
    expect(Object.fromEntries(sent)).toEqual({
      client_id: app.record.clientId,
      response_type: 'code',
      redirect_uri: app.record.callbackUrl,
      scope: 'openid email profile',
      state: expect.stringMatching(/^chl_[0-9a-z]{26}\.[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
    expect(sent.get('code_challenge')).not.toBe(pkce.codeChallenge)
    expect(CLIENT_ID).not.toBe(app.record.clientId)
  })
})
