import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logIn, newAuthenticator, register, signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService } from '../../../test/harness/harness.ts'
import { sendBytes } from '../../../test/harness/raw-http.ts'
import { relatedOriginsOf } from '../../tenancy/custom-domains/related-origins.ts'
import { bearer, newTestApp, type TestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000

/** A user with this many passkeys, and the headers of the newest session. */
async function userWith(app: TestApp, passkeys: number) {
  const ada = await signUp(app.browser, { email: 'ada@example.com' })
  let headers = bearer(ada)
  for (let more = 1; more < passkeys; more += 1)
    headers = bearer((await register(app.browser, {}, { headers, deviceName: `Phone ${more}` })).body.data)
  const list = () => app.send('GET', '/auth/passkeys?page_size=100', undefined, headers)
  const ids: string[] = (await list()).body.data.map(({ id }: { id: string }) => id)
  const remove = (id: string): Promise<Answer> => app.send('DELETE', `/auth/passkeys/${id}`, undefined, headers)
  return { userId: ada.user.id as string, authenticator: ada.authenticator, headers, ids, list, remove }
}

describe('the list', () => {
  test('is the user’s own, newest first, in pages; and the same for a developer', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 3)
    await signUp(app.browser)
    const whole = (await ada.list()).body
    expect(whole).toMatchObject({ total: 3, page: 1, pageSize: 100, hasMore: false })
    expect(whole.data.map(({ name }: { name: string }) => name)).toEqual(['Phone 2', 'Phone 1', null])
    const second = (await app.send('GET', '/auth/passkeys?page=2&page_size=2', undefined, ada.headers)).body
    expect(second).toEqual({ data: [whole.data[2]], total: 3, page: 2, pageSize: 2, hasMore: false })
    expect((await app.tenant.get(`/users/${ada.userId}/passkeys?page_size=100`)).body).toEqual(whole)
    expect((await app.tenant.get('/auth/passkeys', { headers: { 'x-user-id': ada.userId } })).body.total).toBe(3)
    expectRefusal(await app.send('GET', '/auth/passkeys?page=0', undefined, ada.headers), 'validation_failed')
    expectError(await app.send('GET', '/auth/passkeys'), 401, 'session_missing')
  })

  test('of a user of another app or tenant is the 404 of nobody’s', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 1)
    const other = await service.newTenant()
    const appId = (await app.tenant.post('/apps', { name: 'Other' })).body.data.id
    const bound = await app.tenant.newKey({ scopes: ['*'], appId })
    const path = `/users/${ada.userId}/passkeys`
    const nobody = await app.tenant.get('/users/usr_00000000000000000000000000/passkeys')
    for (const answer of [nobody, await other.get(path), await app.tenant.get(path, { key: bound })]) {
      expectError(answer, 404, 'not_found')
      expect(answer.text).toBe(nobody.text)
    }
  })
})

describe('the name', () => {
  test('is changed, trimmed, taken away; what is not sent stays', async () => {
    const app = await newTestApp(service)
    const { ids, headers } = await userWith(app, 1)
    const patch = (body: object) => app.send('PATCH', `/auth/passkeys/${ids[0]}`, body, headers)
    const before = (await app.send('GET', '/auth/passkeys', undefined, headers)).body.data[0]
    expect((await patch({})).body.data).toEqual(before)
    service.advance(1_000)
    const named = await patch({ name: ' Zoe\u0308 ' })
    expect(named.status, named.text).toBe(200)
    expect(named.body.data).toEqual({ ...before, name: 'Zo\u00eb', updatedAt: expect.any(String) })
    expect(named.body.data.updatedAt > before.updatedAt).toBe(true)
    service.advance(1_000)
    expect((await patch({ name: 'Zo\u00eb' })).body.data).toEqual(named.body.data)
    expect((await patch({ name: null })).body.data.name).toBeNull()
    for (const name of ['', ' ', 'x'.repeat(101), 7, ['x']]) {
      const [detail] = expectRefusal(await patch({ name }), 'validation_failed', String(name))
      expect(detail.field).toBe('name')
    }
    expectRefusal(await patch({ credentialId: 'AAAA' }), 'validation_failed')
    expect((await app.events()).map(({ type }) => type)).not.toContain('passkey.updated')
  })

  test('of another user’s passkey is the 404 of nobody’s', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 1)
    const eve = await signUp(app.browser)
    const before = (await ada.list()).body
    for (const id of [ada.ids[0], 'pky_00000000000000000000000000', 'x']) {
      const path = `/auth/passkeys/${id}`
      expectError(await app.send('PATCH', path, { name: 'mine' }, bearer(eve)), 404, 'not_found')
      expectError(await app.send('DELETE', path, undefined, bearer(eve)), 404, 'not_found')
    }
    expect((await ada.list()).body).toEqual(before)
  })
})

describe('removing', () => {
  test('answers the final state and emits passkey.removed once; the passkey signs in no more', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 2)
    const record = (await ada.list()).body.data[1]
    const removed = await ada.remove(record.id)
    expect(removed.status, removed.text).toBe(200)
    expect(removed.body.data).toEqual(record)
    expectError(await ada.remove(record.id), 404, 'not_found')
    const events = (await app.events()).filter(({ type }) => type === 'passkey.removed')
    expect(events.map(({ data }) => data)).toEqual([{ passkeyId: record.id, userId: ada.userId }])
    await expect(logIn(app.browser, ada.authenticator)).rejects.toThrow('401')
    const again = await register(app.browser, {}, { headers: ada.headers, authenticator: newAuthenticator() })
    expect(again.status).toBe(200)
  })

  test('the last one is refused, by a server too, unless the user can sign in by a messenger', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 1)
    const [id] = ada.ids as [string]
    expectError(await ada.remove(id), 409, 'last_sign_in_method')
    const headers = { 'x-user-id': ada.userId }
    expectError(await app.tenant.delete(`/auth/passkeys/${id}`, { headers }), 409, 'last_sign_in_method')
    await service.sql('update users set mfa_enabled = true where id = $1', [ada.userId])
    await service.recode()
    expectError(await app.tenant.delete(`/auth/passkeys/${id}`, { headers }), 409, 'last_sign_in_method')
    await service.sql(
      `insert into identities (tenant_id, app_id, provider, subject, user_id, created_at) values ($1, $2, 'telegram', '1', $3, now())`,
      [app.tenant.tenantId, app.tenant.appId, ada.userId],
    )
    expect((await app.tenant.delete(`/auth/passkeys/${id}`, { headers })).status).toBe(200)
    expect(await app.count('passkeys')).toBe(0)
  })

  test('a guest’s only passkey stays as well', async () => {
    const app = await newTestApp(service)
    const guest = (await app.send('POST', '/guests', {})).body.data
    const added = await register(app.browser, {}, { headers: bearer(guest) })
    const headers = bearer(added.body.data)
    const [passkey] = (await app.send('GET', '/auth/passkeys', undefined, headers)).body.data
    expectError(
      await app.send('DELETE', `/auth/passkeys/${passkey.id}`, undefined, headers),
      409,
      'last_sign_in_method',
    )
  })

  test('all of twenty at once leaves one', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 20)
    const answers = await Promise.all(ada.ids.map(ada.remove))
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(19).fill(200), 409])
    expect((await ada.list()).body.total).toBe(1)
    expect((await app.events()).filter(({ type }) => type === 'passkey.removed')).toHaveLength(19)
  })

  test('one, twenty times at once, removes it once', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 2)
    const answers = await Promise.all(Array.from({ length: 20 }, () => ada.remove(ada.ids[0] as string)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(404)])
  })

  test('at once with sign-ins by the same passkey never fails for want of a lock', async () => {
    const app = await newTestApp(service)
    for (let round = 0; round < 3; round += 1) {
      const { authenticator } = await signUp(app.browser)
      const first = await logIn(app.browser, authenticator)
      const more = await register(app.browser, {}, { headers: bearer(first) })
      const headers = bearer(more.body.data)
      const ids = (await app.send('GET', '/auth/passkeys', undefined, headers)).body.data
      const options = await Promise.all(
        Array.from({ length: 20 }, async () => (await app.send('GET', '/auth/passkey/login-options')).body.data),
      )
      const logins = options.map((asked) =>
        app.send('POST', '/auth/passkey/login-verify', {
          challengeId: asked.challengeId,
          credential: authenticator.get(asked.publicKey),
        }),
      )
      const removed = app.send('DELETE', `/auth/passkeys/${ids[1].id}`, undefined, headers)
      const statuses = (await Promise.all([...logins, removed])).map(({ status }) => status)
      for (const status of statuses) expect([200, 401]).toContain(status)
      const shown = 'select 1 from sessions where tenant_id = $1 and passkey_at is not null'
      expect(await service.sql(shown, [app.tenant.tenantId]), 'no sign-in overtook the removal').toEqual([])
    }
  })

  test('a stolen token removes none: it takes a recent sign-in, or a recent second factor', async () => {
    const app = await newTestApp(service)
    const ada = await userWith(app, 2)
    service.advance(5 * MINUTE_MS + 1)
    expectError(await ada.remove(ada.ids[0] as string), 403, 'reauthentication_required')
    expectError(await ada.remove('pky_00000000000000000000000000'), 404, 'not_found')
    await service.sql('update users set mfa_enabled = true where id = $1', [ada.userId])
    await service.recode()
    expectError(await ada.remove(ada.ids[0] as string), 403, 'mfa_required')
    await app.tenant.patch(`/apps/${app.tenant.appId}`, { mfa: { policy: 'always' } })
    await service.sql('update users set mfa_enabled = false where id = $1', [ada.userId])
    await service.recode()
    expectError(await ada.remove(ada.ids[0] as string), 403, 'mfa_enrollment_required')
    expect((await ada.list()).body.total).toBe(2)
  })
})

describe('/.well-known/webauthn', () => {
  const ask = async (url: string, host: string) => {
    const [answer] = await sendBytes(
      url,
      [`GET /.well-known/webauthn HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`],
      (answers) => answers.length === 1,
    )
    expect(answer?.status, answer?.body).toBe(200)
    expect(answer?.headers['content-type']).toMatch(/^application\/json\b/)
    return JSON.parse(answer?.body ?? '')
  }

  test('tells, without a key, where else the passkeys of its host may be used', async () => {
    const app = await newTestApp(service)
    const other = await service.newTenant()
    const origins = ['https://shop.example.com', 'https://pay.example.org']
    const settings = { passkey: { rpId: 'shop.localhost' }, allowedOrigins: origins }
    await app.tenant.patch(`/apps/${app.tenant.appId}`, settings)
    const theirs = { ...settings, allowedOrigins: ['https://shop.example.net', 'https://shop.example.com'] }
    await other.patch(`/apps/${other.appId}`, theirs)
    // The tenant that named it first speaks for it, and no other.
    const expected = { origins: ['https://pay.example.org', 'https://shop.example.com'] }
    expect(await ask(service.url, 'shop.localhost')).toEqual(expected)
    expect(await ask(service.url, 'SHOP.localhost:8443')).toEqual(expected)
    expect(await ask(service.url, 'nobody.localhost')).toEqual({ origins: [] })
    expect(await ask(service.url, 'localhost')).toEqual({ origins: [] })
  })

  test('counts apps that name no relying party as the service’s own, and lists https alone in production', async () => {
    const own = await startService({ HALFKEY_PUBLIC_URL: 'https://id.example.com', HALFKEY_INSECURE_DEV: '1' })
    try {
      const tenant = own.admin
      const stranger = await own.newTenant()
      await stranger.patch(`/apps/${stranger.appId}`, { allowedOrigins: ['https://secret.example.org'] })
      const allowedOrigins = ['https://a.example.org', 'http://localhost:3000']
      const saved = await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins })
      expect(saved.status, saved.text).toBe(200)
      expect(await ask(own.url, 'id.example.com')).toEqual({
        origins: ['http://localhost:3000', 'https://a.example.org'],
      })
      expect(await ask(own.url, 'example.com')).toEqual({ origins: [] })
      const config = { ...own.deps.config, env: 'production' as const }
      const origin = { requestId: 'test', address: '127.0.0.1', userAgent: null, webOrigin: null, actor: null }
      const request = {
        method: 'GET',
        path: '/.well-known/webauthn',
        origin,
        authorization: undefined,
        host: 'id.example.com',
        address: '127.0.0.1',
        queryText: '',
        headers: {},
        body: Buffer.alloc(0),
        ask: () => Promise.reject(new Error('nothing is asked inside')),
      }
      const answer = await relatedOriginsOf({ ...own.deps, config }, request)
      expect(JSON.parse(String(answer.body))).toEqual({ origins: ['https://a.example.org'] })
    } finally {
      await own.stop()
    }
  })

  test('lists a hundred origins at most, and withstands any host', async () => {
    const tenant = await service.newTenant()
    const appIds = [tenant.appId, (await tenant.post('/apps', { name: 'Other' })).body.data.id]
    for (const [index, id] of appIds.entries()) {
      const allowedOrigins = Array.from({ length: 80 }, (_, at) => `https://a${index}-${at}.example.com`)
      await tenant.patch(`/apps/${id}`, { allowedOrigins, passkey: { rpId: 'many.localhost' } })
    }
    expect((await ask(service.url, 'many.localhost')).origins).toHaveLength(100)
    for (const host of [`'or'1'='1.localhost`, '%00.localhost', `${'a'.repeat(4_000)}.localhost`, '[::1]']) {
      const [answer] = await sendBytes(
        service.url,
        [`GET /.well-known/webauthn HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`],
        (answers) => answers.length === 1,
      )
      expect([200, 400], `${host.slice(0, 40)} ${answer?.body}`).toContain(answer?.status)
    }
    expect((await call(service.url, 'GET', '/.well-known/webauthn')).status).toBe(200)
  })
})
