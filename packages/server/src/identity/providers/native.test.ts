import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { refusalOf } from '../foreign-tokens/issuer.fixture.ts'
import { eventsOf, personOf, signInAs } from '../sessions/sessions.fixture.ts'
import {
  addProvider,
  answering,
  CLIENT_ID,
  type FakeProvider,
  newBrowser,
  newPkce,
  newProviderApp,
  newSubject,
  type ProviderApp,
  startFakeProvider,
} from './provider.fixture.ts'

let service: Service
let fake: FakeProvider
let app: ProviderApp
beforeAll(async () => {
  service = await startService()
  fake = await startFakeProvider(service)
  app = await newProviderApp(service, fake.issuer, { nativeClientIds: ['com.example.shop'] })
})
afterAll(async () => {
  await service.stop()
  await fake.close()
})

const newNonce = () => randomBytes(32).toString('base64url')
const hashOf = (nonce: string, form: 'hex' | 'base64url' = 'hex') => createHash('sha256').update(nonce).digest(form)

const send = (body: object, id = app.id) =>
  call(service.url, 'POST', `/v1/auth/providers/${id}/token`, { key: app.key, body })

/** An ID token as a native app gets it, and the nonce that only the app knows. */
async function newToken(claims: object = {}) {
  const nonce = newNonce()
  return {
    nonce,
    idToken: await fake.idToken({ claims: { aud: 'com.example.shop', nonce: hashOf(nonce), ...claims } }),
  }
}

describe('the ID token of a native app', () => {
  test('signs in the same user as the browser, for each of the clients', async () => {
    const sub = newSubject()
    const first = await send(await newToken({ sub, email: 'ada@example.com', email_verified: 'true', name: 'Ada' }))
    expect(first.status, first.text).toBe(200)
    expect(first.body.data).toMatchObject({
      isNewUser: true,
      user: { email: 'ada@example.com', emailVerified: true, name: 'Ada' },
    })
    const nonce = newNonce()
    const claims = { sub, aud: CLIENT_ID, nonce: hashOf(nonce, 'base64url') }
    const second = await send({ nonce, idToken: await fake.idToken({ claims }) })
    expect(second.body.data).toMatchObject({ isNewUser: false, user: { id: first.body.data.user.id } })
  })

  test('counts once, also in parallel', async () => {
    const token = await newToken()
    const answers = await Promise.all(Array.from({ length: 5 }, () => send(token)))
    expect(answers.map(refusalOf).sort()).toEqual(['200', 'token_used', 'token_used', 'token_used', 'token_used'])
    expect((await send(token)).body.details[0]).toMatchObject({ field: 'idToken', code: 'token_used' })
  })

  test('is of no use without the nonce that its app made', async () => {
    const { idToken } = await newToken()
    expect(refusalOf(await send({ idToken, nonce: newNonce() }))).toBe('token_nonce')
    // What somebody can read in it.
    const nonce = newNonce()
    const plain = await fake.idToken({ claims: { nonce } })
    expect(refusalOf(await send({ idToken: plain, nonce }))).toBe('token_nonce')
    expect(refusalOf(await send({ idToken: await fake.idToken(), nonce }))).toBe('token_nonce')
    const seen = hashOf(nonce)
    expect(refusalOf(await send({ idToken: await fake.idToken({ claims: { nonce: seen } }), nonce: seen }))).toBe(
      'token_nonce',
    )
  })

  test.each([
    ['token_audience', { aud: 'com.example.other' }],
    ['token_audience', { aud: ['com.example.shop', 'com.example.other'] }],
    ['token_claims', { iss: 'https://evil.example' }],
    ['token_expired', { iat: 1, exp: 2 }],
    ['token_claims', { sub: '' }],
  ])('is refused: %s', async (code, claims) => {
    expect(refusalOf(await send(await newToken(claims)))).toBe(code)
  })

  test('belongs to a provider of this app, which is on and has ID tokens', async () => {
    const other = await newProviderApp(service, fake.issuer)
    expectError(await send(await newToken(), other.id), 404, 'not_found')
    const github = await addProvider(app.tenant, 'http://127.0.0.1:49150', { preset: 'github' })
    expectError(await send(await newToken(), github.id), 404, 'not_found')
    await other.tenant.patch(`/apps/${other.tenant.appId}/providers/${other.id}`, { jit: 'refuse' })
    const off = await call(service.url, 'POST', `/v1/auth/providers/${other.id}/token`, {
      key: other.key,
      body: await newToken(),
    })
    expectError(off, 404, 'not_found')
  })

  test('is malformed input otherwise', async () => {
    expect(refusalOf(await send({ idToken: 'a.b.c', nonce: newNonce() }))).toBe('token_malformed')
    expectError(await send({ idToken: 7, nonce: newNonce() }), 400, 'validation_failed')
    expectError(await send({ idToken: 'x'.repeat(20_000), nonce: newNonce() }), 400, 'validation_failed')
    expectError(await send({ idToken: 'x', nonce: 'short' }), 400, 'validation_failed')
  })

  test('of a provider that cannot be reached is not used up', async () => {
    const gone = await startFakeProvider(service)
    const record = await addProvider(app.tenant, gone.issuer)
    const nonce = newNonce()
    const idToken = await gone.idToken({ claims: { nonce: hashOf(nonce) } })
    await gone.close()
    expectError(await send({ idToken, nonce }, record.id), 400, 'issuer_unavailable')
  })
})

describe('linking', () => {
  const link = (person: Awaited<ReturnType<typeof signInAs>>, body: object) =>
    person.post(`/auth/providers/${app.id}/link`, body)

  /** Starts to link in a browser, as somebody, and comes back. */
  async function codeFor(person: Awaited<ReturnType<typeof signInAs>>, sub: string) {
    const browser = newBrowser()
    const pkce = newPkce()
    const sent = await app.begin(browser, pkce, { purpose: 'link' }, { headers: person.bearer })
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce'), sub } }))
    const { location } = await app.comeBack(browser, sent)
    return { code: new URL(location).searchParams.get('code') ?? '', codeVerifier: pkce.codeVerifier }
  }

  test('an account signs in the user who linked it', async () => {
    const person = await signInAs(service, app.tenant)
    const sub = newSubject()
    const linked = await link(person, await codeFor(person, sub))
    expect(linked.status, linked.text).toBe(201)
    expect(linked.body.data).toMatchObject({
      provider: 'oidc',
      issuer: fake.issuer,
      subject: sub,
      userId: person.userId,
    })
    const signedIn = await send(await newToken({ sub }))
    expect(signedIn.body.data).toMatchObject({ isNewUser: false, user: { id: person.userId } })
    const events = await eventsOf(service, app.tenant, 'identity.linked')
    expect(events.filter(({ userId }) => userId === person.userId)).toHaveLength(1)
  })

  test('links nothing before the session that asked takes it: a code that another person brings back is of no use', async () => {
    const eve = await signInAs(service, app.tenant)
    const victim = newSubject()
    // Eve sends her link to somebody, who signs in at the provider, and comes back with a code of which Eve has the verifier.
    const { code, codeVerifier } = await codeFor(eve, victim)
    expect((await eve.get('/auth/identities')).body.total).toBe(0)
    const other = await signInAs(service, app.tenant)
    expectError(await link(other, { code, codeVerifier }), 400, 'code_invalid')
    // Nor is the victim's account Eve's when the victim signs in.
    expect((await send(await newToken({ sub: victim }))).body.data.user.id).not.toBe(eve.userId)
  })

  test('takes a code once, with its verifier, in its session', async () => {
    const person = await signInAs(service, app.tenant)
    const elsewhere = await signInAs(service, app.tenant, { userId: person.userId })
    const wrong = await codeFor(person, newSubject())
    expectError(await link(person, { ...wrong, codeVerifier: newPkce().codeVerifier }), 400, 'code_invalid')
    expectError(await link(person, wrong), 400, 'code_invalid')
    expectError(await link(elsewhere, await codeFor(person, newSubject())), 400, 'code_invalid')
    const good = await codeFor(person, newSubject())
    const both = await Promise.all([link(person, good), link(person, good)])
    expect(both.map(({ status }) => status).sort()).toEqual([201, 400])
  })

  test('refuses an account that is somebody else’s, and a code that is for signing in', async () => {
    const sub = newSubject()
    await send(await newToken({ sub }))
    const person = await signInAs(service, app.tenant)
    expectError(await link(person, await codeFor(person, sub)), 409, 'already_exists')
    const browser = newBrowser()
    const pkce = newPkce()
    const sent = await app.begin(browser, pkce)
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce') } }))
    const { location } = await app.comeBack(browser, sent)
    const code = new URL(location).searchParams.get('code') ?? ''
    expectError(await link(person, { code, codeVerifier: pkce.codeVerifier }), 400, 'code_invalid')
  })

  test('needs a recent sign-in when it starts, and a session that goes on', async () => {
    const person = await signInAs(service, app.tenant)
    const { code, codeVerifier } = await codeFor(person, newSubject())
    expect((await person.post('/auth/logout', {})).status).toBe(200)
    expectError(await link(person, { code, codeVerifier }), 401, 'session_revoked')
    const late = await signInAs(service, app.tenant)
    service.advance(6 * 60_000)
    try {
      const body = {
        redirectUrl: 'https://shop.example.com/signed-in',
        codeChallenge: newPkce().codeChallenge,
        purpose: 'link',
      }
      expectError(await late.post(`/auth/providers/${app.id}/start`, body), 403, 'reauthentication_required')
    } finally {
      service.advance(-6 * 60_000)
    }
    expectError(await app.start(newPkce(), { purpose: 'link' }), 401, 'session_missing')
  })

  test('takes the ID token of a native app, once', async () => {
    const person = await signInAs(service, app.tenant)
    const token = await newToken()
    expect((await link(person, token)).status).toBe(201)
    expect(refusalOf(await send(token))).toBe('token_used')
    expectError(await link(person, { ...token, code: 'x' }), 400, 'validation_failed')
    expectError(await link(person, {}), 400, 'validation_failed')
  })

  test('the last way in stays while its provider is on, and a provider that is off is none', async () => {
    const { data } = (await send(await newToken())).body
    const person = personOf(service.url, app.key, { userId: data.user.id, appId: app.tenant.appId }, data)
    const [identity] = (await person.get('/auth/identities')).body.data
    expectError(await person.delete(`/auth/identities/${identity.id}`), 409, 'last_sign_in_method')
    const path = `/apps/${app.tenant.appId}/providers/${app.id}`
    await app.tenant.patch(path, { jit: 'refuse' })
    expect((await person.delete(`/auth/identities/${identity.id}`)).status).toBe(200)
    await app.tenant.patch(path, { jit: 'create' })
  })
})
