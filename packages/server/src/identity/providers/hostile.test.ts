import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { refillsNothing, type Service, startService } from '../../../test/harness/harness.ts'
import { personOf, signInAs } from '../sessions/sessions.fixture.ts'
import {
  answering,
  type FakeProvider,
  newBrowser,
  newPkce,
  newProviderApp,
  newSubject,
  type ProviderApp,
  REDIRECT,
  signInBy,
  startFakeProvider,
} from './provider.fixture.ts'

let service: Service
let fake: FakeProvider
let app: ProviderApp
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())
beforeEach(async () => {
  fake = await startFakeProvider(service)
  app = await newProviderApp(service, fake.issuer)
  return () => fake.close()
})

const METADATA = '/.well-known/openid-configuration'

/** Changes what the provider says of itself. */
function says(change: object): void {
  const honest = fake.paths[METADATA] as NonNullable<(typeof fake.paths)[string]>
  fake.paths[METADATA] = async (asked) => ({ json: { ...((await honest(asked)).json as object), ...change } })
}

/** Comes back to a new browser's flow. @returns where the browser is sent */
async function comeBack(query: Record<string, string | undefined> = {}, claims: object = {}): Promise<string> {
  const browser = newBrowser()
  const sent = await app.begin(browser, newPkce())
  if (fake.paths['/token'] === undefined)
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce'), ...claims } }))
  const back = await app.comeBack(browser, sent, query)
  expect(back.status, back.text).toBe(303)
  expect(back.text).toBe('')
  return back.location
}

const FAILED = `${REDIRECT}?error=provider_failed&state=app+state`
const usersOf = async () => (await app.tenant.get('/users')).body.total

describe('what a provider says in an error', () => {
  const HOSTILE = '"><script>alert(1)</script>\n{"level":60,"msg":"forged"}'

  test('reaches neither the app nor the log', async () => {
    const query = {
      code: undefined,
      error: HOSTILE,
      error_description: HOSTILE.repeat(20),
      error_uri: 'https://evil.example',
    }
    expect(await comeBack(query)).toBe(FAILED)
    fake.paths['/token'] = () => ({
      status: 400,
      json: { error: HOSTILE.repeat(500), error_description: HOSTILE, error_uri: 'https://evil.example' },
    })
    expect(await comeBack()).toBe(FAILED)
    expect(service.logs()).toContain('a sign-in by a provider failed')
    expect(service.logs()).not.toMatch(/alert\(1\)|forged|evil\.example/)
  })

  test('is logged where it is an error code', async () => {
    expect(await comeBack({ code: undefined, error: 'temporarily_unavailable', error_description: HOSTILE })).toBe(
      FAILED,
    )
    expect(service.logs()).toContain('temporarily_unavailable')
  })

  test('is not logged either where it is an access token that no header can carry', async () => {
    says({ userinfo_endpoint: `${fake.issuer}/userinfo` })
    fake.paths['/userinfo'] = () => ({ status: 403, json: { error: 'no', error_description: HOSTILE } })
    for (const token of ['a secret token\nof the provider', 'a secret token \u2192', 'a secret token']) {
      const browser = newBrowser()
      const sent = await app.begin(browser, newPkce())
      fake.paths['/token'] = async () => {
        const idToken = await fake.idToken({ claims: { nonce: sent.get('nonce') } })
        return { json: { access_token: token, token_type: 'Bearer', id_token: idToken } }
      }
      expect((await app.comeBack(browser, sent)).location).toContain('code=hk_sc_')
    }
    expect(service.logs()).toContain('a provider did not say more of its user')
    expect(service.logs()).toContain('something in its answer is of a wrong type or form')
    expect(service.logs()).not.toContain('a secret token')
    expect(service.logs()).not.toContain('forged')
  })

  test('is shown to nobody if the browser has no flow', async () => {
    const back = await newBrowser().visit(
      `${app.record.callbackUrl}?${new URLSearchParams({ error: HOSTILE, error_description: HOSTILE, state: HOSTILE })}`,
    )
    expect(back.status).toBe(400)
    expect(back.text).not.toMatch(/alert|forged/)
  })
})

describe('a claim', () => {
  test.each([
    ['true', true],
    [true, true],
    ['false', false],
    [false, false],
    ['TRUE', false],
    [1, false],
    [['true'], false],
    [null, false],
  ])('email_verified of %j counts as %s', async (verified, counts) => {
    const answer = await signInBy(fake, app, { email: 'ada@example.com', email_verified: verified })
    expect(answer.body.data.user).toMatchObject({
      email: counts ? 'ada@example.com' : null,
      emailVerified: counts,
    })
  })

  test.each([
    ['of 256 characters', 'a'.repeat(256)],
    ['of 10,000 characters', 'a'.repeat(10_000)],
    ['with a line break', 'ada\nadmin'],
    ['with a character that turns text around', 'ada\u202e'],
    ['of spaces', '   '],
  ])('sub %s signs nobody in', async (_, sub) => {
    expect(await comeBack({}, { sub })).toBe(FAILED)
    expect(await usersOf()).toBe(0)
  })

  test('sub of 255 characters is one, and differs from its beginning', async () => {
    const sub = 'a'.repeat(255)
    const long = await signInBy(fake, app, { sub })
    const short = await signInBy(fake, app, { sub: sub.slice(1) })
    expect(short.body.data.user.id).not.toBe(long.body.data.user.id)
  })

  test('name or email that cannot be stored is left out', async () => {
    const claims = { name: 'Ada\u0000', email: `${'a'.repeat(400)}@example.com`, email_verified: true }
    expect((await signInBy(fake, app, claims)).body.data.user).toMatchObject({ name: null, email: null })
  })
})

describe('an address in a private network', () => {
  test.each([
    ['token_endpoint', 'https://10.0.0.1/token'],
    ['token_endpoint', 'https://[::ffff:169.254.169.254]/token'],
    ['jwks_uri', 'https://169.254.169.254/keys'],
  ])('as %s is not asked: %s', async (name, url) => {
    says({ [name]: url })
    expect(await comeBack()).toBe(FAILED)
    expect(await usersOf()).toBe(0)
  })

  test('as the place for what is said of a user is not asked, and the sign-in is complete without', async () => {
    says({ userinfo_endpoint: 'https://10.0.0.1/userinfo' })
    expect((await signInBy(fake, app)).body.data.user.email).toBeNull()
  })
})

describe('a provider in the database', () => {
  test.each([
    ['issuer', "'https://evil.example'"],
    ['client_id', "'eve'"],
    ['client_secret_sealed', 'null'],
    ['jit', "'match'"],
    ['native_client_ids', "'{com.example.evil}'"],
    ['mac', 'null'],
  ])('signs nobody in if somebody changed its %s', async (column, value) => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce') } }))
    await service.sql(`update app_providers set ${column} = ${value} where id = $1`, [app.id])
    expectError(await app.start(newPkce()), 500, 'record_tampered')
    expect((await app.comeBack(browser, sent)).status).toBe(500)
    const body = { idToken: 'a.b.c', nonce: 'n'.repeat(32) }
    expectError(await app.tenant.post(`/auth/providers/${app.id}/token`, body), 500, 'record_tampered')
    expect(await usersOf()).toBe(0)
  })

  test.each([
    ['as a copy', 'mac'],
    ['without a MAC', 'null'],
  ])('signs nobody in if somebody inserted it %s', async (_, mac) => {
    const id = `${app.id.slice(0, -1)}${app.id.endsWith('0') ? '1' : '0'}`
    await service.sql(
      `insert into app_providers (tenant_id, id, app_id, preset, name, issuer, client_id, native_client_ids, jit, created_at,
         updated_at, version, mac)
       select tenant_id, $2, app_id, preset, name, 'https://evil.example', client_id, native_client_ids, jit, created_at,
         updated_at, version, ${mac} from app_providers where id = $1`,
      [app.id, id],
    )
    const body = { redirectUrl: REDIRECT, codeChallenge: newPkce().codeChallenge }
    expectError(await app.tenant.post(`/auth/providers/${id}/start`, body, { key: app.key }), 500, 'record_tampered')
  })
})

describe('a session by a provider', () => {
  test('is weak as soon as the account has a passkey', async () => {
    const sub = newSubject()
    const session = async () => {
      const { data } = (await signInBy(fake, app, { sub })).body
      return personOf(service.url, app.key, { userId: data.user.id, appId: app.tenant.appId }, data)
    }
    const early = await session()
    const added = await register({ url: service.url, key: app.key }, {}, { headers: early.bearer })
    expect(added.status, added.text).toBe(200)
    for (const weak of [early, await session()]) {
      const [identity] = (await weak.get('/auth/identities')).body.data
      expectError(await weak.delete(`/auth/identities/${identity.id}`), 403, 'stronger_sign_in_required')
      const start = { redirectUrl: REDIRECT, codeChallenge: newPkce().codeChallenge, purpose: 'link' }
      expectError(await weak.post(`/auth/providers/${app.id}/start`, start), 403, 'stronger_sign_in_required')
      expectError(await weak.post('/mfa/setup'), 403, 'stronger_sign_in_required')
    }
  })
})

test('a link is not completed at a provider that was turned off since', async () => {
  const person = await signInAs(service, app.tenant)
  const browser = newBrowser()
  const pkce = newPkce()
  const sent = await app.begin(browser, pkce, { purpose: 'link' }, { headers: person.bearer })
  answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce') } }))
  const { location } = await app.comeBack(browser, sent)
  const body = { code: new URL(location).searchParams.get('code') ?? '', codeVerifier: pkce.codeVerifier }
  const path = `/apps/${app.tenant.appId}/providers/${app.id}`
  await app.tenant.patch(path, { jit: 'refuse' })
  expectError(await person.post(`/auth/providers/${app.id}/link`, body), 404, 'not_found')
  await app.tenant.patch(path, { jit: 'create' })
  expect((await person.post(`/auth/providers/${app.id}/link`, body)).status).toBe(201)
})

describe('over https', () => {
  test('the cookie belongs to this host alone, and one that another host could plant is none', async () => {
    const secure = await startService({ HALFKEY_PUBLIC_URL: 'https://id.example.com', HALFKEY_INSECURE_DEV: '1' })
    const provider = await startFakeProvider(secure)
    try {
      const shop = await newProviderApp(secure, provider.issuer)
      expect(shop.record.callbackUrl).toMatch(/^https:\/\/id\.example\.com\/signin\/providers\/prv_\w+\/callback$/)
      const here = (url: string) => url.replace('https://id.example.com', secure.url)
      const started = await shop.start(newPkce())
      const begun = await newBrowser().visit(here(started.body.data.authorizationUrl))
      const cookie = begun.headers.get('set-cookie') ?? ''
      expect(cookie).toMatch(
        /^__Host-halfkey_provider_[0-9a-z]{26}=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=900; Secure$/,
      )
      const sent = new URL(begun.location).searchParams
      answering(provider, () => provider.idToken({ claims: { nonce: sent.get('nonce') } }))
      const query = new URLSearchParams({ code: 'c', state: sent.get('state') ?? '', iss: provider.issuer })
      const [pair = ''] = cookie.split(';')
      const visit = (sentCookie: string) =>
        fetch(`${here(shop.record.callbackUrl)}?${query}`, { redirect: 'manual', headers: { cookie: sentCookie } })
      expect((await visit(pair.replace('__Host-', ''))).status).toBe(400)
      // A browser takes a name with such a space from any host of the domain: it does not begin with `__Host-`.
      for (const space of ['\u00a0', '\u0085']) expect((await visit(`${space}${pair}`)).status).toBe(400)
      const back = await visit(pair)
      expect(back.status).toBe(303)
      expect(back.headers.get('location')).toContain('code=hk_sc_')
    } finally {
      await provider.close()
      await secure.stop()
    }
  })
})

test('a browser keeps the cookies of ten flows, the newest, however many are begun in it', async () => {
  const browser = newBrowser()
  const first = await app.begin(browser, newPkce())
  for (let more = 0; more < 10; more += 1) await app.begin(browser, newPkce())
  const last = await app.begin(browser, newPkce())
  const jar = browser.cookies.get(new URL(app.record.callbackUrl).host)
  expect(jar?.size).toBe(10)
  expect((await app.comeBack(browser, first)).status).toBe(400)
  answering(fake, () => fake.idToken({ claims: { nonce: last.get('nonce') } }))
  expect((await app.comeBack(browser, last)).location).toContain('code=hk_sc_')
})

test('visits of one network are limited, with a page that says so', async () => {
  const limited = await startService({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_RATE_LIMIT_SIGN_IN: '1/3' })
  try {
    refillsNothing(limited, 'rateLimitSignIn')
    const url = `${limited.url}/signin/providers/prv_01jb2m7x9kq4t8v6w0r3s5y1zp`
    const visit = (path: string, method = 'GET') =>
      newBrowser().visit(`${url}/${path}`, method === 'POST' ? { method, body: 'state=x' } : {})
    expect((await visit('begin?flow=x')).status).toBe(400)
    expect((await visit('callback?state=x')).status).toBe(400)
    expect((await visit('callback', 'POST')).status).toBe(400)
    for (const [path, method] of [['begin?flow=x'], ['callback?state=x'], ['callback', 'POST']] as const) {
      const refused = await visit(path, method)
      expect(refused.status).toBe(429)
      expect(refused.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(refused.text).toContain('Too many attempts')
    }
  } finally {
    await limited.stop()
  }
})
