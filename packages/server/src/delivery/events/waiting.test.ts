import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { createUser } from '../engine/delivery.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** Where the feed stands once all that was caused so far is in it. */
async function settledEnd(tenant: Tenant): Promise<string> {
  await eventually('an empty outbox', async () => {
    const rows = await service.sql('select from outbox where tenant_id = $1', [tenant.tenantId])
    return rows.length === 0
  })
  return (await tenant.get('/events?last=0')).body.data.nextCursor
}

const idsOf = (answer: Answer): string[] =>
  answer.body.data.events.map((event: { data: { userId: string } }) => event.data.userId)

test('more calls wait than there are connections, others are answered meanwhile, and one event answers them all', async () => {
  const tenant = await service.newTenant()
  const end = await settledEnd(tenant)
  const waiting = Array.from({ length: 60 }, () => tenant.get(`/events?after=${end}&wait=30`))
  let answered = 0
  for (const call of waiting)
    call.then(() => {
      answered += 1
    })
  for (let at = 0; at < 20; at += 1) expect((await tenant.get('/users')).status).toBe(200)
  expect(answered).toBe(0)
  const userId = await createUser(tenant)
  for (const answer of await Promise.all(waiting)) expect(idsOf(answer)).toEqual([userId])
})

test('a call waits for what it asked for, not for other events', async () => {
  const tenant = await service.newTenant()
  const end = await settledEnd(tenant)
  const waiting = tenant.get(`/events?after=${end}&wait=30&type=user.deleted`)
  const userId = await createUser(tenant)
  await settledEnd(tenant)
  await tenant.delete(`/users/${userId}`)
  const { events } = (await waiting).body.data
  expect(events.map(({ type }: { type: string }) => type)).toEqual(['user.deleted'])
})

test('a wait that ends without an event answers where to go on', async () => {
  const tenant = await service.newTenant()
  const end = await settledEnd(tenant)
  const { data } = (await tenant.get(`/events?after=${end}&wait=1`)).body
  expect(data).toEqual({ events: [], nextCursor: end, hasMore: false, missed: false })
})

test('a hundred calls of a tenant may wait; the next one is told to come back, and other tenants still wait', async () => {
  const tenant = await service.newTenant()
  const other = await service.newTenant()
  const [end, otherEnd] = [await settledEnd(tenant), await settledEnd(other)]
  const calls = Array.from({ length: 101 }, () => tenant.get(`/events?after=${end}&wait=30`))
  const refused = await Promise.race(calls)
  expectError(refused, 429, 'rate_limited')
  expect(refused.headers.get('retry-after')).toBe('5')
  const elsewhere = other.get(`/events?after=${otherEnd}&wait=30`)
  const [userId, otherId] = [await createUser(tenant), await createUser(other)]
  const answers = (await Promise.all(calls)).filter(({ status }) => status === 200)
  expect(answers).toHaveLength(100)
  for (const answer of answers) expect(idsOf(answer)).toEqual([userId])
  expect(idsOf(await elsewhere)).toEqual([otherId])
})

test('a key that is revoked while its call waits gets nothing', async () => {
  const tenant = await service.newTenant()
  const made = (await tenant.post('/api-keys', { name: 'x', type: 'secret', scopes: ['webhooks:read'] })).body.data
  const end = await settledEnd(tenant)
  const waiting = tenant.get(`/events?after=${end}&wait=30`, { key: made.key })
  // Waits for sure once a second one, asked for later, is answered.
  await tenant.get(`/events?after=${end}&wait=1`, { key: made.key })
  await tenant.delete(`/api-keys/${made.id}`)
  expectError(await waiting, 401, 'api_key_invalid')
})

test('a service that stops answers who waits, and ends', async () => {
  const stopping = await startService()
  await eventually('an empty outbox', async () => (await stopping.sql('select from outbox')).length === 0)
  const end = (await stopping.admin.get('/events?last=0')).body.data.nextCursor
  const waiting = stopping.admin.get(`/events?after=${end}&wait=30`)
  await stopping.admin.get(`/events?after=${end}&wait=1`)
  const from = performance.now()
  const stopped = stopping.stop()
  expect((await waiting).status).toBe(200)
  await stopped
  // Not after the half minute for which it was asked.
  expect(performance.now() - from).toBeLessThan(25_000)
})
