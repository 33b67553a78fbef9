import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService } from '../../test/harness.ts'
import { answer, type Receiver, startReceiver } from '../../test/receiver.ts'
import { stepRecovery } from './delivery-service.ts'
import {
  createUser,
  deliveriesIn,
  deliveriesOf,
  insertDeadLetters,
  jobEnded,
  subscribe,
} from './engine/delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const hour = 3_600_000
const anHourAgo = () => new Date(Date.now() - hour).toISOString()

describe.concurrent('the test event', () => {
  const isTest = (id: string) => (got: { event: { type: string; data: { webhookId: string } } }) =>
    got.event.type === 'webhook.test' && got.event.data.webhookId === id

  test('is sent once, to this webhook alone, and answered with the ended delivery', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, `${receiver.url}/tested`, { events: ['tx.completed'] })
    const other = await subscribe(tenant, `${receiver.url}/other`, { events: ['*'] })
    const tested = await tenant.post(`/webhooks/${id}/test`)
    expect(tested.status).toBe(200)
    expect(tested.body.data).toMatchObject({
      webhookId: id,
      eventType: 'webhook.test',
      status: 'succeeded',
      retryCount: 0,
      nextAttemptAt: null,
      attempts: [{ number: 0, statusCode: 200, error: null, responseSnippet: '' }],
    })
    const got = await receiver.until('the test', isTest(id))
    expect(got.path).toBe('/tested')
    expect(got.headers['x-service-event-id']).toBe(tested.body.data.eventId)
    expect(await deliveriesOf(tenant, id)).toEqual([tested.body.data])
    expect(await deliveriesOf(tenant, other.id)).toEqual([])
  })

  test('imitates any kind of the catalogue, and no other', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const tested = await tenant.post(`/webhooks/${id}/test`, { eventType: 'user.created' })
    expect(tested.body.data).toMatchObject({ eventType: 'user.created', status: 'succeeded' })
    const got = await receiver.until('it', (each) => each.event.id === tested.body.data.eventId)
    expect(Object.keys(got.event)).toEqual(['id', 'type', 'created_at', 'api_version', 'data'])
    expect(Object.keys(got.event.data).sort()).toEqual(['email', 'partyId', 'userId'])
    for (const body of [{ eventType: 'user.*' }, { eventType: 'x' }, { eventType: null }, { type: 'user.created' }]) {
      expect((await tenant.post(`/webhooks/${id}/test`, body)).status).toBe(400)
    }
  })

  test('that fails is not repeated, is no dead letter and cannot be retried', async () => {
    const tenant = await service.newTenant()
    const failing = await startReceiver(answer(500, 'no'))
    const { id } = await subscribe(tenant, failing.url)
    const { data } = (await tenant.post(`/webhooks/${id}/test`)).body
    expect(data).toMatchObject({
      status: 'failed',
      nextAttemptAt: null,
      attempts: [{ number: 0, statusCode: 500, error: 'status 500', responseSnippet: 'no' }],
    })
    const retried = await tenant.post(`/webhooks/${id}/deliveries/${data.id}/retry`)
    expect([retried.status, retried.body.code]).toEqual([409, 'delivery_not_retryable'])
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toEqual([])
    expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('active')
    expect(failing.received).toHaveLength(1)
    await failing.close()
  })

  test('is one test under one idempotency key', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const send = () => tenant.post(`/webhooks/${id}/test`, {}, { headers: { 'idempotency-key': 't' } })
    const first = await send()
    const again = await send()
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.body).toEqual(first.body)
    expect(receiver.received.filter(isTest(id))).toHaveLength(1)
  })

  test('goes out at once while the webhook is paused, and while it is disabled', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('succeeded')
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('succeeded')
    expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('disabled')
  })

  test('overtakes a backlog, and is answered within 10 s by a receiver that hangs', { timeout: 20_000 }, async () => {
    const tenant = await service.newTenant()
    const hanging = await startReceiver((got, response) => {
      if (got.event.type === 'tx.completed') response.end()
    })
    const { id } = await subscribe(tenant, hanging.url)
    await Promise.all(Array.from({ length: 40 }, () => createUser(tenant)))
    await hanging.count('all its places are taken', 8)
    const startedAt = performance.now()
    const overtaking = await tenant.post(`/webhooks/${id}/test`, { eventType: 'tx.completed' })
    expect(overtaking.body.data.status).toBe('succeeded')
    expect(performance.now() - startedAt).toBeLessThan(3_000)
    const hung = await Promise.all([tenant.post(`/webhooks/${id}/test`), tenant.post(`/webhooks/${id}/test`)])
    expect(performance.now() - startedAt).toBeLessThan(14_000)
    for (const each of hung) {
      expect(each.status).toBe(200)
      expect(each.body.data).toMatchObject({ status: 'delivering', attempts: [] })
    }
    await hanging.close()
  })
})

describe.concurrent('whose events', () => {
  test('without an app those of all apps and the tenant’s own; with one, that app’s only', async () => {
    const tenant = await service.newTenant()
    const other = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    const events = ['user.*', 'tenant.*']
    const all = await subscribe(tenant, `${receiver.url}/scope-all`, { events })
    const bound = await subscribe(tenant, `${receiver.url}/scope-app`, { events, appId: app })
    const stranger = await subscribe(other, `${receiver.url}/scope-stranger`, { events })
    const inDefault = await createUser(tenant)
    const inSecond = await createUser(tenant, { appId: app })
    await tenant.patch('/tenant', { name: 'Renamed' })
    await deliveriesIn(tenant, all.id, 'succeeded', 3)
    await deliveriesIn(tenant, bound.id, 'succeeded', 1)
    const got = (path: string) =>
      receiver.received.filter((each) => each.path === path).map((each) => each.event.data.userId ?? each.event.type)
    expect(got('/scope-all').sort()).toEqual(['tenant.updated', inDefault, inSecond].sort())
    expect(got('/scope-app')).toEqual([inSecond])
    expect(await deliveriesOf(other, stranger.id)).toEqual([])
  })

  test('a kind, a family and everything are matched as they are named', async () => {
    const tenant = await service.newTenant()
    const kind = await subscribe(tenant, receiver.url, { events: ['user.updated'] })
    const family = await subscribe(tenant, receiver.url, { events: ['user.*'] })
    const everything = await subscribe(tenant, receiver.url, { events: ['*', 'user.*', 'user.created'] })
    const neither = await subscribe(tenant, receiver.url, { events: ['user.signed_in', 'tx.*'] })
    const user = await createUser(tenant)
    await tenant.patch(`/users/${user}`, { name: 'Ada' })
    await tenant.patch('/tenant', { name: 'Renamed' })
    // What the tenant's own creation caused may still have been on its way when the webhooks came.
    const early = ['app.created', 'api_key.created']
    const types = (id: string, count: number) =>
      eventually(`${count} deliveries`, async () => {
        const found = (await deliveriesOf(tenant, id, '&status=succeeded')).map((each) => each.eventType as string)
        const caused = found.filter((type) => !early.includes(type)).reverse()
        return caused.length >= count && caused
      })
    expect(await types(everything.id, 3)).toEqual(['user.created', 'user.updated', 'tenant.updated'])
    expect(await types(family.id, 2)).toEqual(['user.created', 'user.updated'])
    expect(await types(kind.id, 1)).toEqual(['user.updated'])
    expect(await deliveriesOf(tenant, neither.id)).toEqual([])
  })
})

describe.concurrent('dead letters', () => {
  test('are recovered from a time on, by a job that says how far it is', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, `${receiver.url}/recovered`)
    await insertDeadLetters(service, tenant, id, 3)
    const since = new Date().toISOString()
    await eventually('a later millisecond', async () => new Date().toISOString() > since)
    await insertDeadLetters(service, tenant, id, 2)
    const begun = await tenant.post(`/webhooks/${id}/recover`, { since: new Date(Date.parse(since) + 1).toISOString() })
    expect(begun.status).toBe(201)
    expect(begun.body.data).toMatchObject({ type: 'webhook.recover', status: 'pending', progress: 0, total: 2 })
    expect(await jobEnded(tenant, begun.body.data.id)).toMatchObject({ status: 'succeeded', progress: 2, total: 2 })
    await deliveriesIn(tenant, id, 'succeeded', 2)
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toHaveLength(3)
  })

  test.each([
    ['no time', {}],
    ['a day only', { since: '2026-01-01' }],
    ['no zone', { since: '2026-01-01T00:00:00' }],
    ['text', { since: 'yesterday' }],
    ['a number', { since: 0 }],
    ['the 30th of February', { since: '2026-02-30T00:00:00Z' }],
    ['the future', { since: '2999-01-01T00:00:00Z' }],
  ])('recovering since %s is 400', async (_, body) => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const refused = await tenant.post(`/webhooks/${id}/recover`, body)
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.details[0].field).toBe('since')
  })

  test('a time before 1970, or in another zone, is a time', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    for (const since of ['1900-01-01T00:00:00Z', '2026-01-01T00:00:00.123+05:30']) {
      expect((await tenant.post(`/webhooks/${id}/recover`, { since })).status).toBe(201)
    }
  })

  test('of a disabled webhook are neither retried nor recovered: 409', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 1)
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    const [dead] = await deliveriesOf(tenant, id)
    for (const refused of [
      await tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`),
      await tenant.post(`/webhooks/${id}/recover`, { since: anHourAgo() }),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([409, 'webhook_disabled'])
    }
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toHaveLength(1)
  })

  test('are purged, and nothing else is', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const other = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 6_000)
    await insertDeadLetters(service, tenant, other.id, 1)
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded')
    for (const query of ['', '?status=succeeded', '?status=dead_letter&event_type=user.created']) {
      expect((await tenant.delete(`/webhooks/${id}/deliveries${query}`)).status).toBe(400)
    }
    const purged = await tenant.delete(`/webhooks/${id}/deliveries?status=dead_letter`)
    expect([purged.status, purged.body.data]).toEqual([200, { purged: 6_000 }])
    expect((await tenant.get(`/webhooks/${id}/deliveries`)).body.total).toBe(1)
    expect((await tenant.get(`/webhooks/${other.id}/deliveries?status=dead_letter`)).body.total).toBe(1)
    const again = await tenant.delete(`/webhooks/${id}/deliveries?status=dead_letter`)
    expect(again.body.data).toEqual({ purged: 0 })
  })
})

test.concurrent('a recover job that is left half-way is taken up by another process, and sends each dead letter once', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  const target = await startReceiver()
  const { id } = await subscribe(tenant, target.url)
  await insertDeadLetters(api, tenant, id, 1_200)
  const begun = await tenant.post(`/webhooks/${id}/recover`, { since: new Date(Date.now() - 60_000).toISOString() })
  expect(begun.body.data).toMatchObject({ status: 'pending', progress: 0, total: 1_200 })
  expect(await stepRecovery(api.deps.db)).toBe(true)
  expect((await tenant.get(`/jobs/${begun.body.data.id}`)).body.data).toMatchObject({
    status: 'running',
    progress: 500,
  })
  const worker = await startService({
    DATABASE_URL: api.databaseUrl,
    HALFKEY_DATA_DIR: api.dataDir,
    HALFKEY_ROLE: 'worker',
  })
  expect(await jobEnded(tenant, begun.body.data.id)).toMatchObject({
    status: 'succeeded',
    progress: 1_200,
    total: 1_200,
  })
  await target.count('all', 1_200)
  expect(new Set(target.received.map((got) => got.event.id)).size).toBe(1_200)
  await eventually('all are stored', async () => {
    const page = await tenant.get(`/webhooks/${id}/deliveries?status=succeeded`)
    return page.body.total === 1_200
  })
  expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toEqual([])
  expect(target.received).toHaveLength(1_200)
  await target.close()
  await worker.stop()
  await api.stop()
})
