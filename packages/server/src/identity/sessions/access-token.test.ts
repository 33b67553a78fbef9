import { createHmac, generateKeyPairSync, sign as signBytes } from 'node:crypto'
import { createRemoteJWKSet, exportJWK, type JWTPayload, jwtVerify } from 'jose'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { publicUrl } from '../../platform/config.ts'
import { newId } from '../../platform/ids.ts'
import { newApp, type Person, publishableKey, signInAs } from './sessions.fixture.ts'

let service: Service
beforeAll(async () => {
  // Without a worker, which would wait for the tables that a test locks, or deadlock with it.
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const part = (token: string, index: number) =>
  JSON.parse(Buffer.from(token.split('.')[index] as string, 'base64url').toString())

/** What the call answers with this token instead of the person's own. */
const asked = (person: Person, token: string, key = person.key): Promise<Answer> =>
  call(service.url, 'GET', '/v1/auth/sessions', { key, headers: { authorization: `Bearer ${token}` } })

describe('an access token', () => {
  test('is verified by others against the published keys, with a library of their own', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const published = await fetch(`${service.url}/.well-known/jwks.json`)
    expect(published.headers.get('access-control-allow-origin')).toBe('*')
    expect(published.headers.get('cache-control')).toMatch(/max-age=\d+/)
    for (const key of ((await published.json()) as { keys: object[] }).keys) {
      expect(key).toEqual({
        kty: 'OKP',
        crv: 'Ed25519',
        x: expect.stringMatching(/^[\w-]{43}$/),
        kid: expect.any(String),
        alg: 'EdDSA',
        use: 'sig',
      })
    }
    const keys = createRemoteJWKSet(new URL(`${service.url}/.well-known/jwks.json`))
    const { payload, protectedHeader } = await jwtVerify(ada.accessToken, keys, {
      issuer: publicUrl(service.deps.config),
      audience: ada.appId,
      typ: 'at+jwt',
      algorithms: ['EdDSA'],
      requiredClaims: ['jti'],
    })
    expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: expect.any(String), typ: 'at+jwt' })
    expect(payload).toMatchObject({
      sub: ada.userId,
      sid: ada.sessionId,
      tid: tenant.tenantId,
      client_id: ada.appId,
      amr: ['hwk', 'user'],
      auth_time: expect.any(Number),
    })
    // Signed when the session had been stored: that may be the next second.
    expect((payload.iat as number) - (payload.auth_time as number)).toBeGreaterThanOrEqual(0)
    expect((payload.exp as number) - (payload.iat as number)).toBe(15 * 60)
  })

  test('is sent as a bearer token, whose name has no case', async () => {
    const ada = await signInAs(service, await service.newTenant())
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  '])
      expect(
        (await ada.get('/auth/sessions', { headers: { authorization: `${scheme} ${ada.accessToken}` } })).status,
      ).toBe(200)
    const wrong = [
      ada.accessToken,
      `Token ${ada.accessToken}`,
      `Bearer: ${ada.accessToken}`,
      `Bearer ${ada.accessToken} x`,
      'Bearer',
    ]
    for (const authorization of wrong)
      expectError(
        await ada.get('/auth/sessions', { headers: { authorization } }),
        401,
        'session_invalid',
        authorization,
      )
  })

  test('ends after 15 minutes, or as long as its app says', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { sessions: { accessTokenSeconds: 60 } })
    const [ada, brief] = [await signInAs(service, tenant), await signInAs(service, tenant, { appId })]
    expect([ada.expiresInSeconds, brief.expiresInSeconds]).toEqual([900, 60])
    service.advance(30_000)
    expect((await brief.get('/auth/sessions')).status).toBe(200)
    service.advance(31_000)
    expectError(await brief.get('/auth/sessions'), 401, 'session_expired')
    service.advance(13 * MINUTE_MS)
    expect((await ada.get('/auth/sessions')).status).toBe(200)
    service.advance(MINUTE_MS)
    expectError(await ada.get('/auth/sessions'), 401, 'session_expired')
  })
})

describe('a forged token', () => {
  const strangers = generateKeyPairSync('ed25519')
  const byStrangers = { sign: (bytes: Buffer) => signBytes(null, bytes, strangers.privateKey) }
  const sign = async (payload: JWTPayload, header: object, key: { sign(bytes: Buffer): Buffer | Promise<Buffer> }) => {
    const text = `${encoded(header)}.${encoded(payload)}`
    return `${text}.${(await key.sign(Buffer.from(text))).toString('base64url')}`
  }

  /** By name; each is for the person, and none is ours. */
  async function forgeries({ accessToken }: Person): Promise<Record<string, string>> {
    const [header, payload] = [part(accessToken, 0), part(accessToken, 1)]
    const [headText, bodyText, signature] = accessToken.split('.') as [string, string, string]
    const own = await service.deps.signingKeys.current()
    const { publicKey } = own
    const hmac = (head: object, secret: string | Buffer) => {
      const text = `${encoded(head)}.${bodyText}`
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
    }
    const hs = { ...header, alg: 'HS256' }
    const jwk = await exportJWK(strangers.publicKey)
    const flipped = signature.startsWith('A') ? `B${signature.slice(1)}` : `A${signature.slice(1)}`
    return {
      'no algorithm': `${encoded({ ...header, alg: 'none' })}.${bodyText}.`,
      'no algorithm, spelt otherwise': `${encoded({ ...header, alg: 'NoNe' })}.${bodyText}.`,
      'no algorithm, with the signature': `${encoded({ ...header, alg: 'none' })}.${bodyText}.${signature}`,
      'no signature': `${headText}.${bodyText}.`,
      'two parts': `${headText}.${bodyText}`,
      'HMAC by the public key, PEM': hmac(hs, publicKey.export({ type: 'spki', format: 'pem' }) as string),
      'HMAC by the public key, DER': hmac(hs, publicKey.export({ type: 'spki', format: 'der' })),
      'HMAC by the public key, x': hmac(hs, Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url')),
      "a stranger's key under our kid": await sign(payload, header, byStrangers),
      'a key that it brings along': await sign(payload, { ...header, jwk }, byStrangers),
      'a key that it brings along, without a kid': await sign(
        payload,
        { alg: 'EdDSA', typ: 'at+jwt', jwk },
        byStrangers,
      ),
      'another kid': await sign(payload, { ...header, kid: 'AAAAAAAAAAAAAAAA' }, own),
      'no kid': await sign(payload, { alg: 'EdDSA', typ: 'at+jwt' }, own),
      'a kid that is a path': await sign(payload, { ...header, kid: '../../../../dev/null' }, own),
      'a kid that is SQL': await sign(payload, { ...header, kid: "' or 1=1 --" }, own),
      'another name of the algorithm': await sign(payload, { ...header, alg: 'Ed25519' }, own),
      'another kind of token': await sign(payload, { ...header, typ: 'JWT' }, own),
      'another issuer': await sign({ ...payload, iss: 'https://evil.example' }, header, own),
      'no issuer': await sign({ ...payload, iss: undefined as never }, header, own),
      'no end': await sign({ ...payload, exp: undefined as never }, header, own),
      'no session': await sign({ ...payload, sid: undefined }, header, own),
      'a session of another form': await sign({ ...payload, sid: 'ses_1' }, header, own),
      'a subject that is a list': await sign({ ...payload, sub: [payload.sub] as never }, header, own),
      'two audiences': await sign({ ...payload, aud: [payload.aud, newId('app')] }, header, own),
      'a changed payload': `${headText}.${encoded({ ...payload, sub: newId('usr') })}.${signature}`,
      'a changed header': `${encoded({ ...header, x: 1 })}.${bodyText}.${signature}`,
      'a changed signature': `${headText}.${bodyText}.${flipped}`,
      padding: `${accessToken}=`,
      'five parts': `${accessToken}.x.y`,
      'an endless one': `${headText}.${'A'.repeat(5_000)}.${signature}`,
    }
  }

  test('is refused with one identical body, whatever is wrong with it', async () => {
    const ada = await signInAs(service, await service.newTenant())
    // Its signature is remembered from now on, which makes no other token a good one.
    expect((await asked(ada, ada.accessToken)).status).toBe(200)
    const texts = new Set<string>()
    for (const [what, token] of Object.entries(await forgeries(ada))) {
      const answer = await asked(ada, token)
      expectError(answer, 401, 'session_invalid', what)
      texts.add(answer.text)
    }
    expect(texts.size).toBe(1)
    // None of them did the session any harm.
    expect((await asked(ada, ada.accessToken)).status).toBe(200)
  })

  test('of an end long past is not told from others', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const past = { ...part(ada.accessToken, 1), exp: 1 }
    expectError(await asked(ada, await sign(past, part(ada.accessToken, 0), byStrangers)), 401, 'session_invalid')
  })

  test('does not become a query: unknown key ids are looked for now and then, not each time', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const payload = part(ada.accessToken, 1)
    const tokens = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        sign(payload, { alg: 'EdDSA', typ: 'at+jwt', kid: `unknown${String(index).padStart(9, '0')}` }, byStrangers),
      ),
    )
    const answers = await Promise.all(tokens.map((token) => asked(ada, token)))
    for (const answer of answers) expectError(answer, 401, 'session_invalid')
  })
})

describe('whose users a key speaks for', () => {
  async function twoApps(): Promise<{ tenant: Tenant; ada: Person; otherApp: string }> {
    const tenant = await service.newTenant()
    return { tenant, ada: await signInAs(service, tenant), otherApp: await newApp(tenant) }
  }

  test("a token of another app, or of another tenant, is not there for a key that isn't of its app", async () => {
    const { tenant, ada, otherApp } = await twoApps()
    const stranger = await service.newTenant()
    const keys = {
      'publishable, of another app': await publishableKey(tenant, otherApp),
      'secret, bound to another app': await tenant.newKey({ scopes: ['*'], appId: otherApp }),
      'publishable, of another tenant': await publishableKey(stranger),
      'secret, of another tenant': stranger.key,
    }
    const unknown = await asked(ada, ada.accessToken, stranger.key)
    for (const [what, key] of Object.entries(keys)) {
      const answer = await asked(ada, ada.accessToken, key)
      expectError(answer, 404, 'not_found', what)
      expect(answer.text, what).toBe(unknown.text)
    }
  })

  test('a tenant-wide key counts as a key of every app, a bound one as one of its own', async () => {
    const { tenant, ada, otherApp } = await twoApps()
    const there = await signInAs(service, tenant, { appId: otherApp })
    for (const person of [ada, there]) expect((await asked(person, person.accessToken, tenant.key)).status).toBe(200)
    const bound = await tenant.newKey({ scopes: ['users:act_as'], appId: otherApp })
    expect((await asked(there, there.accessToken, bound)).status).toBe(200)
    const weak = await tenant.newKey({ scopes: ['users:write'] })
    expectError(await asked(ada, ada.accessToken, weak), 403, 'insufficient_scope')
  })

  test('x-user-id is for secret keys with users:act_as, beside no token, and for users that the key sees', async () => {
    const { tenant, ada, otherApp } = await twoApps()
    const stranger = await signInAs(service, await service.newTenant())
    const there = await signInAs(service, tenant, { appId: otherApp })
    const as = (userId: string, key = tenant.key, more: Record<string, string> = {}) =>
      tenant.get('/auth/sessions', { key, headers: { 'x-user-id': userId, ...more } })
    expect((await as(ada.userId)).status).toBe(200)
    expect((await as(there.userId)).status).toBe(200)
    expectError(await as(ada.userId, ada.key), 403, 'key_type_not_allowed')
    expectError(await as(ada.userId, ada.key, ada.bearer), 403, 'key_type_not_allowed')
    expectError(await as(ada.userId, await tenant.newKey({ scopes: ['users:write'] })), 403, 'insufficient_scope')
    const [beside] = expectRefusal(await as(ada.userId, tenant.key, ada.bearer), 'validation_failed')
    expect(beside.field).toBe('x-user-id')
    const bound = await tenant.newKey({ scopes: ['users:act_as'], appId: tenant.appId })
    const texts = new Set<string>()
    for (const [userId, key] of [
      [newId('usr'), tenant.key],
      [stranger.userId, tenant.key],
      [there.userId, bound],
      ['none', tenant.key],
      ["' or 1=1 --", tenant.key],
      [`${ada.userId}, ${ada.userId}`, tenant.key],
    ] as const) {
      const answer = await as(userId, key)
      expectError(answer, 404, 'not_found', userId)
      expect(answer.body.details[0].field).toBe('x-user-id')
      texts.add(answer.text)
    }
    expect(texts.size).toBe(1)
    // Also where a call for nobody in particular needs another scope.
    const signsUp = await tenant.newKey({ scopes: ['auth:write'] })
    const headers = { 'x-user-id': ada.userId }
    const adding = await tenant.post('/auth/passkey/register-options', {}, { key: signsUp, headers })
    expectError(adding, 403, 'insufficient_scope')
    expect(adding.body.details[0].scope).toBe('users:act_as')
    expectError(await tenant.get('/auth/sessions'), 401, 'session_missing')
    expectError(await tenant.get('/auth/sessions', { key: ada.key }), 401, 'session_missing')
  })
})

test('checking a token reads neither sessions nor users', async () => {
  const tenant = await service.newTenant()
  const ada = await signInAs(service, tenant)
  // Asks for what lies in tables of its own; both keys are known by now.
  const asBearer = () => ada.get('/mfa/status')
  const asServer = () => tenant.get('/mfa/status', { headers: { 'x-user-id': ada.userId } })
  expect([(await asBearer()).status, (await asServer()).status]).toEqual([200, 200])
  const holder = new pg.Client({ connectionString: service.databaseUrl })
  await holder.connect()
  try {
    await holder.query('begin')
    await holder.query('lock table sessions, users, guests in access exclusive mode')
    let served = false
    const slow = asServer().finally(() => {
      served = true
    })
    const answers = await Promise.all(Array.from({ length: 50 }, asBearer))
    for (const answer of answers) expect(answer.status, answer.text).toBe(200)
    // A call that does read users still waits: the lock was there.
    expect(served).toBe(false)
    await holder.query('rollback')
    expect((await slow).status).toBe(200)
  } finally {
    await holder.end()
  }
})
