import { createHmac } from 'node:crypto'
import { exportJWK, exportSPKI, generateKeyPair, importJWK } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import {
  addProvider,
  answering,
  type Browser,
  type FakeProvider,
  newBrowser,
  newPkce,
  newProviderApp,
  newSubject,
  type ProviderApp,
  REDIRECT,
  signInBy,
  startFakeProvider,
  type TokenParts,
} from './provider.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

let fake: FakeProvider
let app: ProviderApp
async function begin() {
  fake = await startFakeProvider(service)
  app = await newProviderApp(service, fake.issuer)
  return () => fake.close()
}

const usersOf = async () => (await app.tenant.get('/users')).body.total

/** Comes back from the provider, which answers with this ID token. @returns what the app is told */
async function outcomeOf(make: (nonce: string) => Promise<string>, query: Record<string, string | undefined> = {}) {
  const browser = newBrowser()
  const sent = await app.begin(browser, newPkce())
  answering(fake, () => make(sent.get('nonce') ?? ''))
  const back = await app.comeBack(browser, sent, query)
  expect(back.status, back.text).toBe(303)
  return Object.fromEntries(new URL(back.location).searchParams)
}

const FAILED = { error: 'provider_failed', state: 'app state' }

describe('an ID token signs nobody in', () => {
  beforeAll(begin)
  afterAll(async () => {
    // The provider of these tests does sign people in.
    expect(await outcomeOf((nonce) => fake.idToken({ claims: { nonce } }))).toEqual({
      code: expect.stringMatching(/^hk_sc_/),
      state: 'app state',
    })
    expect(await usersOf()).toBe(1)
  })

  const now = () => Math.floor(service.deps.now().getTime() / 1000)
  const wrong: Record<string, (nonce: string) => TokenParts | Promise<TokenParts>> = {
    'of another issuer': (nonce) => ({ claims: { nonce, iss: 'https://evil.example' } }),
    'of the same issuer but for a slash': (nonce) => ({ claims: { nonce, iss: `${fake.issuer}/` } }),
    'for another client': (nonce) => ({ claims: { nonce, aud: 'other' } }),
    'for another client, too': (nonce) => ({ claims: { nonce, aud: ['shop-web', 'other'], azp: 'shop-web' } }),
    'authorized for another client': (nonce) => ({ claims: { nonce, azp: 'other', aud: ['shop-web', 'x'] } }),
    'for another sign-in': () => ({ claims: { nonce: 'another nonce' } }),
    'without a nonce': () => ({}),
    'without a subject': (nonce) => ({ claims: { nonce, sub: undefined } }),
    'with a subject that is no text': (nonce) => ({ claims: { nonce, sub: 7 } }),
    'with a subject of control characters': (nonce) => ({ claims: { nonce, sub: 'a\u0000b' } }),
    'that has expired': (nonce) => ({ claims: { nonce, iat: now() - 900, exp: now() - 300 } }),
    'that is hours old': (nonce) => ({ claims: { nonce, iat: now() - 7_200, exp: now() + 300 } }),
    'of tomorrow': (nonce) => ({ claims: { nonce, iat: now() + 86_400, exp: now() + 90_000 } }),
    'that never ends': (nonce) => ({ claims: { nonce, exp: undefined } }),
    'by another key': async (nonce) => ({ claims: { nonce }, key: (await generateKeyPair('RS256')).privateKey }),
    'by a key that it brings along': async (nonce) => {
      const own = await generateKeyPair('RS256')
      return { claims: { nonce }, header: { jwk: await exportJWK(own.publicKey) }, key: own.privateKey }
    },
    'by a key of an unknown name': (nonce) => ({ claims: { nonce }, header: { kid: 'unknown' } }),
    'that ends sessions': (nonce) => ({ claims: { nonce, events: {} } }),
    'that is an access token': (nonce) => ({ claims: { nonce }, header: { typ: 'at+jwt' } }),
  }
  test.each(Object.entries(wrong))('%s', async (_, parts) => {
    expect(await outcomeOf(async (nonce) => fake.idToken(await parts(nonce)))).toEqual(FAILED)
    expect(await usersOf()).toBe(0)
  })
})

describe('an ID token', () => {
  beforeEach(begin)

  /** A token that the public key "signs" as a shared secret, or nothing at all. */
  async function confused(alg: 'HS256' | 'none', nonce: string): Promise<string> {
    const now = Math.floor(service.deps.now().getTime() / 1000)
    const claims = { iss: fake.issuer, aud: 'shop-web', sub: 'eve', iat: now, exp: now + 300, nonce }
    const text = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${text({ alg, kid: 'one' })}.${text(claims)}`
    if (alg === 'none') return `${signed}.`
    const key = (await importJWK(fake.keys[0] as never, 'RS256')) as Parameters<typeof exportSPKI>[0]
    return `${signed}.${createHmac('sha256', await exportSPKI(key))
      .update(signed)
      .digest('base64url')}`
  }
  test.each(['HS256', 'none'] as const)('by %s signs nobody in', async (alg) => {
    // Also if the provider says that it uses it.
    const path = '/.well-known/openid-configuration'
    const honest = fake.paths[path] as NonNullable<(typeof fake.paths)[string]>
    fake.paths[path] = async (asked) => {
      const { json } = await honest(asked)
      return { json: { ...(json as object), id_token_signing_alg_values_supported: ['RS256', alg] } }
    }
    expect(await outcomeOf((nonce) => confused(alg, nonce))).toEqual(FAILED)
    expect(await usersOf()).toBe(0)
  })
})

describe('what comes back', () => {
  beforeEach(begin)

  const good = (nonce: string) => fake.idToken({ claims: { nonce } })

  test.each([
    ['from another issuer', { iss: 'https://evil.example' }],
    ['without the issuer that this provider always names', { iss: undefined }],
    ['with a token instead of a code', { code: undefined, id_token: 'eyJ' }],
    ['with an error of the provider', { code: undefined, error: 'server_error' }],
  ])('%s signs nobody in, and no code is sent anywhere', async (_, query) => {
    expect(await outcomeOf(good, query)).toEqual(FAILED)
    expect(fake.asked.filter(({ path }) => path === '/token')).toEqual([])
  })

  test('with a parameter twice signs nobody in', async () => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    const query = new URLSearchParams({ state: sent.get('state') ?? '', iss: fake.issuer })
    const back = await browser.visit(`${app.record.callbackUrl}?${query}&code=one&code=two`)
    expect(new URL(back.location).searchParams.get('error')).toBe('provider_failed')
    expect(fake.asked.some(({ path }) => path === '/token')).toBe(false)
  })

  test('counts once, however often it is sent, and at the same time', async () => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    answering(fake, () => good(sent.get('nonce') ?? ''))
    const jar = [...browser.cookies].map(([host, cookies]) => [host, new Map(cookies)] as const)
    const all = await Promise.all(
      Array.from({ length: 5 }, () => {
        const copy = newBrowser()
        for (const [host, cookies] of jar) copy.cookies.set(host, new Map(cookies))
        return app.comeBack(copy, sent)
      }),
    )
    expect(all.map(({ status }) => status).sort()).toEqual([303, 400, 400, 400, 400])
    expect(fake.asked.filter(({ path }) => path === '/token')).toHaveLength(1)
    expect(await usersOf()).toBe(1)
  })

  test('to another browser than the one that asked leads nowhere, and uses nothing up', async () => {
    const victim = newBrowser()
    const sent = await app.begin(victim, newPkce())
    answering(fake, () => good(sent.get('nonce') ?? ''))
    // The attacker's browser has a flow of its own, with a cookie of its own.
    const attacker = newBrowser()
    const theirs = await app.begin(attacker, newPkce())
    for (const state of [
      sent.get('state') ?? '',
      `${sent.get('state')?.split('.')[0]}.${theirs.get('state')?.split('.')[1]}`,
    ]) {
      const stolen = await app.comeBack(attacker, sent, { state })
      expect([stolen.status, stolen.location]).toEqual([400, ''])
    }
    expect(fake.asked.some(({ path }) => path === '/token')).toBe(false)
    expect((await app.comeBack(victim, sent)).status).toBe(303)
  })

  test('a code of the attacker, injected into the flow of another browser, does not fit', async () => {
    // The provider binds its code to the verifier: the injected code was asked for with another one.
    const attacker = newBrowser()
    const theirs = await app.begin(attacker, newPkce())
    const victim = newBrowser()
    const sent = await app.begin(victim, newPkce())
    expect(sent.get('code_challenge')).not.toBe(theirs.get('code_challenge'))
    answering(fake, () => good(theirs.get('nonce') ?? ''))
    const back = await app.comeBack(victim, sent, { code: "the attacker's code" })
    expect(new URL(back.location).searchParams.get('error')).toBe('provider_failed')
    expect(await usersOf()).toBe(0)
  })

  test('at the address of another provider signs nobody in (mix-up)', async () => {
    const other = await startFakeProvider(service)
    const second = await addProvider(app.tenant, other.issuer)
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    const query = new URLSearchParams({ code: 'a code', state: sent.get('state') ?? '', iss: other.issuer })
    const mixed = await browser.visit(`${second.callbackUrl}?${query}`)
    expect([mixed.status, mixed.location]).toEqual([400, ''])
    expect(other.asked.some(({ path }) => path === '/token')).toBe(false)
    await other.close()
  })

  test('is redeemed with the code and the verifier of this flow, and handed over for the verifier of the page', async () => {
    const browser = newBrowser()
    const pkce = newPkce()
    const sent = await app.begin(browser, pkce)
    answering(fake, () => good(sent.get('nonce') ?? ''))
    const { location } = await app.comeBack(browser, sent)
    const redeemed = fake.asked.find(({ path }) => path === '/token')?.form
    expect(redeemed?.get('redirect_uri')).toBe(app.record.callbackUrl)
    expect(redeemed?.get('code_verifier')).toMatch(/^[\w-]{43}$/)
    expect(redeemed?.get('code_verifier')).not.toBe(pkce.codeVerifier)
    const code = new URL(location).searchParams.get('code')
    expectError(await app.exchange(code, newPkce()), 400, 'code_invalid')
    expectError(await app.exchange(code, pkce), 400, 'code_invalid')
  })

  test('goes nowhere if the app has taken the redirect back', async () => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    answering(fake, () => good(sent.get('nonce') ?? ''))
    await app.tenant.patch(`/apps/${app.tenant.appId}`, { allowedRedirectUrls: [] })
    const back = await app.comeBack(browser, sent)
    expect([back.status, back.location]).toEqual([400, ''])
    expect(await usersOf()).toBe(0)
  })

  test('signs nobody in by a provider that is off or gone', async () => {
    const path = `/apps/${app.tenant.appId}/providers/${app.id}`
    const begun: [Browser, URLSearchParams][] = []
    for (let i = 0; i < 2; i += 1) {
      const browser = newBrowser()
      begun.push([browser, await app.begin(browser, newPkce())])
    }
    for (const [browser, sent] of begun) {
      await (begun[0]?.[0] === browser ? app.tenant.patch(path, { jit: 'refuse' }) : app.tenant.delete(path))
      expect((await app.comeBack(browser, sent)).status).toBe(400)
    }
    expect(fake.asked.some(({ path: asked }) => asked === '/token')).toBe(false)
  })

  test('garbage leads nowhere', async () => {
    const browser = newBrowser()
    for (const query of [
      '',
      '?state=',
      '?state=chl_x.y',
      `?state=${'a'.repeat(5_000)}`,
      '?state=%00',
      '?error=x&state=.',
    ])
      expect((await browser.visit(`${app.record.callbackUrl}${query}`)).status, query).toBe(400)
    const body = `state=${'a'.repeat(20_000)}`
    expect((await browser.visit(app.record.callbackUrl, { method: 'POST', body })).status).toBe(400)
    for (const id of ['x', 'prv_01jb2m7x9kq4t8v6w0r3s5y1zp', app.tenant.appId])
      expect((await browser.visit(app.record.callbackUrl.replace(app.id, id))).status).toBe(400)
  })
})

describe('the cookie that binds a flow to a browser', () => {
  beforeEach(begin)

  test('is for no script and no other site, and gone with the flow', async () => {
    const browser = newBrowser()
    const started = await app.start(newPkce())
    const begun = await browser.visit(started.body.data.authorizationUrl)
    expect(begun.headers.get('set-cookie')).toMatch(
      /^halfkey_provider_[0-9a-z]{26}=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=900$/,
    )
    expect(begun.headers.get('cache-control')).toBe('no-store')
    expect(begun.headers.get('referrer-policy')).toBe('no-referrer')
    const sent = new URL(begun.location).searchParams
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce') } }))
    expect((await app.comeBack(browser, sent)).headers.get('set-cookie')).toMatch(/=; Path=\/;.*Max-Age=0/)
  })

  test('twice in a request is none', async () => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    const [jar] = [...browser.cookies.values()]
    const [name, value] = [...(jar ?? [])][0] ?? []
    // As another host of the domain could plant one beside it.
    const response = await fetch(
      `${app.record.callbackUrl}?${new URLSearchParams({ code: 'c', state: sent.get('state') ?? '' })}`,
      {
        redirect: 'manual',
        headers: { cookie: `${name}=${'a'.repeat(43)}; ${name}=${value}` },
      },
    )
    expect(response.status).toBe(400)
  })
})

describe('a provider that', () => {
  beforeEach(begin)

  const good = (nonce: string) => fake.idToken({ claims: { nonce } })
  const FOREIGN = 'http://127.0.0.1:1/elsewhere'

  test.each<[string, (keys: unknown) => { status?: number; body?: string; headers?: Record<string, string> }]>([
    ['redirects to its keys', () => ({ status: 302, headers: { location: FOREIGN } })],
    ['has huge keys', (keys) => ({ body: JSON.stringify({ keys }) + ' '.repeat(70_000) })],
    ['has no keys', () => ({ body: '{"keys":[]}' })],
    ['answers with a page', () => ({ body: '<html>' })],
  ])('%s signs nobody in', async (_, reply) => {
    fake.paths['/jwks'] = () => reply(fake.keys)
    expect(await outcomeOf(good)).toEqual(FAILED)
    expect(await usersOf()).toBe(0)
  })

  test.each<[string, string]>([
    ['never answers for its keys', '/jwks'],
    ['never answers for a code', '/token'],
  ])('%s keeps nobody for long', async (_, path) => {
    const browser = newBrowser()
    const sent = await app.begin(browser, newPkce())
    answering(fake, () => good(sent.get('nonce') ?? ''))
    fake.paths[path] = () => new Promise(() => undefined)
    // Not for the tests of providers that answer: where the machine is busy, that takes a while.
    const patient = service.deps.config.webhookTimeoutMs
    Object.assign(service.deps.config, { webhookTimeoutMs: 1_000 })
    try {
      const back = await app.comeBack(browser, sent)
      expect(new URL(back.location).searchParams.get('error')).toBe('provider_failed')
    } finally {
      Object.assign(service.deps.config, { webhookTimeoutMs: patient })
    }
  })

  test.each<[string, object | undefined]>([
    ['names another issuer in its metadata', { issuer: 'https://evil.example' }],
    ['leads browsers to a script', { authorization_endpoint: 'javascript:alert(1)' }],
    ['leads browsers off https', { authorization_endpoint: 'http://evil.example/' }],
    ['has no place for codes', { token_endpoint: undefined }],
    ['has no keys anywhere', { jwks_uri: undefined }],
    ['has no metadata', undefined],
  ])('%s is not gone to', async (_, change) => {
    const path = '/.well-known/openid-configuration'
    const honest = fake.paths[path] as NonNullable<(typeof fake.paths)[string]>
    fake.paths[path] = async (asked) =>
      change === undefined ? { status: 404 } : { json: { ...((await honest(asked)).json as object), ...change } }
    const browser = newBrowser()
    const started = await app.start(newPkce())
    const { status, location } = await browser.visit(started.body.data.authorizationUrl)
    expect([status, location]).toEqual([303, `${REDIRECT}?error=provider_failed&state=app+state`])
    // Nor asked again at once.
    const asked = fake.asked.length
    await browser.visit((await app.start(newPkce())).body.data.authorizationUrl)
    expect(fake.asked.length).toBe(asked)
  })

  test('tells of somebody else at UserInfo adds nothing', async () => {
    const path = '/.well-known/openid-configuration'
    const honest = fake.paths[path] as NonNullable<(typeof fake.paths)[string]>
    fake.paths[path] = async (asked) => ({
      json: { ...((await honest(asked)).json as object), userinfo_endpoint: `${fake.issuer}/userinfo` },
    })
    fake.paths['/userinfo'] = () => ({ json: { sub: 'somebody else', email: 'eve@example.com', email_verified: true } })
    const answer = await signInBy(fake, app)
    expect(answer.body.data.user.email).toBeNull()
  })

  test('has the same subjects as another one has other people', async () => {
    const other = await startFakeProvider(service)
    await addProvider(app.tenant, other.issuer)
    const sub = newSubject()
    const one = await signInBy(fake, app, { sub })
    const list = (await app.tenant.get(`/apps/${app.tenant.appId}/providers`)).body.data
    const record = list.find(({ issuer }: { issuer: string }) => issuer === other.issuer)
    const twin = { ...app, id: record.id, record }
    const browser = newBrowser()
    const pkce = newPkce()
    const started = await app.tenant.post(
      `/auth/providers/${record.id}/start`,
      { redirectUrl: REDIRECT, codeChallenge: pkce.codeChallenge },
      { key: app.key },
    )
    const sent = new URL((await browser.visit(started.body.data.authorizationUrl)).location).searchParams
    answering(other, () => other.idToken({ claims: { nonce: sent.get('nonce'), sub } }))
    const query = new URLSearchParams({ code: 'c', state: sent.get('state') ?? '', iss: other.issuer })
    const { location } = await browser.visit(`${twin.record.callbackUrl}?${query}`)
    const two = await app.exchange(new URL(location).searchParams.get('code'), pkce)
    expect(two.body.data.user.id).not.toBe(one.body.data.user.id)
    await other.close()
  })
})
