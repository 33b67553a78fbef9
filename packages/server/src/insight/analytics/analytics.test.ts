import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant, toMidMonth } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { expectStatus, newHolder, newSession, transfer, transfers } from '../../delegation/delegated.fixture.ts'
import { deliveriesIn, subscribe } from '../../delivery/engine/delivery.fixture.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { startSession } from '../../identity/sessions/service.ts'
import { newId } from '../../platform/ids.ts'
import { allFolded, analyticsWhen, recounted, zeros } from './analytics.fixture.ts'
import type { Counts } from './schema.ts'

const DAY_MS = 86_400_000

let service: Service
const receivers: Receiver[] = []
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '20ms' })
  toMidMonth(service)
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

async function newReceiver(status: number): Promise<Receiver> {
  const receiver = await startReceiver(answer(status))
  receivers.push(receiver)
  return receiver
}

/** As every way of signing in begins a session, once it knows who it is. */
async function signIn(tenant: Tenant, userId: string, method: 'passkey' | 'messenger', appId = tenant.appId) {
  await startSession(service.deps, {
    tenantId: tenant.tenantId as never,
    appId: appId as never,
    userId: userId as never,
    amr: ['hwk', 'user'],
    method,
    caller: { keyId: 'key_test' } as never,
    origin: { requestId: 'test', address: '203.0.113.7', userAgent: null, webOrigin: null, actor: null },
  })
}

const newUser = async (tenant: Tenant, appId = tenant.appId) =>
  expectStatus(await tenant.post('/users', { appId }), 201).id as string

describe('the answer', () => {
  test.each([
    ['7d', 7],
    ['30d', 30],
    ['90d', 90],
  ])('%s has %i days without a gap, today last, and zeros where nothing was', async (period, length) => {
    const tenant = await service.newTenant()
    const data = expectStatus(await tenant.get(`/analytics?period=${period}`), 200)
    const today = service.deps.now().toISOString().slice(0, 10)
    expect(Object.keys(data)).toEqual(['period', 'from', 'to', 'totals', 'series'])
    expect(data).toMatchObject({ period, to: today, totals: { ...zeros, apiRequests: data.totals.apiRequests } })
    const days = data.series.map(({ date }: { date: string }) => date)
    expect(days).toHaveLength(length)
    expect([days[0], days.at(-1)]).toEqual([data.from, today])
    days.forEach((day: string, index: number) => {
      const time = Date.parse(`${today}T00:00:00Z`) - (length - 1 - index) * DAY_MS
      expect(day).toBe(new Date(time).toISOString().slice(0, 10))
    })
    for (const { date, ...counts } of data.series.slice(0, -1)) expect(counts, date).toEqual(zeros)
  })

  test('without a period it is that of 30 days', async () => {
    const tenant = await service.newTenant()
    const data = expectStatus(await tenant.get('/analytics'), 200)
    expect([data.period, data.series.length]).toEqual(['30d', 30])
  })

  test.each([
    ['period=1d', 'period'],
    ['period=', 'period'],
    ['period=90D', 'period'],
    ['period=__proto__', 'period'],
    ['period=toString', 'period'],
    ['period=7d&period=7d', 'period'],
    ['from=2026-01-01', 'from'],
    ['appId=x', 'appId'],
    ['page=1', 'page'],
  ])('%s is refused by name', async (query, field) => {
    const tenant = await service.newTenant()
    const refused = await tenant.get(`/analytics?${query}`)
    expectError(refused, 400, 'validation_failed')
    expect(refused.body.details[0].field).toBe(field)
  })
})

describe('what counts', () => {
  test('users, guests, sign-ins and wallets, for their app and for the tenant, on the day of the event', async () => {
    const tenant = await service.newTenant()
    const other = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
    const [ada, bob] = [await newUser(tenant), await newUser(tenant, other)]
    await signIn(tenant, ada, 'passkey')
    await signIn(tenant, ada, 'messenger')
    await signIn(tenant, bob, 'passkey', other)
    expectStatus(await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': bob } }), 201)
    await newGuest(tenant)
    const guest = await newGuest(tenant, { appId: other })
    expectStatus(await tenant.post(`/guests/${guest.id}/convert`, { email: 'guest@example.com' }), 200)

    const expected = {
      newUsers: 3,
      activeUsers: 2,
      signIns: { passkey: 2, messenger: 1 },
      guests: 2,
      guestsConverted: 1,
      walletsCreated: 1,
    }
    await allFolded(service, tenant)
    const all = expectStatus(await tenant.get('/analytics'), 200)
    expect(all.totals).toMatchObject(expected)
    expect(all.series.at(-1)).toMatchObject(expected)
    expect(all.totals).toMatchObject(await recounted(service, tenant))

    const here = expectStatus(await tenant.get(`/analytics?app_id=${tenant.appId}`), 200)
    expect(here.totals).toMatchObject({
      newUsers: 1,
      activeUsers: 1,
      signIns: { passkey: 1, messenger: 1 },
      walletsCreated: 0,
    })
    const there = expectStatus(await tenant.get(`/analytics?app_id=${other}`), 200)
    expect(there.totals).toMatchObject({
      newUsers: 2,
      activeUsers: 1,
      signIns: { passkey: 1, messenger: 0 },
      guests: 1,
      guestsConverted: 1,
      walletsCreated: 1,
    })
  })

  test('transactions that are final or failed; whoever made them was active', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const holding = await ada.receive('100')
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
    expectStatus(await session.execute({ commands: [transfer(holding, '3')] }), 200)
    expect((await session.execute({ commands: [transfer(holding, '3')] })).status).toBeGreaterThanOrEqual(400)
    await allFolded(service, tenant)
    const done = expectStatus(await tenant.get('/analytics'), 200)
    expect(done.totals).toMatchObject({ ...(await recounted(service, tenant)), activeUsers: 1 })
    expect(done.totals.transactionsCompleted).toBe(1)
  })

  test('deliveries that a webhook took or that became dead letters, for the app of the event; no tests, nothing cancelled', async () => {
    const tenant = await service.newTenant()
    const other = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
    const [good, bad] = [await newReceiver(200), await newReceiver(500)]
    const [taking, failing, paused] = await Promise.all([
      subscribe(tenant, good.url),
      subscribe(tenant, bad.url),
      subscribe(tenant, good.url),
    ])
    await tenant.patch(`/webhooks/${paused.id}`, { status: 'paused' })
    await newUser(tenant)
    await newUser(tenant, other)
    await newUser(tenant, other)
    await deliveriesIn(tenant, taking.id, 'succeeded', 3)
    const dead = await deliveriesIn(tenant, failing.id, 'dead_letter', 3)
    await tenant.post(`/webhooks/${taking.id}/test`)
    await tenant.post(`/webhooks/${failing.id}/test`)
    await deliveriesIn(tenant, taking.id, 'succeeded', 4)
    await deliveriesIn(tenant, failing.id, 'failed', 1)
    expect((await tenant.delete(`/webhooks/${paused.id}`)).status).toBe(200)
    await eventually('the paused one is cancelled', async () => {
      const rows = await service.sql(`select 1 from deliveries_done where webhook_id = $1 and status = 'cancelled'`, [
        paused.id,
      ])
      return rows.length === 3
    })
    const counted = (totals: Counts) => [totals.deliveriesSucceeded, totals.deliveriesFailed]
    await eventually('all increments are counted', async () => {
      const left = `select 1 from counter_increments where tenant_id = $1 and metric <> 'api_requests'`
      return (await service.sql(left, [tenant.tenantId])).length === 0
    })
    const all = await analyticsWhen(tenant, '', (totals) => counted(totals).join() === '3,3')
    expect(counted(all.totals)).toEqual([3, 3])
    const there = await analyticsWhen(tenant, `app_id=${other}`, (totals) => counted(totals).join() === '2,2')
    expect(counted(there.totals)).toEqual([2, 2])

    // Each time that a delivery ends counts: what is retried and taken then has failed once and succeeded once.
    bad.behave(answer(200))
    expect((await tenant.post(`/webhooks/${failing.id}/deliveries/${dead[0].id}/retry`)).status).toBe(200)
    const retried = await analyticsWhen(tenant, '', (totals) => totals.deliveriesSucceeded === 4)
    expect(counted(retried.totals)).toEqual([4, 3])
  })

  test('what a disabled webhook misses, or still had to get, is a dead letter and counts as one', async () => {
    const tenant = await service.newTenant()
    const { url } = await newReceiver(200)
    const { id } = await subscribe(tenant, url)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    await newUser(tenant)
    await deliveriesIn(tenant, id, 'pending', 1)
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    await deliveriesIn(tenant, id, 'dead_letter', 1)
    await newUser(tenant)
    await deliveriesIn(tenant, id, 'dead_letter', 2)
    const done = await analyticsWhen(tenant, `app_id=${tenant.appId}`, (totals) => totals.deliveriesFailed === 2)
    expect(done.totals.deliveriesSucceeded).toBe(0)
  })

  test('what is lost with its workers for good counts as a dead letter', async () => {
    const tenant = await service.newTenant()
    const { url } = await newReceiver(200)
    const { id } = await subscribe(tenant, url)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    await newUser(tenant)
    await deliveriesIn(tenant, id, 'pending', 1)
    await service.sql(
      `update deliveries set leases_lost = 9, lease_id = 'nobody/1', lease_until = now() - interval '1 second' where webhook_id = $1`,
      [id],
    )
    await deliveriesIn(tenant, id, 'dead_letter', 1)
    const done = await analyticsWhen(tenant, `app_id=${tenant.appId}`, (totals) => totals.deliveriesFailed === 1)
    expect(done.totals.deliveriesSucceeded).toBe(0)
  })

  test('every request under /v1 with a valid key, whatever it was answered: by the app of the key, or the tenant', async () => {
    const tenant = await service.newTenant()
    const other = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
    const bound = await tenant.newKey({ scopes: ['users:read'], appId: other })
    for (const path of ['/users', '/users/unknown', '/nowhere', '/users?page=0', '/tenant', '/healthz'])
      await tenant.get(path, { key: bound })
    await Promise.all(Array.from({ length: 20 }, () => tenant.get('/users', { key: bound })))
    for (const key of [null, 'hk_sk_nothing']) await tenant.get('/users', { key })
    const counted = async (query = '') =>
      expectStatus(await tenant.get(`/analytics?${query}`), 200).totals.apiRequests as number
    await eventually('all that the app had', async () => (await counted(`app_id=${other}`)) === 26)
    // Two calls made the app and the key; all others but the app's own are questions for these figures.
    const asked = await service.sql<{ n: number }>(
      `select api_requests::int as n from analytics_daily where tenant_id = $1 and app_id = ''`,
      [tenant.tenantId],
    )
    expect(asked[0]?.n).toBeGreaterThanOrEqual(28)
  })

  test('a user who is active on several days counts on each, and once in the total of a period that holds them', async () => {
    const own = await startService()
    toMidMonth(own)
    try {
      const tenant = await own.newTenant()
      const users = [await newUser(tenant), await newUser(tenant), await newUser(tenant)]
      const activeOn = async (...active: string[]) => {
        for (const userId of active) expectStatus(await tenant.patch(`/users/${userId}`, { name: newId('job') }), 200)
        for (const userId of active)
          await startSession(own.deps, {
            tenantId: tenant.tenantId as never,
            appId: tenant.appId as never,
            userId: userId as never,
            amr: [],
            method: 'passkey',
            caller: { keyId: 'key_test' } as never,
            origin: { requestId: 'test', address: '203.0.113.7', userAgent: null, webOrigin: null, actor: null },
          })
      }
      const totals = (period: string) => tenant.get(`/analytics?period=${period}`).then((got) => got.body.data)
      const signedIn = (n: number) =>
        eventually('all are folded', async () => (await totals('90d')).totals.signIns.passkey === n)
      await activeOn(users[0] as string, users[1] as string)
      await signedIn(2)
      own.advance(DAY_MS)
      await activeOn(users[0] as string, users[0] as string)
      await signedIn(4)
      own.advance(9 * DAY_MS)
      await activeOn(users[2] as string)
      await signedIn(5)
      const all = await totals('30d')
      expect(all.series.map((day: Counts) => day.activeUsers).filter(Boolean)).toEqual([2, 1, 1])
      expect(all.totals.activeUsers).toBe(3)
      expect((await totals('7d')).totals.activeUsers).toBe(1)
      own.advance(80 * DAY_MS)
      // The first day has left the longest period; who was active on the second counts there.
      expect((await totals('90d')).totals.activeUsers).toBe(2)
    } finally {
      await own.stop()
    }
  })
})

describe('whose figures', () => {
  test('a key that is bound to an app sees that one alone; every other app is the same 404', async () => {
    const [tenant, stranger] = [await service.newTenant(), await service.newTenant()]
    const own = expectStatus(await tenant.post('/apps', { name: 'Own' }), 201).id as string
    await newUser(tenant)
    await newUser(tenant, own)
    await analyticsWhen(tenant, '', (totals) => totals.newUsers === 2)
    const bound = await tenant.newKey({ scopes: ['analytics:read'], appId: own })
    expect(expectStatus(await tenant.get('/analytics', { key: bound }), 200).totals.newUsers).toBe(1)
    const named = await tenant.get(`/analytics?app_id=${own}`, { key: bound })
    expect(expectStatus(named, 200).totals.newUsers).toBe(1)

    const wide = await tenant.newKey({ scopes: ['analytics:read'] })
    const texts = new Set<string>()
    const strange = [stranger.appId, newId('app'), 'app_x', '', "' OR 1=1 --", tenant.tenantId]
    for (const [key, appIds] of [
      [bound, [tenant.appId, ...strange]],
      [wide, strange],
    ] as const) {
      for (const appId of appIds) {
        const refused = await tenant.get(`/analytics?app_id=${encodeURIComponent(appId)}`, { key })
        expectError(refused, 404, 'not_found')
        expect(refused.body.details[0].field).toBe('app_id')
        texts.add(refused.text)
      }
    }
    expect(texts.size).toBe(1)
  })

  test('nothing of one tenant is counted for another', async () => {
    const [tenant, stranger] = [await service.newTenant(), await service.newTenant()]
    await newUser(tenant)
    await analyticsWhen(tenant, '', (totals) => totals.newUsers === 1)
    const { totals } = expectStatus(await stranger.get('/analytics'), 200)
    expect(totals).toEqual({ ...zeros, apiRequests: totals.apiRequests })
  })
})

test('whatever happened above was folded without an error', () => {
  expect(service.logs()).not.toMatch(
    /a maintenance task failed|could not process its feeds|request counts could not be written yet/,
  )
})
