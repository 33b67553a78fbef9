import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { sql } from '../../platform/db/db.ts'
import { forgetApps } from '../../tenancy/apps/service.ts'
import { bearer, eventsOf, type Json, newGuest, statusCounts } from './guests.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const convert = (tenant: Tenant, id: string, body: object = { externalId: 'c-1' }, options: object = {}) =>
  tenant.post(`/guests/${id}/convert`, body, options)

async function newShop(): Promise<{ tenant: Tenant; browser: string; guest: Json; own: object }> {
  const tenant = await service.newTenant()
  const browser = await tenant.newKey({ publishable: true })
  const guest = await newGuest(tenant, { metadata: { cart: '7' } }, browser)
  return { tenant, browser, guest, own: { key: browser, headers: bearer(guest) } }
}

const claims = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString())

test('by its own token a guest becomes a user who keeps id, party and session, and is told of as created now', async () => {
  const { tenant, browser, guest, own } = await newShop()
  const body = { email: ' Ada@Example.com', name: 'Ada', externalId: 'c-1', metadata: { plan: 'gold' } }
  const answer = await convert(tenant, guest.id, body, own)
  expect(answer.status, answer.text).toBe(200)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const { guest: after, user, ...tokens } = answer.body.data
  expect(after).toMatchObject({
    id: guest.id,
    status: 'converted',
    metadata: { cart: '7' },
    expiresAt: guest.expiresAt,
  })
  expect(user).toMatchObject({
    id: guest.userId,
    partyId: guest.partyId,
    appId: tenant.appId,
    email: 'Ada@Example.com',
    emailVerified: false,
    name: 'Ada',
    externalId: 'c-1',
    status: 'active',
    metadata: { plan: 'gold' },
  })
  expect(Object.keys(tokens)).toEqual(['accessToken', 'refreshToken', 'tokenType', 'expiresInSeconds', 'sessionId'])
  expect(tokens.sessionId).toBe(guest.sessionId)
  expect(claims(guest.accessToken).ends).toBeTypeOf('number')
  expect(claims(tokens.accessToken).ends).toBeUndefined()
  expect((await tenant.get('/users')).body).toMatchObject({ data: [user], total: 1 })
  expect((await tenant.get('/users?search=ada@example')).body.total).toBe(1)
  expect(await eventsOf(service, tenant, 'user.created')).toEqual([
    { userId: user.id, email: 'Ada@Example.com', partyId: guest.partyId },
  ])
  expect(await eventsOf(service, tenant, 'guest.converted')).toEqual([{ guestId: guest.id, userId: user.id }])
  // The guest's end is nobody's any more: neither the new tokens' nor the old ones'.
  service.advance(1441 * MINUTE_MS)
  const refreshed = await tenant.post('/auth/refresh', { refreshToken: tokens.refreshToken }, { key: browser })
  expect(refreshed.status, refreshed.text).toBe(200)
  const options = { key: browser, headers: bearer(refreshed.body.data) }
  expect((await tenant.get(`/guests/${guest.id}`, options)).body.data.status).toBe('converted')
  expectError(await tenant.delete(`/guests/${guest.id}`, options), 409, 'already_converted')
  expect((await tenant.get('/auth/sessions', options)).status).toBe(200)
})

test('a token from before the conversion goes on to its own end, beyond that of the guest', async () => {
  const tenant = await service.newTenant()
  const browser = await tenant.newKey({ publishable: true })
  const guest = await newGuest(tenant, { ttlMinutes: 5 }, browser)
  const own = { key: browser, headers: bearer(guest) }
  expect((await convert(tenant, guest.id, undefined, own)).status).toBe(200)
  service.advance(6 * MINUTE_MS)
  expect((await tenant.get('/auth/sessions', own)).status).toBe(200)
})

test("a server's conversion answers a session of the user's own, beside the guest's", async () => {
  const { tenant, browser, guest, own } = await newShop()
  const bound = await tenant.newKey({ scopes: ['guests:write'], appId: tenant.appId })
  const answer = await convert(tenant, guest.id, { email: 'ada@example.com' }, { key: bound })
  expect(answer.status, answer.text).toBe(200)
  const { user, ...tokens } = answer.body.data
  expect(tokens.sessionId).not.toBe(guest.sessionId)
  expect(user).toMatchObject({ id: guest.userId, externalId: null, name: null, metadata: {} })
  expect(claims(tokens.accessToken)).toMatchObject({ sub: guest.userId, amr: ['guest'] })
  const sessions = await tenant.get('/auth/sessions', { key: browser, headers: bearer(tokens) })
  expect(sessions.body.data.map((one: Json) => one.id)).toEqual([tokens.sessionId, guest.sessionId])
  // The guest's end is over; it was never refreshed before that.
  service.advance(1450 * MINUTE_MS)
  const refreshed = await tenant.post('/auth/refresh', { refreshToken: guest.refreshToken }, own)
  expect(refreshed.status, refreshed.text).toBe(200)
  service.advance(11 * MINUTE_MS)
  const late = await tenant.get('/auth/sessions', { key: browser, headers: bearer(refreshed.body.data) })
  expect(late.status, late.text).toBe(200)
  expect(await eventsOf(service, tenant, 'user.signed_in')).toEqual([])
})

test('an email or an external id is needed, and what is given has to hold', async () => {
  const { tenant, guest, own } = await newShop()
  for (const body of [{}, { name: 'Ada' }, { email: null, externalId: null }, { metadata: { a: 'b' } }]) {
    const details = expectRefusal(await convert(tenant, guest.id, body, own), 'validation_failed', JSON.stringify(body))
    expect(details.map((detail) => detail.field)).toEqual(['email', 'externalId'])
  }
  const wrong: [object, string][] = [
    [{ email: 'nobody' }, 'email'],
    [{ email: 'a b@example.com' }, 'email'],
    [{ email: 7 }, 'email'],
    [{ externalId: '' }, 'externalId'],
    [{ externalId: 'x', name: '  ' }, 'name'],
    [{ externalId: 'x', name: 'x'.repeat(201) }, 'name'],
    [{ externalId: 'x', metadata: { a: 1 } }, 'metadata.a'],
    [{ externalId: 'x', metadata: { a: 'x'.repeat(17_000) } }, 'metadata'],
    [{ externalId: 'x', status: 'active' }, 'status'],
    [{ externalId: 'x', appId: tenant.appId }, 'appId'],
  ]
  for (const [body, field] of wrong) {
    const [detail] = expectRefusal(
      await convert(tenant, guest.id, body, own),
      'validation_failed',
      JSON.stringify(body),
    )
    expect(detail.field).toBe(field)
  }
  expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('active')
  expect(await eventsOf(service, tenant, 'user.created')).toEqual([])
})

test('an identity that another user has is refused, and the guest stays as it was', async () => {
  const { tenant, guest, own } = await newShop()
  await tenant.post('/users', { email: 'ada@example.com', externalId: 'c-1' })
  for (const [body, field] of [
    [{ email: 'ADA@example.com' }, 'email'],
    [{ email: 'eve@example.com', externalId: 'c-1' }, 'externalId'],
  ] as const) {
    const answer = await convert(tenant, guest.id, body, own)
    expectError(answer, 409, 'already_exists')
    expect(answer.body.details[0].field).toBe(field)
  }
  expect((await tenant.get(`/guests/${guest.id}`, own)).body.data.status).toBe('active')
  expect((await tenant.get('/users')).body.total).toBe(1)
  expect(await eventsOf(service, tenant, 'guest.converted')).toEqual([])
  expect((await tenant.get('/auth/sessions', own)).status).toBe(200)
  expect((await convert(tenant, guest.id, { email: 'eve@example.com' }, own)).status).toBe(200)
})

test('two guests who claim one identity at once: one of them gets it', async () => {
  const { tenant } = await newShop()
  const guests = await Promise.all(Array.from({ length: 20 }, () => newGuest(tenant)))
  const answers = await Promise.all(guests.map(({ id }) => convert(tenant, id, { email: 'one@example.com' })))
  expect(statusCounts(answers)).toEqual({ 200: 1, '409 already_exists': 19 })
  expect((await tenant.get('/users')).body.total).toBe(1)
  expect((await tenant.get('/guests?status=converted')).body.total).toBe(1)
})

test('as many conversions as there are connections go through, though nothing of their app is cached', async () => {
  const tenant = await service.newTenant()
  const guests = await Promise.all(
    Array.from({ length: 2 * service.deps.config.databaseConnections }, () => newGuest(tenant)),
  )
  forgetApps(service.deps)
  const answers = await Promise.all(guests.map(({ id }, i) => convert(tenant, id, { externalId: `m-${i}` })))
  expect(statusCounts(answers)).toEqual({ 200: guests.length })
})

describe('of twenty conversions at once one does it', () => {
  test('with different identities', async () => {
    const { tenant, guest, own } = await newShop()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => convert(tenant, guest.id, { externalId: `c-${i}` }, i % 2 === 0 ? own : {})),
    )
    expect(statusCounts(answers)).toEqual({ 200: 1, '409 already_converted': 19 })
    const winner = answers.find((answer) => answer.status === 200)
    expect((await tenant.get('/users')).body.data).toEqual([winner?.body.data.user])
    expect(await eventsOf(service, tenant, 'user.created')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'guest.converted')).toHaveLength(1)
  })

  test('with one identity', async () => {
    const { tenant, guest } = await newShop()
    const answers = await Promise.all(Array.from({ length: 20 }, () => convert(tenant, guest.id)))
    expect(statusCounts(answers)).toEqual({ 200: 1, '409 already_converted': 19 })
  })

  test('with one Idempotency-Key, which all get the answer of', async () => {
    const { tenant, guest, own } = await newShop()
    const headers = { ...(own as { headers: object }).headers, 'idempotency-key': 'convert-1' }
    const ask = () => convert(tenant, guest.id, undefined, { ...own, headers })
    const answers = await Promise.all(Array.from({ length: 20 }, ask))
    const counts = statusCounts(answers)
    expect(Object.keys(counts).filter((name) => !['200', '409 idempotency_in_progress'].includes(name))).toEqual([])
    const [first] = answers.filter((answer) => answer.status === 200)
    expect((await ask()).text).toBe(first?.text)
    expect(await eventsOf(service, tenant, 'guest.converted')).toHaveLength(1)
  })
})

test('converted is converted: again is 409, to end it is 409', async () => {
  const { tenant, guest, own } = await newShop()
  const tokens = (await convert(tenant, guest.id, undefined, own)).body.data
  for (const options of [{}, own, { ...own, headers: bearer(tokens) }]) {
    expectError(await convert(tenant, guest.id, { externalId: 'c-2' }, options), 409, 'already_converted')
    expectError(await tenant.delete(`/guests/${guest.id}`, options), 409, 'already_converted')
  }
  expect(await eventsOf(service, tenant, 'guest.expired')).toEqual([])
  expect((await tenant.get(`/users/${guest.userId}`)).body.data.externalId).toBe('c-1')
})

test('ended is ended: 410, be it by time or by hand, be it told by the guest or by a server', async () => {
  const { tenant, browser, guest, own } = await newShop()
  await tenant.delete(`/guests/${guest.id}`)
  const short = await newGuest(tenant, { ttlMinutes: 1 }, browser)
  service.advance(MINUTE_MS)
  for (const options of [own, {}])
    expectError(await convert(tenant, guest.id, undefined, options), 410, 'guest_expired')
  for (const options of [{ key: browser, headers: bearer(short) }, {}])
    expectError(await convert(tenant, short.id, undefined, options), 410, 'guest_expired')
  expect((await tenant.get('/users')).body.total).toBe(0)
})

test('a suspended guest is not converted', async () => {
  const { tenant, guest, own } = await newShop()
  await service.sql(`update users set status = 'suspended' where tenant_id = $1`, [tenant.tenantId])
  await service.recode()
  for (const options of [own, {}])
    expectError(await convert(tenant, guest.id, undefined, options), 403, 'user_suspended')
  expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('active')
})

test('who has logged out cannot convert with the old token', async () => {
  const { tenant, guest, own } = await newShop()
  expect((await tenant.post('/auth/logout', {}, own)).status).toBe(200)
  expectError(await convert(tenant, guest.id, undefined, own), 401, 'session_revoked')
  expectError(await tenant.get(`/guests/${guest.id}`, own), 401, 'session_revoked')
  expect((await convert(tenant, guest.id)).status).toBe(200)
})

test('a logout that comes between the check of the token and the conversion undoes the latter whole', async () => {
  const { tenant, guest, own } = await newShop()
  const waiting = () =>
    service.sql(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'from guests'`,
    )
  let converting: ReturnType<typeof convert> | undefined
  await service.deps.db.tx(async (tx) => {
    await tx.run(sql`select from guests where tenant_id = ${tenant.tenantId} and id = ${guest.id} for update`)
    converting = convert(tenant, guest.id, undefined, own)
    await eventually('the conversion waits', async () => (await waiting()).length === 1)
    expect((await tenant.post('/auth/logout', {}, own)).status).toBe(200)
  })
  expectError(await (converting as ReturnType<typeof convert>), 401, 'session_revoked')
  expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('active')
  expect((await tenant.get('/users')).body.total).toBe(0)
  expect(await eventsOf(service, tenant, 'user.created')).toEqual([])
})

test('conversions that race a logout or a deletion of the same guest leave one whole state each', async () => {
  const { tenant, browser } = await newShop()
  const races = Array.from({ length: 20 }, async (_, i) => {
    const guest = await newGuest(tenant, {}, browser)
    const own = { key: browser, headers: bearer(guest) }
    const end = i % 2 === 0 ? tenant.delete(`/guests/${guest.id}`, own) : tenant.post('/auth/logout', {}, own)
    const [converted, ended] = await Promise.all([convert(tenant, guest.id, { externalId: `r-${i}` }, own), end])
    return { guest, converted, ended, deletes: i % 2 === 0 }
  })
  for (const { guest, converted, ended, deletes } of await Promise.all(races)) {
    const { status } = (await tenant.get(`/guests/${guest.id}`)).body.data
    const user = await tenant.get(`/users/${guest.userId}`)
    if (converted.status === 200) {
      expect(status).toBe('converted')
      expect(user.status).toBe(200)
      if (deletes) expectError(ended, 409, 'already_converted')
    } else {
      if (deletes) expectError(converted, 410, 'guest_expired')
      else expectError(converted, 401, 'session_revoked')
      expect(status).toBe(deletes ? 'expired' : 'active')
      expectError(user, 404, 'not_found')
    }
  }
})

test('a deleted user takes the guest record along', async () => {
  const { tenant, guest, own } = await newShop()
  await convert(tenant, guest.id, undefined, own)
  expect((await tenant.delete(`/users/${guest.userId}`)).status).toBe(200)
  expectError(await tenant.get(`/guests/${guest.id}`), 404, 'not_found')
  expectError(await tenant.get(`/guests/${guest.id}`, own), 401, 'session_revoked')
})
