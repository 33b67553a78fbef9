import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { signIn } from '../../../test/matrix/requests.ts'
import { bearer, eventsOf, newGuest, statusCounts } from './guests.fixture.ts'

const MINUTE_MS = 60_000
const UNKNOWN = 'gst_01jb2m7x9kq4t8v6w0r3s5y1zd'

let service: Service
beforeAll(async () => {
  // Without a worker nothing is swept: a guest whose time is over is still as it was in the table.
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** A tenant with a browser's key. */
async function newShop(): Promise<{ tenant: Tenant; browser: string }> {
  const tenant = await service.newTenant()
  return { tenant, browser: await tenant.newKey({ publishable: true }) }
}

describe('beginning a guest session', () => {
  test('a burst that takes every connection of the database is answered all the same', async () => {
    const tenant = await service.newTenant()
    const answers = await Promise.all(Array.from({ length: 120 }, () => tenant.post('/guests')))
    expect(statusCounts(answers)).toEqual({ 201: 120 })
  })

  test('nothing is required: the record and the tokens stand beside each other, and guest.created tells of it', async () => {
    const tenant = await service.newTenant()
    const answer = await tenant.post('/guests')
    expect(answer.status, answer.text).toBe(201)
    const guest = answer.body.data
    expect(guest).toEqual({
      id: expect.stringMatching(/^gst_[0-9a-hjkmnp-tv-z]{26}$/),
      userId: expect.stringMatching(/^usr_[0-9a-hjkmnp-tv-z]{26}$/),
      partyId: expect.stringMatching(new RegExp(`^${guest.userId}::1220[0-9a-f]{64}$`)),
      appId: tenant.appId,
      status: 'active',
      expiresAt: expect.any(String),
      metadata: {},
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: guest.createdAt,
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      tokenType: 'Bearer',
      expiresInSeconds: 900,
      sessionId: expect.stringMatching(/^ses_/),
    })
    expect(Date.parse(guest.expiresAt) - Date.parse(guest.createdAt)).toBe(1440 * MINUTE_MS)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(await eventsOf(service, tenant, 'guest.created')).toEqual([
      { guestId: guest.id, userId: guest.userId, partyId: guest.partyId },
    ])
    expect(await eventsOf(service, tenant, 'user.created')).toEqual([])
    expect(await eventsOf(service, tenant, 'user.signed_in')).toEqual([])
  })

  test('lifetime and metadata are as asked for, within bounds', async () => {
    const tenant = await service.newTenant()
    for (const ttlMinutes of [1, 43_200]) {
      const guest = await newGuest(tenant, { ttlMinutes, metadata: { cart: '7' } })
      expect(Date.parse(guest.expiresAt) - Date.parse(guest.createdAt)).toBe(ttlMinutes * MINUTE_MS)
      expect(guest.metadata).toEqual({ cart: '7' })
    }
    for (const ttlMinutes of [0, -1, 43_201, 1.5, '60', null]) {
      const [detail] = expectRefusal(await tenant.post('/guests', { ttlMinutes }), 'validation_failed', `${ttlMinutes}`)
      expect(detail.field).toBe('ttlMinutes')
    }
    const large = { metadata: { a: 'x'.repeat(17_000) } }
    expect(expectRefusal(await tenant.post('/guests', large), 'validation_failed')[0].field).toBe('metadata')
    const many = { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, 'v'])) }
    expect(expectRefusal(await tenant.post('/guests', many), 'validation_failed')[0].field).toBe('metadata')
    for (const field of ['status', 'userId', 'partyId', 'expiresAt', 'tenantId'])
      expectRefusal(await tenant.post('/guests', { [field]: 'converted' }), 'validation_failed', field)
    expect(await eventsOf(service, tenant, 'guest.created')).toHaveLength(2)
  })

  test('it is begun in the app of the key, in the one that is named, or in the default one', async () => {
    const tenant = await service.newTenant()
    const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const bound = await tenant.newKey({ publishable: true, appId: other })
    expect((await newGuest(tenant)).appId).toBe(tenant.appId)
    expect((await newGuest(tenant, { appId: other })).appId).toBe(other)
    expect((await newGuest(tenant, {}, bound)).appId).toBe(other)
    const foreign = (await service.newTenant()).appId
    for (const [appId, key] of [
      [foreign, tenant.key],
      ['app_none', tenant.key],
      [tenant.appId, bound],
    ] as const) {
      const answer = await tenant.post('/guests', { appId }, { key })
      expectError(answer, 404, 'not_found', appId)
      expect(answer.body.details[0].field).toBe('appId')
    }
  })

  test('a browser begins one, whoever is signed in there, and no token stands for another tenant', async () => {
    const { tenant, browser } = await newShop()
    const first = await newGuest(tenant, {}, browser)
    const second = await tenant.post('/guests', {}, { key: browser, headers: bearer(first) })
    expect(second.status).toBe(201)
    expect(second.body.data.userId).not.toBe(first.userId)
    expectError(await tenant.get('/auth/sessions', { headers: { authorization: 'Bearer x' } }), 401, 'session_invalid')
    const other = await newShop()
    const sessions = await tenant.get('/auth/sessions', { key: other.browser, headers: bearer(first) })
    expectError(sessions, 404, 'not_found')
  })

  test('a repeat under one Idempotency-Key is the same guest', async () => {
    const tenant = await service.newTenant()
    const headers = { 'idempotency-key': 'guest-1' }
    const answers = [await tenant.post('/guests', {}, { headers }), await tenant.post('/guests', {}, { headers })]
    expect(answers[1]?.text).toBe(answers[0]?.text)
    expect((await tenant.get('/guests')).body.total).toBe(1)
    const kept = await service.sql<{ answer: Buffer }>('select answer from idempotency_keys where tenant_id = $1', [
      tenant.tenantId,
    ])
    expect(kept[0]?.answer.includes('refreshToken')).toBe(false)
  })

  test('no scope but guests:write begins one', async () => {
    const tenant = await service.newTenant()
    for (const scopes of [['guests:read'], ['users:write'], ['auth:write']]) {
      const key = await tenant.newKey({ scopes })
      expectError(await tenant.post('/guests', {}, { key }), 403, 'insufficient_scope')
    }
    await newGuest(tenant, {}, await tenant.newKey({ scopes: ['guests:write'] }))
  })
})

describe("a guest's session", () => {
  test('acts for its user, and lists hide that one', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, {}, browser)
    const sessions = await tenant.get('/auth/sessions', { key: browser, headers: bearer(guest) })
    expect(sessions.body.data).toMatchObject([
      { id: guest.sessionId, userId: guest.userId, current: true, methods: ['guest'], expiresAt: guest.expiresAt },
    ])
    expect((await tenant.get('/users')).body).toMatchObject({ data: [], total: 0 })
    expectError(await tenant.get(`/users/${guest.userId}`), 404, 'not_found')
    expectError(await tenant.patch(`/users/${guest.userId}`, { name: 'Eve' }), 404, 'not_found')
  })

  test('can be refreshed until the guest ends, and not after', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, { ttlMinutes: 30 }, browser)
    service.advance(29 * MINUTE_MS)
    const refreshed = await tenant.post('/auth/refresh', { refreshToken: guest.refreshToken }, { key: browser })
    expect(refreshed.status, refreshed.text).toBe(200)
    const use = () => tenant.get('/auth/sessions', { key: browser, headers: bearer(refreshed.body.data) })
    expect((await use()).status).toBe(200)
    service.advance(MINUTE_MS + 1)
    expectError(await use(), 410, 'guest_expired')
    const again = { refreshToken: refreshed.body.data.refreshToken }
    expectError(await tenant.post('/auth/refresh', again, { key: browser }), 410, 'guest_expired')
    const actsFor = await tenant.get('/auth/sessions', { headers: { 'x-user-id': guest.userId } })
    expectError(actsFor, 410, 'guest_expired')
  })
})

describe('reading and ending a guest session', () => {
  const calls: [name: string, (tenant: Tenant, id: string, options: object) => ReturnType<Tenant['get']>][] = [
    ['get', (tenant, id, options) => tenant.get(`/guests/${id}`, options)],
    ['delete', (tenant, id, options) => tenant.delete(`/guests/${id}`, options)],
    ['convert', (tenant, id, options) => tenant.post(`/guests/${id}/convert`, { externalId: `x-${id}` }, options)],
  ]

  test.each(calls)('%s: one 404, with nothing changed, for every guest that is not theirs who ask', async (_, ask) => {
    const { tenant, browser } = await newShop()
    const [guest, neighbour] = [await newGuest(tenant, {}, browser), await newGuest(tenant, {}, browser)]
    const user = await signIn(service, tenant)
    const otherApp = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const other = await newShop()
    const stranger = await newGuest(other.tenant, {}, other.browser)
    const reference = await ask(tenant, UNKNOWN, {})
    expectError(reference, 404, 'not_found')
    const refused: [string, string, object][] = [
      ['no token', guest.id, { key: browser }],
      ["another guest's token", guest.id, { key: browser, headers: bearer(neighbour) }],
      ["a user's token", guest.id, { key: browser, headers: bearer(user) }],
      ["another tenant's token", guest.id, { key: browser, headers: bearer(stranger) }],
      ["the token with another tenant's key", guest.id, { key: other.browser, headers: bearer(guest) }],
      [
        "the token with another app's key",
        guest.id,
        { key: await tenant.newKey({ publishable: true, appId: otherApp }), headers: bearer(guest) },
      ],
      ["another tenant's secret key", guest.id, { key: other.tenant.key }],
      ["another app's secret key", guest.id, { key: await tenant.newKey({ scopes: ['*'], appId: otherApp }) }],
      ['an unknown id, own token', UNKNOWN, { key: browser, headers: bearer(guest) }],
      ['nonsense', 'x', { key: browser, headers: bearer(guest) }],
      ["the user's id", guest.userId, { key: browser, headers: bearer(guest) }],
    ]
    for (const [what, id, options] of refused)
      expect(`${what}: ${(await ask(tenant, id, options)).text}`).toBe(`${what}: ${reference.text}`)
    expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('active')
    for (const headers of [{ authorization: 'Bearer x' }, { authorization: `${bearer(guest).authorization}x` }])
      expectError(await ask(tenant, guest.id, { key: browser, headers }), 401, 'session_invalid')
    const actAs = { key: browser, headers: { 'x-user-id': guest.userId } }
    expectError(await ask(tenant, guest.id, actAs), 403, 'key_type_not_allowed')
    expectError(
      await ask(tenant, guest.id, { key: await tenant.newKey({ scopes: ['users:write'] }) }),
      403,
      'insufficient_scope',
    )
    const late = await ask(tenant, guest.id, { key: browser, headers: bearer(guest) })
    expect(late.status, late.text).toBe(200)
  })

  test('an access token past its own end is a 401, not a way to ask', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, {}, browser)
    service.advance(16 * MINUTE_MS)
    const answer = await tenant.get(`/guests/${guest.id}`, { key: browser, headers: bearer(guest) })
    expectError(answer, 401, 'session_expired')
  })

  test('its own token and a server read the same, without the tokens', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, { metadata: { cart: '7' } }, browser)
    const { accessToken, refreshToken, tokenType, expiresInSeconds, sessionId, ...record } = guest
    const own = await tenant.get(`/guests/${guest.id}`, { key: browser, headers: bearer(guest) })
    expect(own.body).toEqual({ data: record })
    expect((await tenant.get(`/guests/${guest.id}`)).body).toEqual({ data: record })
  })

  test('ending it refuses its tokens at once, tells of it once, and leaves it readable by its own token', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, {}, browser)
    const own = { key: browser, headers: bearer(guest) }
    const ended = await tenant.delete(`/guests/${guest.id}`, own)
    expect(ended.status, ended.text).toBe(200)
    expect(ended.body.data).toMatchObject({ id: guest.id, status: 'expired' })
    expectError(await tenant.get('/auth/sessions', own), 410, 'guest_expired')
    expectError(await tenant.post('/auth/refresh', { refreshToken: guest.refreshToken }, own), 410, 'guest_expired')
    expect((await tenant.get(`/guests/${guest.id}`, own)).body).toEqual(ended.body)
    for (const options of [own, {}])
      expect((await tenant.delete(`/guests/${guest.id}`, options)).body).toEqual(ended.body)
    expect(await eventsOf(service, tenant, 'guest.expired')).toEqual([{ guestId: guest.id, userId: guest.userId }])
    expect(await eventsOf(service, tenant, 'session.revoked')).toEqual([])
  })

  test('twenty at once end it once', async () => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant)
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.delete(`/guests/${guest.id}`)))
    expect(statusCounts(answers)).toEqual({ 200: 20 })
    expect(await eventsOf(service, tenant, 'guest.expired')).toHaveLength(1)
  })

  test('one whose time is over says so before anything has swept it; ending it still tells of its end', async () => {
    const { tenant, browser } = await newShop()
    const guest = await newGuest(tenant, { ttlMinutes: 2 }, browser)
    const own = { key: browser, headers: bearer(guest) }
    service.advance(2 * MINUTE_MS)
    expect((await tenant.get(`/guests/${guest.id}`, own)).body.data.status).toBe('expired')
    expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('expired')
    expect(await eventsOf(service, tenant, 'guest.expired')).toEqual([])
    expect((await tenant.delete(`/guests/${guest.id}`, own)).body.data.status).toBe('expired')
    expect(await eventsOf(service, tenant, 'guest.expired')).toHaveLength(1)
  })
})

describe('the list', () => {
  test('is newest first, in pages, and filtered by what the wire says of the status', async () => {
    const tenant = await service.newTenant()
    const over = await newGuest(tenant, { ttlMinutes: 1 })
    service.advance(2 * MINUTE_MS)
    const [active, ended, converted] = [await newGuest(tenant), await newGuest(tenant), await newGuest(tenant)]
    await tenant.delete(`/guests/${ended.id}`)
    await tenant.post(`/guests/${converted.id}/convert`, { externalId: 'c-1' })
    const ids = async (query = '') => {
      const answer = await tenant.get(`/guests${query}`)
      expect(answer.status, answer.text).toBe(200)
      expect(answer.body.total).toBe(answer.body.data.length)
      return answer.body.data.map((guest: { id: string }) => guest.id)
    }
    expect(await ids()).toEqual([converted.id, ended.id, active.id, over.id])
    expect(await ids('?status=active')).toEqual([active.id])
    expect(await ids('?status=expired')).toEqual([ended.id, over.id])
    expect(await ids('?status=converted')).toEqual([converted.id])
    const second = await tenant.get('/guests?page=2&page_size=3')
    expect(second.body).toMatchObject({ data: [{ id: over.id }], total: 4, page: 2, pageSize: 3, hasMore: false })
    expect(second.text).not.toContain('Token')
    for (const query of ['status=gone', 'status=', 'page=0', 'app=1', 'status=active&status=active'])
      expectRefusal(await tenant.get(`/guests?${query}`), 'validation_failed', query)
  })

  test("shows a bound key its app's guests alone, and nobody another tenant's", async () => {
    const { tenant, browser } = await newShop()
    const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const [here, there] = [await newGuest(tenant), await newGuest(tenant, { appId: other })]
    await newGuest(await service.newTenant())
    const bound = await tenant.newKey({ scopes: ['guests:read'], appId: other })
    const ids = async (path: string, key = tenant.key) =>
      (await tenant.get(path, { key })).body.data.map((guest: { id: string }) => guest.id)
    expect(await ids('/guests')).toEqual([there.id, here.id])
    expect(await ids(`/guests?app_id=${other}`)).toEqual([there.id])
    expect(await ids('/guests', bound)).toEqual([there.id])
    expect(await ids(`/guests?app_id=${other}`, bound)).toEqual([there.id])
    for (const [appId, key] of [
      [tenant.appId, bound],
      [(await service.newTenant()).appId, tenant.key],
    ] as const) {
      const answer = await tenant.get(`/guests?app_id=${appId}`, { key })
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('app_id')
    }
    expectError(await tenant.get('/guests', { key: browser, headers: bearer(here) }), 403, 'key_type_not_allowed')
  })
})

test('an app takes its guests with it', async () => {
  const tenant = await service.newTenant()
  const app = (await tenant.post('/apps', { name: 'Pop-up' })).body.data.id
  const guest = await newGuest(tenant, { appId: app })
  expectError(await tenant.delete(`/apps/${app}`), 409, 'app_not_empty')
  expect((await tenant.delete(`/apps/${app}?force=true`)).status).toBe(200)
  expectError(await tenant.get(`/guests/${guest.id}`), 404, 'not_found')
})
