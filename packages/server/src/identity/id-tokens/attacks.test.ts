import { createHmac, createPublicKey, type JsonWebKey } from 'node:crypto'
import { createRemoteJWKSet, errors, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService } from '../../../test/harness/harness.ts'
import { newApp, type Person, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'
import { idTokenOf, kidsOf, partOf, readPublic, setOpenId, verified } from './id-tokens.fixture.ts'
import { rotateIdTokenKeys } from './service.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** What the service answers if a token is used as an access token. */
const withToken = (person: Person, token: string): Promise<Answer> =>
  call(service.url, 'GET', '/v1/auth/sessions', { key: person.key, headers: { authorization: `Bearer ${token}` } })

const asked = (person: Person, token: string, path = '/auth/id-token'): Promise<Answer> =>
  call(service.url, 'POST', `/v1${path}`, { key: person.key, body: {}, headers: { authorization: `Bearer ${token}` } })

describe('a token of one kind', () => {
  test('is not accepted as the other: an ID token opens nothing here, an access token says nothing to verifiers', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const idToken = await idTokenOf(ada)
    expectError(await withToken(ada, idToken), 401, 'session_invalid')
    expectError(await asked(ada, idToken), 401, 'session_invalid')
    expect((await withToken(ada, ada.accessToken)).status).toBe(200)
    await expect(verified(service, ada.appId, ada.accessToken)).rejects.toThrow(errors.JOSEError)
    await expect(
      verified(service, ada.appId, ada.accessToken, { algorithms: ['EdDSA', 'RS256'], issuer: [] }),
    ).rejects.toThrow(errors.JWKSNoMatchingKey)
    // Nor do the keys of access tokens verify an ID token.
    const accessKeys = createRemoteJWKSet(new URL(`${service.url}/.well-known/jwks.json`))
    await expect(jwtVerify(idToken, accessKeys)).rejects.toThrow(errors.JWKSNoMatchingKey)
  })

  test('is not made into the other with another header: by algorithm, type or key id', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const idToken = await idTokenOf(ada)
    const [, access, accessSignature] = ada.accessToken.split('.') as [string, string, string]
    const [, , idSignature] = idToken.split('.') as [string, string, string]
    const accessKid = partOf(ada.accessToken, 0).kid
    const idKid = partOf(idToken, 0).kid
    const jwk: JsonWebKey = (await readPublic(service, ada.appId, 'jwks.json')).body.keys[0]
    const pem = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const hmac = (text: string) => createHmac('sha256', pem).update(text).digest('base64url')
    const headers = [
      { alg: 'none', typ: 'at+jwt', kid: accessKid },
      { alg: 'RS256', typ: 'at+jwt', kid: idKid },
      { alg: 'RS256', typ: 'at+jwt', kid: accessKid },
      { alg: 'EdDSA', typ: 'at+jwt', kid: idKid },
      { alg: 'EdDSA', typ: 'JWT', kid: accessKid },
      { alg: 'HS256', typ: 'at+jwt', kid: idKid },
    ]
    for (const header of headers) {
      const text = `${encoded(header)}.${access}`
      for (const signature of ['', accessSignature, idSignature, hmac(text)])
        expectError(await withToken(ada, `${text}.${signature}`), 401, 'session_invalid')
    }
    // And at a verifier that takes every algorithm that the key set allows.
    const claims = encoded({ ...partOf(idToken, 1), sub: 'usr_somebody' })
    for (const alg of ['none', 'HS256', 'RS384', 'RS256']) {
      const text = `${encoded({ alg, typ: 'JWT', kid: idKid })}.${claims}`
      for (const signature of ['', hmac(text), idSignature])
        await expect(
          verified(service, ada.appId, `${text}.${signature}`, { algorithms: ['RS256', 'RS384', 'HS256'] }),
        ).rejects.toThrow(errors.JOSEError)
    }
  })
})

describe('the users of one app', () => {
  test('say nothing to verifiers of another, of the same tenant or another, even under its audience and key id', async () => {
    const [one, two] = [await service.newTenant(), await service.newTenant()]
    const second = await newApp(one)
    const audience = 'https://ledger.example.com'
    for (const [tenant, appId] of [
      [one, one.appId],
      [one, second],
      [two, two.appId],
    ] as const)
      await setOpenId(tenant, { audiences: [audience] }, appId)
    const ada = await signInAs(service, one)
    const adasKid = partOf(await idTokenOf(ada), 0).kid
    for (const mallory of [await signInAs(service, one, { appId: second }), await signInAs(service, two)]) {
      const token = await idTokenOf(mallory, { audience })
      expect(await verified(service, mallory.appId, token, { audience })).toMatchObject({ sub: mallory.userId })
      // A verifier that checks nothing but keys and audience is safe, too: each app has keys of its own.
      await expect(verified(service, ada.appId, token, { audience, issuer: [] })).rejects.toThrow(
        errors.JWKSNoMatchingKey,
      )
      const [, claims, signature] = token.split('.')
      const renamed = `${encoded({ alg: 'RS256', typ: 'JWT', kid: adasKid })}.${claims}.${signature}`
      await expect(verified(service, ada.appId, renamed, { audience, issuer: [] })).rejects.toThrow(
        errors.JWSSignatureVerificationFailed,
      )
      expectError(await mallory.post('/auth/id-token', { audience: ada.appId }), 400, 'validation_failed')
    }
  })

  test('get none with the key of another app or tenant', async () => {
    const [one, two] = [await service.newTenant(), await service.newTenant()]
    const ada = await signInAs(service, one)
    for (const key of [two.key, await publishableKey(two), await publishableKey(one, await newApp(one))])
      expectError(await asked({ ...ada, key }, ada.accessToken), 404, 'not_found')
  })
})

describe('nobody else gets one', () => {
  test('neither a server that acts for a user, nor a guest, nor a delegated session, nor nobody', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const actingAs = await tenant.post('/auth/id-token', {}, { headers: { 'x-user-id': ada.userId } })
    expectError(actingAs, 401, 'session_missing')
    const guest = (await call(service.url, 'POST', '/v1/guests', { key: ada.key, body: {} })).body.data
    expectError(await asked(ada, guest.accessToken), 403, 'guest_not_allowed')
    expectError(await asked(ada, `dst_${'x'.repeat(43)}`), 401, 'session_invalid')
    expectError(await asked(ada, ada.refreshToken), 401, 'session_invalid')
    expectError(
      await call(service.url, 'POST', '/v1/auth/id-token', { key: ada.key, body: {} }),
      401,
      'session_missing',
    )
    // Nor one who became a user without anybody signing in.
    const converted = await tenant.post(`/guests/${guest.id}/convert`, { externalId: 'bob' })
    expectError(await asked(ada, converted.body.data.accessToken), 403, 'guest_not_allowed')
  })

  test('after the session was ended, the user suspended or deleted, or the app deleted', async () => {
    const tenant = await service.newTenant()
    const [ada, bob, cleo] = [
      await signInAs(service, tenant),
      await signInAs(service, tenant),
      await signInAs(service, tenant),
    ]
    await ada.post('/auth/logout')
    expectError(await ada.post('/auth/id-token'), 401, 'session_revoked')
    await tenant.patch(`/users/${bob.userId}`, { status: 'suspended' })
    expectError(await bob.post('/auth/id-token'), 403, 'user_suspended')
    expect((await tenant.delete(`/users/${cleo.userId}`)).status).toBe(200)
    expectError(await cleo.post('/auth/id-token'), 401, 'session_revoked')
    const appId = await newApp(tenant)
    const dora = await signInAs(service, tenant, { appId })
    await idTokenOf(dora)
    expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
    expect((await dora.post('/auth/id-token')).status).toBe(401)
    expect(await service.sql('select 1 from id_token_keys where app_id = $1', [appId])).toEqual([])
  })

  test('for a session that the database says has ended, whatever the process remembers', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await service.sql('update sessions set revoked_at = now() where id = $1', [ada.sessionId])
    await service.recode(tenant.tenantId)
    expectError(await ada.post('/auth/id-token'), 401, 'session_revoked')
    await service.sql('update sessions set revoked_at = null, expires_at = now() where id = $1', [ada.sessionId])
    await service.recode(tenant.tenantId)
    expectError(await ada.post('/auth/id-token'), 401, 'session_expired')
  })
})

describe('a new key', () => {
  const MINUTE_MS = 60_000

  test('signs at once; the one before is published until its last token has expired, and no longer', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const old = await idTokenOf(ada)
    expect(await rotateIdTokenKeys(service.deps, { revoke: false })).toBeGreaterThan(0)
    const next = await idTokenOf(ada)
    expect(partOf(next, 0).kid).not.toBe(partOf(old, 0).kid)
    expect(await kidsOf(service, ada.appId)).toEqual([partOf(next, 0).kid, partOf(old, 0).kid])
    for (const token of [old, next]) expect((await verified(service, ada.appId, token)).sub).toBe(ada.userId)
    service.advance(10 * MINUTE_MS)
    expect(await kidsOf(service, ada.appId)).toHaveLength(2)
    service.advance(6 * MINUTE_MS)
    expect(await kidsOf(service, ada.appId)).toEqual([partOf(next, 0).kid])
  })

  test('of a revoked one is published alone', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const old = await idTokenOf(ada)
    await rotateIdTokenKeys(service.deps, { revoke: false })
    await idTokenOf(ada)
    await rotateIdTokenKeys(service.deps, { revoke: true })
    const next = await idTokenOf(ada)
    expect(await kidsOf(service, ada.appId)).toEqual([partOf(next, 0).kid])
    await expect(verified(service, ada.appId, old)).rejects.toThrow(errors.JWKSNoMatchingKey)
  })

  test('is one, however many ask for the first', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    const tokens = await Promise.all(
      Array.from({ length: 6 }, (_, n) => idTokenOf(ada, n % 2 === 0 ? {} : { nonce: String(n) })),
    )
    expect(new Set(tokens.map((token) => partOf(token, 0).kid)).size).toBe(1)
    expect(await kidsOf(service, ada.appId)).toEqual([partOf(tokens[0] as string, 0).kid])
  })
})

describe('somebody who writes the database', () => {
  test('neither publishes a key nor has one sign', async () => {
    const tenant = await service.newTenant()
    const [ada, other] = [await signInAs(service, tenant), await signInAs(service, await service.newTenant())]
    const kid = partOf(await idTokenOf(ada), 0).kid
    await idTokenOf(other)
    const changes = [
      `private_key_sealed = (select private_key_sealed from id_token_keys where app_id = '${other.appId}')`,
      `created_at = created_at + interval '1 second'`,
      'mac = null',
    ]
    for (const change of changes) {
      await service.sql('create table kept as select * from id_token_keys where id = $1', [kid])
      await service.sql(`update id_token_keys set ${change} where id = $1`, [kid])
      expectError(await readPublic(service, ada.appId, 'jwks.json'), 500, 'record_tampered')
      expectError(await ada.post('/auth/id-token'), 500, 'record_tampered')
      await service.sql(`
        update id_token_keys k set private_key_sealed = o.private_key_sealed, created_at = o.created_at, mac = o.mac
        from kept o where k.id = o.id`)
      await service.sql('drop table kept')
    }
    expect(await kidsOf(service, ada.appId)).toEqual([kid])
    // A rotation takes such a row away, and the app goes on.
    for (const change of ['mac = null', 'revoked_at = now()']) {
      const present = partOf(await idTokenOf(ada), 0).kid
      await service.sql(`update id_token_keys set ${change} where id = $1`, [present])
      expectError(await ada.post('/auth/id-token'), 500, 'record_tampered')
      await rotateIdTokenKeys(service.deps, { revoke: false })
      expect(partOf(await idTokenOf(ada), 0).kid).not.toBe(present)
      expect(await kidsOf(service, ada.appId)).toHaveLength(1)
    }
  })

  test('gives the app no other audience or claim', async () => {
    const tenant = await service.newTenant()
    const ada = await signInAs(service, tenant)
    await service.sql(`update apps set openid = '{"audiences": ["evil"], "claims": []}' where id = $1`, [tenant.appId])
    expectError(await ada.post('/auth/id-token', { audience: 'evil' }), 500, 'record_tampered')
  })
})

describe('bad input', () => {
  test.each([
    { audience: '' },
    { audience: null },
    { audience: ['a'] },
    { audience: 'x'.repeat(501) },
    { nonce: '' },
    { nonce: 7 },
    { nonce: 'a b' },
    { nonce: 'ä' },
    { nonce: 'x'.repeat(256) },
    { sub: 'usr_somebody' },
    { expiresInSeconds: 86_400 },
  ])('%j is refused', async (body) => {
    const ada = await signInAs(service, await service.newTenant())
    expectError(await ada.post('/auth/id-token', body), 400, 'validation_failed')
  })

  test('a token that somebody signs with a key of their own is worth nothing', async () => {
    const ada = await signInAs(service, await service.newTenant())
    const claims = partOf(await idTokenOf(ada), 1)
    const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
    const jwk = await exportJWK(publicKey)
    for (const header of [{ kid: 'own' }, { kid: 'own', jwk }, { kid: partOf(await idTokenOf(ada), 0).kid, jwk }]) {
      const token = await new SignJWT(claims).setProtectedHeader({ alg: 'RS256', ...header }).sign(privateKey)
      await expect(verified(service, ada.appId, token)).rejects.toThrow(errors.JOSEError)
      expectError(await withToken(ada, token), 401, 'session_invalid')
    }
  })
})
