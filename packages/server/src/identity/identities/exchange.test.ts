import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { refillsNothing, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  exchange,
  exchangeBody,
  newSubject,
  refusalOf,
  startIssuer,
  type TestIssuer,
  trust,
} from '../foreign-tokens/issuer.fixture.ts'
import { dump, eventsOf, newApp, personOf, publishableKey } from '../sessions/sessions.fixture.ts'

let service: Service
let tenant: Tenant
let issuer: TestIssuer
let issuerId: string

beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
  issuer = await startIssuer(service)
  issuerId = await trust(tenant, issuer)
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

const set = async (settings: object) => {
  const answer = await tenant.patch(`/apps/${tenant.appId}/issuers/${issuerId}`, settings)
  expect(answer.status, answer.text).toBe(200)
}

describe('the first token of an identity', () => {
  test('creates a user and signs in, as every other way of signing in does', async () => {
    const sub = newSubject()
    const claims = { sub, email: 'Ada@Example.com', email_verified: true, name: ' Ada ' }
    const answer = await exchange(service, tenant, await issuer.token({ claims }))
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { data } = answer.body
    expect(data).toEqual({
      user: expect.objectContaining({ email: 'Ada@Example.com', emailVerified: true, name: 'Ada', status: 'active' }),
      isNewUser: true,
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      tokenType: 'Bearer',
      expiresInSeconds: 900,
      sessionId: expect.stringMatching(/^ses_/),
    })
    const userId = data.user.id
    expect((await tenant.get(`/users/${userId}`)).body.data).toEqual(data.user)
    const ada = personOf(service.url, await publishableKey(tenant), { userId, appId: tenant.appId }, data)
    expect((await ada.get('/users/me')).body.data.id).toBe(userId)
    expect((await ada.get('/auth/sessions')).body.data).toMatchObject([{ methods: ['exchange'], current: true }])
    expect((await ada.post('/auth/refresh', { refreshToken: data.refreshToken })).status).toBe(200)
    const identity = (await ada.get('/auth/identities')).body.data[0]
    expect(identity).toEqual({
      id: expect.stringMatching(/^idn_/),
      userId,
      appId: tenant.appId,
      provider: 'issuer',
      issuer: issuer.url,
      subject: sub,
      username: null,
      createdAt: expect.any(String),
    })
    const linked = { identityId: identity.id, userId, provider: 'issuer', issuer: issuer.url }
    expect(await eventsOf(service, tenant, 'identity.linked')).toContainEqual(linked)
    expect(await eventsOf(service, tenant, 'user.created')).toContainEqual(expect.objectContaining({ userId }))
    const signedIn = { userId, method: 'exchange', sessionId: data.sessionId }
    expect(await eventsOf(service, tenant, 'user.signed_in')).toContainEqual(signedIn)
  })

  test('creates one user, however many of them come at once', async () => {
    const claims = { sub: newSubject() }
    const tokens = await Promise.all(Array.from({ length: 8 }, () => issuer.token({ claims })))
    const answers = await Promise.all(tokens.map((token) => exchange(service, tenant, token)))
    expect(answers.map(({ status }) => status)).toEqual(tokens.map(() => 200))
    expect(new Set(answers.map(({ body }) => body.data.user.id)).size).toBe(1)
    expect(answers.filter(({ body }) => body.data.isNewUser).length).toBe(1)
  })

  test('creates nobody where the issuer may only match, and nobody signs in where it is refused', async () => {
    const known = { claims: { sub: newSubject() } }
    expect((await exchange(service, tenant, await issuer.token(known))).status).toBe(200)
    await set({ jit: 'match' })
    const before = (await tenant.get('/users')).body.total
    expectError(await exchange(service, tenant, await issuer.token()), 403, 'identity_unknown')
    expect((await exchange(service, tenant, await issuer.token(known))).body.data.isNewUser).toBe(false)
    await set({ jit: 'refuse' })
    expect(refusalOf(await exchange(service, tenant, await issuer.token(known)))).toBe('token_issuer')
    await set({ jit: 'create' })
    expect((await tenant.get('/users')).body.total).toBe(before)
  })

  test('takes the claims that the issuer’s record names, also inside of others', async () => {
    await set({ claims: { sub: '/ids/shop~1a', email: '/mail/address', emailVerified: '/mail/ok', name: null } })
    const sub = newSubject()
    const email = `${sub}@example.com`
    const claims = { ids: { 'shop/a': sub }, mail: { address: email, ok: 'true' }, name: 'Not this' }
    const { user } = (await exchange(service, tenant, await issuer.token({ claims }))).body.data
    expect(user).toMatchObject({ email, emailVerified: true, name: null })
    expect((await tenant.get(`/users/${user.id}/identities`)).body.data).toMatchObject([{ subject: sub }])
    for (const ids of [{}, { 'shop/a': 7 }, { 'shop/a': '' }, { 'shop/a': `${sub}\n` }, { 'shop/a': 'x'.repeat(256) }])
      expect(refusalOf(await exchange(service, tenant, await issuer.token({ claims: { ids } })))).toBe('token_claims')
    for (const place of ['__proto__', 'constructor', '/ids/__proto__/x']) {
      await set({ claims: { sub: place } })
      expect(refusalOf(await exchange(service, tenant, await issuer.token({ claims })))).toBe('token_claims')
    }
    await set({ claims: { sub: 'sub', email: 'email', emailVerified: 'email_verified', name: 'name' } })
  })

  test('stores a name and an email only if they can be shown without harm', async () => {
    for (const name of ['Ada\r\nBcc: eve@example.com', 'x'.repeat(201), 7, { a: 1 }, '\u202eada', ' ']) {
      const answer = await exchange(service, tenant, await issuer.token({ claims: { name } }))
      expect(answer.body.data.user.name, String(name)).toBeNull()
    }
    for (const email of ['ada', 'a@b@c', 'ada@example.com\nBcc: x@y.z', 7]) {
      const claims = { email, email_verified: true }
      const answer = await exchange(service, tenant, await issuer.token({ claims }))
      expect([answer.status, answer.body.data.user.email]).toEqual([200, null])
    }
  })
})

describe('an email', () => {
  test('links to nobody, whoever verified it: the new user has none', async () => {
    const email = `${newSubject()}@example.com`
    const first = await tenant.post('/users', { email })
    const claims = { email: email.toUpperCase(), email_verified: true }
    const { data } = (await exchange(service, tenant, await issuer.token({ claims }))).body
    expect(data.isNewUser).toBe(true)
    expect(data.user.id).not.toBe(first.body.data.id)
    expect(data.user.email).toBeNull()
    expect((await tenant.get(`/users/${first.body.data.id}/identities`)).body.total).toBe(0)
  })

  test('is not taken by who has not shown that it is theirs', async () => {
    for (const email_verified of [false, undefined, 'false', 1, 'yes', null]) {
      const claims = { email: `${newSubject()}@example.com`, email_verified }
      const { user } = (await exchange(service, tenant, await issuer.token({ claims }))).body.data
      expect(user).toMatchObject({ email: null, emailVerified: false })
    }
  })

  test('of a later token changes neither who it is nor what is stored of them', async () => {
    const sub = newSubject()
    const claims = { sub, email: `${sub}@example.com`, email_verified: true }
    const { user } = (await exchange(service, tenant, await issuer.token({ claims }))).body.data
    const later = { ...claims, email: `other-${sub}@example.com` }
    const again = (await exchange(service, tenant, await issuer.token({ claims: later }))).body.data
    expect([again.user.id, again.user.email, again.isNewUser]).toEqual([user.id, user.email, false])
  })
})

describe('who it is', () => {
  test('depends on the issuer: the same subject of another one is somebody else', async () => {
    const other = await startIssuer(service)
    await trust(tenant, other)
    const claims = { sub: newSubject() }
    const ids = []
    for (const one of [issuer, other, issuer, other])
      ids.push((await exchange(service, tenant, await one.token({ claims }))).body.data.user.id)
    expect([ids[0], ids[1]]).toEqual([ids[2], ids[3]])
    expect(ids[0]).not.toBe(ids[1])
    // Neither can speak for the other.
    const forged = await other.token({ claims: { ...claims, iss: issuer.url } })
    expect(refusalOf(await exchange(service, tenant, forged))).toBe('token_key')
    await other.close()
  })

  test('is asked of the app’s own issuers, never of another app’s or tenant’s', async () => {
    const token = await issuer.token()
    const appId = await newApp(tenant)
    const key = await publishableKey(tenant, appId)
    expect(refusalOf(await exchange(service, tenant, token, { key }))).toBe('token_issuer')
    const stranger = await service.newTenant()
    expect(refusalOf(await exchange(service, stranger, token))).toBe('token_issuer')
    const body = exchangeBody(token, { appId })
    expect(refusalOf(await tenant.post('/auth/token/exchange', body))).toBe('token_issuer')
    expectError(await stranger.post('/auth/token/exchange', body), 404, 'not_found')
    expect((await exchange(service, tenant, token)).status).toBe(200)
  })

  test('a suspended user and a deleted one do not come back, and the issuer’s end is theirs', async () => {
    const claims = { sub: newSubject() }
    const { user } = (await exchange(service, tenant, await issuer.token({ claims }))).body.data
    await tenant.patch(`/users/${user.id}`, { status: 'suspended' })
    expectError(await exchange(service, tenant, await issuer.token({ claims })), 403, 'user_suspended')
    await tenant.delete(`/users/${user.id}`)
    const again = (await exchange(service, tenant, await issuer.token({ claims }))).body.data
    expect([again.isNewUser, again.user.id === user.id]).toEqual([true, false])
    const removed = await tenant.delete(`/apps/${tenant.appId}/issuers/${issuerId}`)
    expect(removed.status).toBe(200)
    expect(refusalOf(await exchange(service, tenant, await issuer.token({ claims })))).toBe('token_issuer')
    issuerId = await trust(tenant, issuer)
    expect((await exchange(service, tenant, await issuer.token({ claims }))).body.data.user.id).toBe(again.user.id)
  })
})

describe('a token', () => {
  test('with a jti signs in once, of many calls at once too; another issuer’s jti is another', async () => {
    const jti = newSubject()
    for (const claims of [{ jti }, { jti: newSubject(), sub: 'known' }, { jti: newSubject(), sub: 'known' }]) {
      const token = await issuer.token({ claims })
      const answers = await Promise.all(Array.from({ length: 10 }, () => exchange(service, tenant, token)))
      expect(answers.map(refusalOf).toSorted()).toEqual(['200', ...Array.from({ length: 9 }, () => 'token_used')])
      service.advance(60_000)
      expect(refusalOf(await exchange(service, tenant, token))).toBe('token_used')
    }
    const other = await startIssuer(service)
    await trust(tenant, other)
    expect((await exchange(service, tenant, await other.token({ claims: { jti } }))).status).toBe(200)
    await other.close()
    for (const wrong of [7, '', 'x'.repeat(1_025)]) {
      const token = await issuer.token({ claims: { jti: wrong } })
      expect(refusalOf(await exchange(service, tenant, token))).toBe('token_claims')
    }
  })

  test('that was refused for another reason is not used up', async () => {
    await set({ jit: 'match' })
    const token = await issuer.token({ claims: { jti: newSubject() } })
    expectError(await exchange(service, tenant, token), 403, 'identity_unknown')
    await set({ jit: 'create' })
    expect((await exchange(service, tenant, token)).status).toBe(200)
  })

  test('and its subject are stored as hashes or not at all, and are in no log', async () => {
    const token = await issuer.token({ claims: { jti: 'jti-of-a-token' } })
    expect((await exchange(service, tenant, token)).status).toBe(200)
    const rows = await dump(service)
    expect(rows).not.toContain('jti-of-a-token')
    for (const place of [rows, service.logs()]) expect(place).not.toContain(token.split('.')[2])
  })

  test('is what the fields of RFC 8693 say, and nothing else is taken for it', async () => {
    const good = exchangeBody(await issuer.token())
    for (const [field, value] of [
      ['grant_type', 'client_credentials'],
      ['grant_type', undefined],
      ['subject_token', ''],
      ['subject_token', 7],
      ['subject_token', 'x'.repeat(16_385)],
      ['subject_token_type', 'urn:ietf:params:oauth:token-type:saml2'],
      ['requested_token_type', 'urn:ietf:params:oauth:token-type:refresh_token'],
      ['actor_token', 'x'],
    ]) {
      const answer = await tenant.post('/auth/token/exchange', { ...good, [field as string]: value })
      expectError(answer, 400, 'validation_failed', String(field))
      expect(answer.body.details[0].field).toBe(field)
    }
    expect((await tenant.post('/auth/token/exchange', good)).status).toBe(200)
  })

  test('of one identity is limited, whatever addresses it comes from', async () => {
    const limited = await startService({ HALFKEY_RATE_LIMITS: 'on' })
    refillsNothing(limited, 'rateLimitAccount')
    const shop = await limited.newTenant()
    const login = await startIssuer(limited)
    await trust(shop, login)
    const claims = { sub: newSubject() }
    const burst = limited.deps.config.rateLimitAccount.burst
    for (let n = 0; n < burst; n += 1)
      expect((await exchange(limited, shop, await login.token({ claims }))).status).toBe(200)
    expectError(await exchange(limited, shop, await login.token({ claims })), 429, 'rate_limited')
    expect((await exchange(limited, shop, await login.token())).status).toBe(200)
    await login.close()
    await limited.stop()
  })
})
