import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loginOptions, loginVerify, newAuthenticator, register } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { bearer, eventsOf, type Json, newGuest, statusCounts } from './guests.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function cleanUp(tenant: Tenant, body?: object, key = tenant.key) {
  const answer = await tenant.post('/guests/cleanup', body, { key })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

const statusOf = async (tenant: Tenant, guest: { id: string }) =>
  (await tenant.get(`/guests/${guest.id}`)).body.data.status

describe('the cleanup', () => {
  test('ends those whose time is over, once, and tells of each', async () => {
    const tenant = await service.newTenant()
    const browser = await tenant.newKey({ publishable: true })
    const over = [await newGuest(tenant, { ttlMinutes: 1 }, browser), await newGuest(tenant, { ttlMinutes: 2 })]
    const converted = await newGuest(tenant, { ttlMinutes: 1 })
    await tenant.post(`/guests/${converted.id}/convert`, { externalId: 'c-1' })
    service.advance(2 * MINUTE_MS)
    const young = await newGuest(tenant)
    expect(await cleanUp(tenant, { dryRun: true })).toEqual({ expired: 2, hasMore: false })
    expect(await eventsOf(service, tenant, 'guest.expired')).toEqual([])
    expect(await cleanUp(tenant)).toEqual({ expired: 2, hasMore: false })
    expect(await cleanUp(tenant, {})).toEqual({ expired: 0, hasMore: false })
    expect(await eventsOf(service, tenant, 'guest.expired')).toEqual(
      over.map(({ id, userId }) => ({ guestId: id, userId })),
    )
    expect(await statusOf(tenant, converted)).toBe('converted')
    expect(await statusOf(tenant, young)).toBe('active')
    const own = { key: browser, headers: bearer(over[0]) }
    expect((await tenant.get(`/guests/${over[0].id}`, own)).body.data.status).toBe('expired')
    const refresh = { refreshToken: over[0].refreshToken }
    expectError(await tenant.post('/auth/refresh', refresh, { key: browser }), 410, 'guest_expired')
  })

  test('ends those that are so old, their time over or not; 0 minutes means all', async () => {
    const tenant = await service.newTenant()
    const browser = await tenant.newKey({ publishable: true })
    const old = await newGuest(tenant, {}, browser)
    service.advance(10 * MINUTE_MS)
    const young = await newGuest(tenant, {}, browser)
    expect(await cleanUp(tenant, { olderThanMinutes: 11 })).toEqual({ expired: 0, hasMore: false })
    expect(await cleanUp(tenant, { olderThanMinutes: 10, dryRun: true })).toEqual({ expired: 1, hasMore: false })
    expect(await cleanUp(tenant, { olderThanMinutes: 10 })).toEqual({ expired: 1, hasMore: false })
    expect([await statusOf(tenant, old), await statusOf(tenant, young)]).toEqual(['expired', 'active'])
    expect(await cleanUp(tenant, { olderThanMinutes: 0 })).toEqual({ expired: 1, hasMore: false })
    const answer = await tenant.get('/auth/sessions', { key: browser, headers: bearer(young) })
    expectError(answer, 410, 'guest_expired')
    expectError(await tenant.post(`/guests/${young.id}/convert`, { externalId: 'y' }), 410, 'guest_expired')
  })

  test("a bound key ends its app's guests alone, and nobody another tenant's", async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const app = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const [here, there] = [await newGuest(tenant), await newGuest(tenant, { appId: app })]
    const theirs = await newGuest(other)
    const bound = await tenant.newKey({ scopes: ['guests:write'], appId: app })
    expect(await cleanUp(tenant, { olderThanMinutes: 0 }, bound)).toEqual({ expired: 1, hasMore: false })
    expect([await statusOf(tenant, here), await statusOf(tenant, there)]).toEqual(['active', 'expired'])
    expect(await cleanUp(tenant, { olderThanMinutes: 0 })).toEqual({ expired: 1, hasMore: false })
    expect(await statusOf(other, theirs)).toBe('active')
  })

  test('is for servers with guests:write alone, and refuses what it does not know', async () => {
    const tenant = await service.newTenant()
    const browser = await tenant.newKey({ publishable: true })
    const guest = await newGuest(tenant)
    const post = (body: object, options: object = {}) => tenant.post('/guests/cleanup', body, options)
    const body = { olderThanMinutes: 0 }
    expectError(await post(body, { key: browser, headers: bearer(guest) }), 403, 'key_type_not_allowed')
    expectError(await post(body, { key: await tenant.newKey({ scopes: ['guests:read'] }) }), 403, 'insufficient_scope')
    for (const olderThanMinutes of [-1, 1.5, '0', null, 5_256_001])
      expect(expectRefusal(await post({ olderThanMinutes }), 'validation_failed')[0].field).toBe('olderThanMinutes')
    expectRefusal(await post({ dryRun: 'false' }), 'validation_failed')
    expectRefusal(await post({ tenantId: tenant.tenantId }), 'validation_failed')
    expect(await statusOf(tenant, guest)).toBe('active')
  })

  test('ends a thousand a call, and says that there are more', async () => {
    const tenant = await service.newTenant()
    await newGuest(tenant)
    await service.sql(
      `with made as (
         insert into users (tenant_id, id, app_id, party_id, guest, search_text, created_at, updated_at)
         select tenant_id, 'usr_many' || n, app_id, 'p' || n, true, '', created_at, updated_at
         from users, generate_series(1, 1004) as n where tenant_id = $1 returning *)
       insert into guests (tenant_id, id, app_id, user_id, party_id, status, expires_at, created_at, updated_at)
       select tenant_id, 'gst_many' || id, app_id, id, party_id, 'active', created_at, created_at, created_at from made`,
      [tenant.tenantId],
    )
    const body = { olderThanMinutes: 0 }
    expect(await cleanUp(tenant, { ...body, dryRun: true })).toEqual({ expired: 1005, hasMore: true })
    expect(await cleanUp(tenant, body)).toEqual({ expired: 1000, hasMore: true })
    expect(await cleanUp(tenant, body)).toEqual({ expired: 5, hasMore: false })
    expect(await eventsOf(service, tenant, 'guest.expired')).toHaveLength(1005)
  })

  test('cleanups at once end each guest once', async () => {
    const tenant = await service.newTenant()
    await Promise.all(Array.from({ length: 30 }, () => newGuest(tenant)))
    const done = await Promise.all(Array.from({ length: 20 }, () => cleanUp(tenant, { olderThanMinutes: 0 })))
    expect(done.reduce((sum, { expired }) => sum + expired, 0)).toBe(30)
    expect(await eventsOf(service, tenant, 'guest.expired')).toHaveLength(30)
  })

  test('one that races conversions leaves each guest in exactly one state', async () => {
    const tenant = await service.newTenant()
    const guests = await Promise.all(Array.from({ length: 40 }, () => newGuest(tenant)))
    const conversions = guests.map(({ id }, i) => tenant.post(`/guests/${id}/convert`, { externalId: `c-${i}` }))
    const [answers, ...cleanups] = await Promise.all([
      Promise.all(conversions),
      ...Array.from({ length: 5 }, () => cleanUp(tenant, { olderThanMinutes: 0 })),
    ])
    const counts = statusCounts(answers)
    const converted = counts[200] ?? 0
    const refused = counts['410 guest_expired'] ?? 0
    expect(converted + refused, JSON.stringify(counts)).toBe(40)
    expect(cleanups.reduce((sum, { expired }) => sum + expired, 0)).toBe(refused)
    for (const [i, { id, userId }] of guests.entries()) {
      const done = answers[i]?.status === 200
      expect((await tenant.get(`/guests/${id}`)).body.data.status).toBe(done ? 'converted' : 'expired')
      expect((await tenant.get(`/users/${userId}`)).status).toBe(done ? 200 : 404)
    }
    expect(await eventsOf(service, tenant, 'guest.expired')).toHaveLength(refused)
    expect(await eventsOf(service, tenant, 'guest.converted')).toHaveLength(converted)
    expect(await eventsOf(service, tenant, 'user.created')).toHaveLength(converted)
  })

  test('under an Idempotency-Key a repeat ends nothing more', async () => {
    const tenant = await service.newTenant()
    await newGuest(tenant)
    const post = () =>
      tenant.post('/guests/cleanup', { olderThanMinutes: 0 }, { headers: { 'idempotency-key': 'cleanup-1' } })
    const first = await post()
    expect(first.body.data).toEqual({ expired: 1, hasMore: false })
    const late = await newGuest(tenant)
    expect((await post()).text).toBe(first.text)
    expect(await statusOf(tenant, late)).toBe('active')
  })
})

test('a worker ends guests when their time is over, with an event each, and deletes nothing', async () => {
  const whole = await startService()
  try {
    const tenant = await whole.newTenant()
    const guests: Json[] = []
    for (let round = 0; round < 26; round += 1)
      guests.push(...(await Promise.all(Array.from({ length: 5 }, () => newGuest(tenant, { ttlMinutes: 5 })))))
    const [kept, converted] = [await newGuest(tenant, { ttlMinutes: 60 }), await newGuest(tenant, { ttlMinutes: 5 })]
    await tenant.post(`/guests/${converted.id}/convert`, { externalId: 'c-1' })
    whole.advance(5 * MINUTE_MS)
    const ended = await eventually('every guest is swept', async () => {
      const events = await eventsOf(whole, tenant, 'guest.expired')
      return events.length >= guests.length && events
    })
    expect(new Set(ended.map((data) => data.guestId))).toEqual(new Set(guests.map(({ id }) => id)))
    expect(ended).toHaveLength(guests.length)
    const rows = await whole.sql<{ status: string; n: string; live: string }>(
      `select g.status, count(*) as n, count(*) filter (where s.revoked_at is null) as live
       from guests g join sessions s on s.tenant_id = g.tenant_id and s.user_id = g.user_id and s.ends_at is not null
       where g.tenant_id = $1 group by g.status order by g.status`,
      [tenant.tenantId],
    )
    expect(rows).toEqual([
      { status: 'active', n: '1', live: '1' },
      { status: 'expired', n: '130', live: '0' },
    ])
    expect((await tenant.get(`/guests/${kept.id}`)).body.data.status).toBe('active')
    expect((await tenant.get(`/users/${converted.userId}`)).status).toBe(200)
    expect((await tenant.get('/guests')).body.total).toBe(132)
  } finally {
    await whole.stop()
  }
})

test('a guest that ends while signing in by passkey has no session left, whichever came first', async () => {
  for (let round = 0; round < 12; round += 1) {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const browser = { url: service.url, key }
    const guest = await newGuest(tenant)
    const authenticator = newAuthenticator()
    expect((await register(browser, {}, { authenticator, headers: bearer(guest) })).status).toBe(200)
    const asked = await Promise.all(Array.from({ length: 5 }, () => loginOptions(browser)))
    const answers = asked.map(({ challengeId, publicKey }) => [challengeId, authenticator.get(publicKey)] as const)
    const [ended, ...logins] = await Promise.all([
      tenant.delete(`/guests/${guest.id}`),
      ...answers.map(([challengeId, credential]) => loginVerify(browser, challengeId, credential)),
    ])
    expect(ended?.status).toBe(200)
    for (const login of logins) {
      if (login.status !== 200) continue
      const { refreshToken } = login.body.data
      expectError(await tenant.post('/auth/refresh', { refreshToken }, { key }), 410, 'guest_expired')
    }
    const live = await service.sql('select 1 from sessions where tenant_id = $1 and revoked_at is null', [
      tenant.tenantId,
    ])
    expect(live).toEqual([])
  }
})
