import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { jwtVerify } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import {
  answering,
  type FakeProvider,
  newBrowser,
  newPkce,
  newProviderApp,
  newSubject,
  startFakeProvider,
} from './provider.fixture.ts'

let service: Service
let fake: FakeProvider
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describe('Apple', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const clientSecret = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const settings = { preset: 'apple', clientSecret, teamId: 'A1B2C3D4E5', keyId: 'F6G7H8J9K0' }

  test('gets a form back, a secret that the key signs, and tells the name once', async () => {
    fake = await startFakeProvider(service)
    const app = await newProviderApp(service, fake.issuer, settings)
    const browser = newBrowser()
    const pkce = newPkce()
    const sent = await app.begin(browser, pkce)
    expect(Object.fromEntries(sent)).toMatchObject({ response_mode: 'form_post', scope: 'openid email name' })
    const claims = {
      nonce: sent.get('nonce'),
      email: 'x7@privaterelay.appleid.com',
      email_verified: 'true',
      is_private_email: 'true',
    }
    answering(fake, () => fake.idToken({ claims }))
    // A browser sends no cookie with another site's form.
    const body = new URLSearchParams({
      code: 'a code',
      state: sent.get('state') ?? '',
      iss: fake.issuer,
      user: JSON.stringify({ name: { firstName: 'Ada', lastName: 'Lovelace' }, email: 'eve@example.com' }),
      id_token: 'eyJ',
      redirect_uri: 'https://evil.example',
    }).toString()
    const posted = await newBrowser().visit(app.record.callbackUrl, { method: 'POST', body })
    expect(posted.status).toBe(303)
    expect(posted.location.startsWith(`${app.record.callbackUrl}?`)).toBe(true)
    expect(posted.location).not.toMatch(/evil|eyJ/)
    expect((await newBrowser().visit(posted.location)).status).toBe(400)
    const { location } = await browser.visit(posted.location)
    const { data } = (await app.exchange(new URL(location).searchParams.get('code'), pkce)).body
    expect(data.user).toMatchObject({ name: 'Ada Lovelace', email: 'x7@privaterelay.appleid.com', emailVerified: true })
    const secret = fake.asked.find(({ path }) => path === '/token')?.form.get('client_secret') ?? ''
    const { payload, protectedHeader } = await jwtVerify(
      secret,
      createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
      {
        issuer: 'A1B2C3D4E5',
        subject: 'shop-web',
        audience: fake.issuer,
      },
    )
    expect(protectedHeader).toEqual({ alg: 'ES256', kid: 'F6G7H8J9K0' })
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300)
    await fake.close()
  })

  test('takes a name only as text', async () => {
    fake = await startFakeProvider(service)
    const app = await newProviderApp(service, fake.issuer, settings)
    for (const user of [
      '{',
      '7',
      '{"name":7}',
      '{"name":{"firstName":{"x":1}}}',
      '{"name":{"firstName":"a\\u0000b"}}',
    ]) {
      const browser = newBrowser()
      const pkce = newPkce()
      const sent = await app.begin(browser, pkce)
      answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce') } }))
      const { location } = await app.comeBack(browser, sent, { user })
      const { data } = (await app.exchange(new URL(location).searchParams.get('code'), pkce)).body
      expect(data.user.name, user).toBeNull()
    }
    await fake.close()
  })
})

describe('GitHub', () => {
  async function signIn(
    paths: FakeProvider['paths'] = {},
    iss = (issuer: string): string | undefined => `${issuer}/login/oauth`,
  ) {
    fake = await startFakeProvider(service)
    const app = await newProviderApp(service, fake.issuer, { preset: 'github' })
    const id = Number(newSubject().slice(7)) + 1_000
    fake.paths = {
      '/login/oauth/access_token': () => ({
        json: { access_token: 'gho_secret', token_type: 'bearer', scope: 'user:email' },
      }),
      '/api/v3/user': () => ({ json: { id, login: 'ada', name: 'Ada', email: 'public@example.com' } }),
      '/api/v3/user/emails': () => ({
        json: [
          { email: 'old@example.com', primary: false, verified: true },
          { email: 'ada@example.com', primary: true, verified: true },
        ],
      }),
      ...paths,
    }
    const browser = newBrowser()
    const pkce = newPkce()
    const sent = await app.begin(browser, pkce)
    const { location } = await app.comeBack(browser, sent, { iss: iss(fake.issuer) })
    const back = new URL(location).searchParams
    await fake.close()
    return { app, sent, back, id, answer: await app.exchange(back.get('code') ?? 'none', pkce) }
  }

  test('signs in the account of its API, by number, with the primary verified email', async () => {
    const { app, sent, answer, id } = await signIn()
    expect(Object.fromEntries(sent)).toMatchObject({ scope: 'read:user user:email', code_challenge_method: 'S256' })
    expect(sent.get('nonce')).toBeNull()
    const { data } = answer.body
    expect(data.user).toMatchObject({ email: 'ada@example.com', emailVerified: true, name: 'Ada' })
    expect((await app.tenant.get(`/users/${data.user.id}/identities`)).body.data).toMatchObject([
      { provider: 'oidc', issuer: fake.issuer, subject: String(id), username: 'ada' },
    ])
    const [token, user] = [
      fake.asked.find(({ form }) => form.has('code')),
      fake.asked.find(({ path }) => path === '/api/v3/user'),
    ]
    expect(token?.form.get('code_verifier')).toMatch(/^[\w-]{43}$/)
    expect(user?.headers.authorization).toBe('Bearer gho_secret')
    expect(service.logs()).not.toContain('gho_secret')
  })

  test('names itself in its answers as `/login/oauth`, in those of older servers not at all, and never as anything else', async () => {
    expect((await signIn({}, () => undefined)).answer.status).toBe(200)
    for (const iss of ['https://github.com/login/oauth', 'https://evil.example']) {
      const { back } = await signIn({}, () => iss)
      expect(back.get('error'), iss).toBe('provider_failed')
    }
  })

  test('an email that is not verified is not stored', async () => {
    const emails = () => ({ json: [{ email: 'ada@example.com', primary: true, verified: false }] })
    expect((await signIn({ '/api/v3/user/emails': emails })).answer.body.data.user.email).toBeNull()
  })

  test.each<[string, FakeProvider['paths']]>([
    [
      'an error in place of a token',
      { '/login/oauth/access_token': () => ({ json: { error: 'bad_verification_code' } }) },
    ],
    ['no user', { '/api/v3/user': () => ({ status: 401, json: { message: 'Bad credentials' } }) }],
    ['a user without a number', { '/api/v3/user': () => ({ json: { id: '7', login: 'ada' } }) }],
    ['a page in place of the user', { '/api/v3/user': () => ({ body: '<html>' }) }],
    ['a redirect', { '/api/v3/user': () => ({ status: 301, headers: { location: 'http://127.0.0.1:1/' } }) }],
    ['more than anybody reads', { '/api/v3/user/emails': () => ({ body: `[]${' '.repeat(70_000)}` }) }],
  ])('that answers with %s signs nobody in', async (_, paths) => {
    expect((await signIn(paths)).back.get('error')).toBe('provider_failed')
  })
})
