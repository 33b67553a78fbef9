import { decodeProtectedHeader } from 'jose'
import {
  allowInsecureRequests,
  customFetch,
  discovery,
  implicitAuthentication,
  None,
  useIdTokenResponseType,
} from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import { AUDIENCE, exchange, refusalOf } from '../foreign-tokens/issuer.fixture.ts'
import { newApp, signInAs } from '../sessions/sessions.fixture.ts'
import { idTokenOf, issuerOf, kidsOf, partOf, readPublic, setOpenId, verified } from './id-tokens.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describe('an ID token', () => {
  test('says who signed in, how and when, to the app itself unless another audience is asked for', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant, { email: 'ada@example.com' })
    const answer = await ada.post('/auth/id-token')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body.data).toEqual({ idToken: expect.any(String), expiresInSeconds: 600 })
    const { idToken } = answer.body.data
    const payload = await verified(service, ada.appId, idToken)
    expect(payload).toEqual({
      iss: issuerOf(service, ada.appId),
      sub: ada.userId,
      aud: ada.appId,
      azp: ada.appId,
      iat: expect.any(Number),
      exp: (payload.iat as number) + 600,
      jti: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
      auth_time: expect.any(Number),
      amr: ['hwk', 'user'],
    })
    expect(decodeProtectedHeader(idToken)).toEqual({ alg: 'RS256', typ: 'JWT', kid: expect.any(String) })
    expect(await kidsOf(service, ada.appId)).toEqual([partOf(idToken, 0).kid])
  })

  test('has the email only once it is verified, and the nonce that was asked for', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant, { email: 'ada@example.com' })
    await service.sql('update users set email_verified = true where id = $1', [ada.userId])
    await service.recode(tenant.tenantId)
    const payload = await verified(service, ada.appId, await idTokenOf(ada, { nonce: 'n-0S6_WzA2Mj' }))
    expect(payload).toMatchObject({ email: 'ada@example.com', email_verified: true, nonce: 'n-0S6_WzA2Mj' })
  })

  test('names an audience only if the app lists it', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const audience = 'https://daml.com/jwt/aud/participant/one'
    const asked = await ada.post('/auth/id-token', { audience })
    expectError(asked, 400, 'validation_failed')
    expect(asked.body.details[0].field).toBe('audience')
    await setOpenId(tenant, { audiences: [audience] })
    const payload = await verified(service, ada.appId, await idTokenOf(ada, { audience }), { audience })
    expect(payload).toMatchObject({ aud: audience, azp: ada.appId })
    expect((await verified(service, ada.appId, await idTokenOf(ada, { audience: ada.appId }))).aud).toBe(ada.appId)
  })

  test('expires with its session, if that is sooner than ten minutes', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await service.sql(`update sessions set expires_at = $2 where id = $1`, [
      ada.sessionId,
      new Date(service.deps.now().getTime() + 60_000),
    ])
    const { expiresInSeconds } = (await ada.post('/auth/id-token')).body.data
    expect(expiresInSeconds).toBeGreaterThan(50)
    expect(expiresInSeconds).toBeLessThanOrEqual(60)
  })

  test('signs in once at another app that trusts this one, and the next one again', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const other = await service.newTenant()
    await setOpenId(tenant, { audiences: [AUDIENCE] })
    const issuer = issuerOf(service, ada.appId)
    const jwksUri = `${service.url}/apps/${ada.appId}/.well-known/jwks.json`
    const trusted = await other.post(`/apps/${other.appId}/issuers`, { issuer, jwksUri, audiences: [AUDIENCE] })
    expect(trusted.status, trusted.text).toBe(201)
    const [one, two] = [await idTokenOf(ada, { audience: AUDIENCE }), await idTokenOf(ada, { audience: AUDIENCE })]
    const first = await exchange(service, other, one)
    expect(first.status, first.text).toBe(200)
    expect(refusalOf(await exchange(service, other, one))).toBe('token_used')
    const second = await exchange(service, other, two)
    expect(second.body.data.user.id, second.text).toBe(first.body.data.user.id)
  })

  test('is the same for a repeat with the same Idempotency-Key', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const headers = { 'idempotency-key': 'once' }
    const [one, two] = [
      await ada.post('/auth/id-token', {}, { headers }),
      await ada.post('/auth/id-token', {}, { headers }),
    ]
    expect(one.status, one.text).toBe(200)
    expect(two.text).toBe(one.text)
  })
})

describe('claims from metadata', () => {
  const metadata = {
    'claim:plan': 'gold',
    'claim:https://shop.example.com/tier': '2',
    plan: 'not this',
    'claim:other': 'x',
  }

  test('are those that the app names, where the user has them, and stay out of access tokens', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const bob = await signInAs(service, tenant)
    expect((await tenant.patch(`/users/${ada.userId}`, { metadata })).status).toBe(200)
    const claimsOf = async (person: typeof ada) => {
      const { iss, sub, aud, azp, iat, exp, jti, auth_time, amr, ...own } = partOf(await idTokenOf(person), 1)
      return own
    }
    expect(await claimsOf(ada)).toEqual({})
    await setOpenId(tenant, { claims: ['plan', 'https://shop.example.com/tier', 'constructor'] })
    expect(await claimsOf(ada)).toEqual({ plan: 'gold', 'https://shop.example.com/tier': '2' })
    expect(await claimsOf(bob)).toEqual({})
    const again = await signInAs(service, tenant, { userId: ada.userId })
    expect(Object.keys(partOf(again.accessToken, 1)).sort()).toEqual(
      ['amr', 'aud', 'auth_time', 'client_id', 'exp', 'iat', 'iss', 'jti', 'sid', 'sub', 'tid'].sort(),
    )
  })

  test('never have more than 1 KiB: the call says so instead of leaving some out', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await setOpenId(tenant, { claims: ['plan'] })
    const long = (bytes: number) => ({ metadata: { 'claim:plan': 'ä'.repeat(bytes / 2) } })
    await tenant.patch(`/users/${ada.userId}`, long(1012))
    expect((await ada.post('/auth/id-token')).status).toBe(200)
    await tenant.patch(`/users/${ada.userId}`, long(1014))
    expectError(await ada.post('/auth/id-token'), 409, 'id_token_claims_too_large')
  })

  test('cannot be written by a guest for the user that it becomes', async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true, appId: tenant.appId })
    const guest = (await call(service.url, 'POST', '/v1/guests', { key, body: {} })).body.data
    const convert = (more: object, options: object) =>
      call(service.url, 'POST', `/v1/guests/${guest.id}/convert`, { body: { externalId: 'ada', ...more }, ...options })
    const byGuest = { key, headers: { authorization: `Bearer ${guest.accessToken}` } }
    const refused = await convert({ metadata: { theme: 'dark', 'claim:plan': 'gold' } }, byGuest)
    expectError(refused, 400, 'validation_failed')
    expect(refused.body.details[0]).toMatchObject({ field: 'metadata.claim:plan', code: 'server_only' })
    const made = await convert({ metadata: { 'claim:plan': 'gold' } }, { key: tenant.key })
    expect(made.body.data.user.metadata).toEqual({ 'claim:plan': 'gold' })
  })
})

describe('the settings of an app', () => {
  test('name its issuer, and have no audiences and claims to begin with', async () => {
    const tenant = await service.newTenant()
    const { openid } = (await tenant.get(`/apps/${tenant.appId}`)).body.data
    expect(openid).toEqual({ issuer: issuerOf(service, tenant.appId), audiences: [], claims: [] })
    const { body } = await setOpenId(tenant, { audiences: ['one'] })
    expect(body.data.openid).toEqual({ ...openid, audiences: ['one'] })
    const next = await setOpenId(tenant, { claims: ['plan'] })
    expect(next.body.data.openid).toEqual({ ...openid, audiences: ['one'], claims: ['plan'] })
    const [event] = await service.sql<{ body: string }>(
      `select body from events where tenant_id = $1 and type = 'app.updated' order by id desc limit 1`,
      [tenant.tenantId],
    )
    expect(JSON.parse(event?.body ?? '').data.changed).toEqual(['openid.claims'])
  })

  test.each([
    [{ issuer: 'https://evil.example.com' }, 'openid'],
    [{ audiences: ['a b'] }, 'openid.audiences.0'],
    [{ audiences: ['a', 'a'] }, 'openid.audiences'],
    [{ audiences: Array.from({ length: 11 }, (_, n) => `a${n}`) }, 'openid.audiences'],
    [{ audiences: ['app_01jb2m7x9kq4t8v6w0r3s5y1zb'] }, 'openid.audiences.0'],
    [{ audiences: null }, 'openid.audiences'],
    [{ claims: ['sub'] }, 'openid.claims.0'],
    [{ claims: ['plan', 'email_verified'] }, 'openid.claims.1'],
    [{ claims: ['events'] }, 'openid.claims.0'],
    [{ claims: ['preferred_username'] }, 'openid.claims.0'],
    [{ claims: ['updated_at'] }, 'openid.claims.0'],
    [{ claims: ['roles'] }, 'openid.claims.0'],
    [{ claims: ['authorization_details'] }, 'openid.claims.0'],
    [{ claims: ['_claim_names'] }, 'openid.claims.0'],
    [{ claims: ['__proto__'] }, 'openid.claims.0'],
    [{ claims: ['plan\n'] }, 'openid.claims.0'],
    [{ claims: ['x'.repeat(151)] }, 'openid.claims.0'],
    [{ claims: Array.from({ length: 21 }, (_, n) => `a${n}`) }, 'openid.claims'],
  ])('refuse %j', async (openid, field) => {
    const tenant = await service.newTenant()
    const answer = await tenant.patch(`/apps/${tenant.appId}`, { openid })
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field.startsWith(field)).toBe(true)
  })
})

describe('verifiers of others', () => {
  test('find the issuer by discovery and verify its tokens, with the client library of OpenID Connect', async () => {
    const tenant = await service.newTenant()
    const issuer = issuerOf(service, tenant.appId)
    const client = await discovery(new URL(issuer), tenant.appId, undefined, None(), {
      execute: [allowInsecureRequests, useIdTokenResponseType],
      // The issuer's name is that of the public URL; the service of a test listens on 127.0.0.1 alone.
      [customFetch]: (url: string, { method, headers }: { method: string; headers: Record<string, string> }) =>
        fetch(url.replace(new URL(issuer).origin, service.url), { method, headers }),
    })
    expect(client.serverMetadata()).toMatchObject({
      issuer,
      jwks_uri: `${issuer}/.well-known/jwks.json`,
      id_token_signing_alg_values_supported: ['RS256'],
      subject_types_supported: ['public'],
      response_types_supported: ['id_token'],
    })
    const ada = await signInAs(service, tenant)
    const nonce = 'n-0S6_WzA2Mj'
    const at = (token: string) => new URL(`https://shop.example.com/#id_token=${token}`)
    const claims = await implicitAuthentication(client, at(await idTokenOf(ada, { nonce })), nonce)
    expect(claims).toMatchObject({ iss: issuer, sub: ada.userId, aud: tenant.appId, nonce })
    const other = at(await idTokenOf(ada, { nonce: 'another' }))
    await expect(implicitAuthentication(client, other, nonce)).rejects.toThrow('unexpected JWT claim value')
  })

  test('verify with issuer, key set and audience alone, as a Canton participant is configured', async () => {
    const tenant = await service.newTenant()
    const audience = 'https://daml.com/jwt/aud/participant/participant1::1220'
    await setOpenId(tenant, { audiences: [audience] })
    const ada = await signInAs(service, tenant)
    const configuration = (await readPublic(service, tenant.appId, 'openid-configuration')).body
    const { iss, sub } = await verified(service, tenant.appId, await idTokenOf(ada, { audience }), { audience })
    expect([iss, sub]).toEqual([configuration.issuer, ada.userId])
    const claims = Object.keys(partOf(await idTokenOf(ada, { nonce: 'n' }), 1))
    expect(configuration.claims_supported).toEqual(expect.arrayContaining(claims))
  })

  test('may keep what they read for some minutes, and read it from any page', async () => {
    const tenant = await service.newTenant()
    for (const name of ['openid-configuration', 'jwks.json'] as const) {
      const { status, headers } = await readPublic(service, tenant.appId, name)
      expect(status).toBe(200)
      expect(headers.get('cache-control')).toMatch(/^public, max-age=\d+$/)
      expect(headers.get('access-control-allow-origin')).toBe('*')
    }
    const [key, ...more] = (await readPublic(service, tenant.appId, 'jwks.json')).body.keys
    expect(more).toEqual([])
    expect(key).toEqual({
      kty: 'RSA',
      n: expect.stringMatching(/^[\w-]{342}$/),
      e: 'AQAB',
      kid: expect.any(String),
      alg: 'RS256',
      use: 'sig',
    })
  })

  test('get the same 404 for every app that does not exist, whatever its id looks like', async () => {
    const tenant = await service.newTenant()
    const other = await newApp(tenant)
    expect((await readPublic(service, other, 'jwks.json')).status).toBe(200)
    await tenant.delete(`/apps/${other}`)
    for (const name of ['openid-configuration', 'jwks.json'] as const) {
      const ids = [
        newId('app'),
        other,
        tenant.tenantId,
        'x',
        '%00',
        '__proto__',
        `${tenant.appId}%2f..`,
        'a'.repeat(90),
      ]
      const answers = await Promise.all(ids.map((id) => readPublic(service, id, name)))
      expect([...new Set(answers.map(({ text }) => text))]).toHaveLength(1)
      for (const answer of answers) {
        expectError(answer, 404, 'not_found')
        expect(answer.headers.get('cache-control')).toBe('no-store')
      }
    }
  })
})
