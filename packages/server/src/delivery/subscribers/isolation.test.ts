import { afterAll, beforeAll, expect, test } from 'vitest'
import { verifyWebhook } from '../../../../sdk/src/index.ts'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { inFeed, newType, ok } from '../events/own-events.fixture.ts'
import { newSubscriber, newWebhook, publish, sentTo } from './subscribers.fixture.ts'

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

const PAID = 'acme.invoice.paid'

async function tenantWithType(): Promise<Tenant> {
  const tenant = await service.newTenant()
  await newType(tenant, PAID, { example: { invoiceId: 'inv_1' } })
  return tenant
}

test('a subscriber’s webhook gets the events of that subscriber, whatever it subscribes to, and nothing else', async () => {
  const tenant = await tenantWithType()
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const everything = ['*', 'user.*', 'user.created', 'webhook.*', 'acme.*', PAID]
  const adas = await newWebhook(tenant, receiver.url, ada, everything)
  const adasToo = await newWebhook(tenant, receiver.url, ada, [PAID])
  const bobs = await newWebhook(tenant, receiver.url, bob, everything)
  const own = await newWebhook(tenant, receiver.url, null, ['*'])
  const all = ok(await tenant.post('/webhooks', { url: receiver.url, events: ['*'], includeSubscribers: true }), 201).id

  expect(await sentTo(tenant, await publish(tenant, PAID, ada))).toEqual([adas, adasToo, all].sort())
  expect(await sentTo(tenant, await publish(tenant, PAID, bob))).toEqual([bobs, all].sort())
  expect(await sentTo(tenant, await publish(tenant, PAID))).toEqual([own, all].sort())
  ok(await tenant.post('/users', {}), 201)
  const [created] = await inFeed(tenant, 'user.created', 1)
  expect(await sentTo(tenant, created.id)).toEqual([own, all].sort())
  const received = receiver.received.filter(({ event }) => event.type === 'user.created')
  expect(received.every(({ event }) => event.subscriber_id === undefined)).toBe(true)
})

test('an event of a batch reaches its subscriber alone, also if it shares a key with the event of another', async () => {
  const tenant = await tenantWithType()
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const [adas, bobs] = [await newWebhook(tenant, receiver.url, ada), await newWebhook(tenant, receiver.url, bob)]
  const event = (subscriberId: string, more: object = {}) => ({ type: PAID, data: {}, subscriberId, ...more })
  const { events } = ok(await tenant.post('/events/batch', { events: [event(ada), event(bob)] }), 201)
  expect(await sentTo(tenant, events[0].id)).toEqual([adas])
  expect(await sentTo(tenant, events[1].id)).toEqual([bobs])
  const idempotencyKey = 'inv_1-paid'
  const first = ok(await tenant.post('/events', event(ada, { idempotencyKey })), 201)
  expect(ok(await tenant.post('/events', event(ada, { idempotencyKey })), 201)).toEqual(first)
  const conflict = await tenant.post('/events', event(bob, { idempotencyKey }))
  expect([conflict.status, conflict.body.code]).toEqual([409, 'event_key_conflict'])
  expect(await sentTo(tenant, first.id)).toEqual([adas])
})

test('the event names its subscriber, in the answer, in the feed and as it is delivered', async () => {
  const tenant = await tenantWithType()
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  await newWebhook(tenant, `${receiver.url}/named`, ada)
  const event = ok(await tenant.post('/events', { type: PAID, data: { n: 1 }, subscriberId: ada }), 201)
  expect(event).toMatchObject({ type: PAID, subscriber_id: ada, data: { n: 1 } })
  const { body } = await receiver.until('the event', (one) => one.event.id === event.id)
  expect(body).toBe(JSON.stringify(event))
  await publish(tenant, PAID, bob)
  await publish(tenant, PAID)
  await inFeed(tenant, PAID, 3)
  expect(await inFeed(tenant, `${PAID}&subscriber_id=${ada}`, 1)).toEqual([event])
  const other = await service.newTenant()
  const unknown = await other.get(`/events?subscriber_id=${ada}`)
  expect([unknown.status, unknown.body.details[0].field]).toEqual([404, 'subscriber_id'])
})

test.each(['cloudevents_structured', 'cloudevents_binary'])(
  'the event names its subscriber as %s too',
  async (format) => {
    const tenant = await tenantWithType()
    const ada = await newSubscriber(tenant)
    const body = { url: receiver.url, events: ['*'], subscriberId: ada, format, payload: 'thin' }
    const { secret } = ok(await tenant.post('/webhooks', body), 201)
    const id = await publish(tenant, PAID, ada)
    const got = await receiver.until('the event', (one) => one.event.id === id || one.headers['ce-id'] === id)
    expect(got.event.subscriberid ?? got.headers['ce-subscriberid']).toBe(ada)
    if (format === 'cloudevents_structured')
      expect((await verifyWebhook(got.body, got.headers, secret)).subscriber_id).toBe(ada)
  },
)

test('a delivery to a subscriber does not continue the trace of the tenant’s request', async () => {
  const tenant = await tenantWithType()
  const ada = await newSubscriber(tenant)
  await newWebhook(tenant, `${receiver.url}/theirs`, ada)
  const own = { url: `${receiver.url}/own`, events: ['*'], includeSubscribers: true }
  ok(await tenant.post('/webhooks', own), 201)
  const headers = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }
  const { id } = ok(await tenant.post('/events', { type: PAID, data: {}, subscriberId: ada }, { headers }), 201)
  const [theirs, ours] = await Promise.all(
    ['/theirs', '/own'].map((path) => receiver.until(path, (one) => one.path === path && one.event.id === id)),
  )
  expect(ours?.headers.traceparent).toContain('a'.repeat(32))
  expect(theirs?.headers.traceparent).toBeUndefined()
})

test('a filter of a subscriber’s webhook selects among that subscriber’s events', async () => {
  const tenant = await tenantWithType()
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const filter = { path: 'type', prefix: 'acme.' }
  const none = { path: 'type', eq: 'user.created' }
  const create = async (input: object) =>
    ok(await tenant.post('/webhooks', { url: receiver.url, events: ['*'], subscriberId: ada, ...input }), 201).id
  const matching = await create({ filter })
  await create({ filter: none })
  expect(await sentTo(tenant, await publish(tenant, PAID, ada))).toEqual([matching])
  expect(await sentTo(tenant, await publish(tenant, PAID, bob))).toEqual([])
  expect(await sentTo(tenant, await publish(tenant, PAID))).toEqual([])
})

test('an event is only for a subscriber of its app', async () => {
  const tenant = await tenantWithType()
  const other = await tenantWithType()
  const appId = ok(await tenant.post('/apps', { name: 'Second' }), 201).id
  const ada = await newSubscriber(tenant, { appId })
  for (const [publisher, subscriberId] of [
    [tenant, ada],
    [other, ada],
    [tenant, 'sub_none'],
    [tenant, ''],
  ] as const) {
    const one = { type: PAID, data: {}, subscriberId }
    expect(expectRefusal(await publisher.post('/events', one), 'validation_failed')[0].field).toBe('subscriberId')
    const batch = await publisher.post('/events/batch', { events: [{ type: PAID, data: {} }, one] })
    expect(expectRefusal(batch, 'validation_failed')[0].field).toBe('events[1].subscriberId')
  }
})

test('a test of a subscriber’s webhook sends a type of the app or webhook.test, and nothing of Halfkey', async () => {
  const tenant = await tenantWithType()
  const ada = await newSubscriber(tenant)
  const id = await newWebhook(tenant, `${receiver.url}/tested`, ada)
  for (const eventType of ['user.created', 'tx.completed', 'webhook.disabled', '*', 'acme.none']) {
    const answer = await tenant.post(`/webhooks/${id}/test`, { eventType })
    expect(expectRefusal(answer, 'validation_failed', eventType)[0].field).toBe('eventType')
  }
  for (const body of [{}, { eventType: PAID }])
    expect(ok(await tenant.post(`/webhooks/${id}/test`, body)).status).toBe('succeeded')
  const tests = receiver.received.filter(({ path }) => path === '/tested').map(({ event }) => event)
  expect(tests).toMatchObject([
    { type: 'webhook.test', subscriber_id: ada },
    { type: PAID, subscriber_id: ada, data: { invoiceId: 'inv_1' } },
  ])
})

test('dead letters of a subscriber’s webhook that are recovered go to that webhook only, and are announced to the tenant only', async () => {
  const tenant = await tenantWithType()
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const [adas, bobs] = [await newWebhook(tenant, receiver.url, ada), await newWebhook(tenant, receiver.url, bob)]
  const own = await newWebhook(tenant, receiver.url, null, ['webhook.*'])
  await service.sql(
    `update webhooks set status = 'disabled', disabled_reason = 'test' where tenant_id = $1 and id = $2`,
    [tenant.tenantId, adas],
  )
  const eventId = await publish(tenant, PAID, ada)
  expect(await sentTo(tenant, eventId)).toEqual([adas])
  ok(await tenant.patch(`/webhooks/${adas}`, { status: 'active' }))
  ok(await tenant.post(`/webhooks/${adas}/recover`, { since: new Date(0).toISOString() }), 201)
  await receiver.until('the recovered event', ({ event }) => event.id === eventId)
  expect(await sentTo(tenant, eventId)).toEqual([adas])
  const announced = ok(await tenant.get('/events?type=webhook.*')).events
  for (const { id } of announced) expect(await sentTo(tenant, id)).toEqual([own])
  expect(ok(await tenant.get(`/webhooks/${bobs}/deliveries`))).toEqual([])
})
