import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { createUser, subscribe } from '../engine/delivery.fixture.ts'
import { countEvents, inFeed, newType, ok } from './own-events.fixture.ts'

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService()
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const PAID = 'acme.invoice.paid'
const data = { invoiceId: 'inv_1', total: '25.00', lines: [{ sku: 'ü', n: 2 }], note: null }

async function tenantWithType(): Promise<Tenant> {
  const tenant = await service.newTenant()
  await newType(tenant, PAID)
  return tenant
}

test('a published event is delivered to webhooks of its type, its family and of everything, as the answer has it', async () => {
  const tenant = await tenantWithType()
  const paths = ['/type', '/family', '/all', '/other']
  for (const [at, events] of [[PAID], ['acme.*'], ['*'], ['user.*', 'shop.*']].entries())
    await subscribe(tenant, receiver.url + paths[at], { events })
  const answer = await tenant.post('/events', { type: PAID, data })
  const event = ok(answer, 201)
  expect(event).toEqual({
    id: expect.stringMatching(/^evt_/),
    type: PAID,
    created_at: expect.any(String),
    api_version: '2026-11-01',
    data,
  })
  const got = await Promise.all(
    paths.slice(0, 3).map((path) => receiver.until(path, (one) => one.path === path && one.event.id === event.id)),
  )
  expect(new Set(got.map(({ body }) => body))).toEqual(new Set([JSON.stringify(event)]))
  expect(ok(await tenant.get(`/events/${event.id}`))).toEqual(event)
  expect(ok(await tenant.get(`/events/${event.id}/deliveries`))).toHaveLength(3)
  expect(receiver.received.filter(({ path }) => path === '/other')).toEqual([])
})

test('a published event is in the feed, by its type and by its family, beside those of Halfkey', async () => {
  const tenant = await tenantWithType()
  const userId = await createUser(tenant)
  const event = ok(await tenant.post('/events', { type: PAID, data }), 201)
  for (const query of [PAID, 'acme.*', `user.deleted,${PAID}`]) expect(await inFeed(tenant, query, 1)).toEqual([event])
  const both = await inFeed(tenant, 'acme.*,user.created', 2)
  expect(both.map((one: { data: { userId?: string } }) => one.data.userId ?? null).sort()).toEqual(
    [userId, null].sort(),
  )
  for (const type of ['acme.invoice.payed', 'user.exploded', 'halfkey.*', 'acme.', 'Acme.Invoice'])
    expect(expectRefusal(await tenant.get(`/events?type=${type}`), 'validation_failed', type)[0].field).toBe('type')
})

test('what teams publish is neither in the audit log nor in the analytics, which go on behind it', async () => {
  const tenant = await tenantWithType()
  await newType(tenant, 'acme.user.created')
  for (let n = 0; n < 3; n += 1) {
    ok(await tenant.post('/events', { type: PAID, data: { userId: 'usr_1' } }), 201)
    ok(await tenant.post('/events', { type: 'acme.user.created', data: {} }), 201)
  }
  const userId = await createUser(tenant)
  const actions: string[] = await eventually('the entries of the user and of the types', async () => {
    const found: { action: string; target: string }[] = ok(await tenant.get('/audit-log?page_size=100'))
    const types = found.filter(({ action }) => action === 'event_type.created')
    return found.some(({ target }) => target === userId) && types.length === 2 && found.map(({ action }) => action)
  })
  expect(actions.filter((action) => action.startsWith('acme.'))).toEqual([])
  await eventually('the count of users', async () => ok(await tenant.get('/analytics')).totals.newUsers === 1)
})

test('deliveries of published events are listed by their type and count as used', async () => {
  const tenant = await tenantWithType()
  const { id } = await subscribe(tenant, `${receiver.url}/listed`, { events: ['*'] })
  await createUser(tenant)
  const event = ok(await tenant.post('/events', { type: PAID, data }), 201)
  const [delivery] = await eventually('the delivery', async () => {
    const found = ok(await tenant.get(`/webhooks/${id}/deliveries?status=succeeded&event_type=${PAID}`))
    return found.length === 1 && found
  })
  expect(delivery).toMatchObject({ eventId: event.id, eventType: PAID })
  const typo = await tenant.get(`/webhooks/${id}/deliveries?event_type=acme.invoice.payed`)
  expect(expectRefusal(typo, 'validation_failed')[0].field).toBe('event_type')
  await eventually('the meter', async () => {
    const { meters } = ok(await tenant.get('/billing/usage'))
    return meters.find(({ key }: { key: string }) => key === 'deliveries').used >= 2
  })
})

test('a webhook subscribes only to types that exist, in its app', async () => {
  const tenant = await tenantWithType()
  const shop = ok(await tenant.post('/apps', { name: 'Shop' }), 201).id
  const make = (events: string[], appId?: string) =>
    tenant.post('/webhooks', { url: receiver.url, events, ...(appId === undefined ? {} : { appId }) })
  const { id } = ok(await make([PAID, 'shop.*', 'user.created']), 201)
  for (const [events, appId] of [[['*', 'acme.invoice.payed']], [['user.created', PAID], shop]] as const) {
    const [detail] = expectRefusal(await make([...events], appId), 'validation_failed')
    expect(detail.field).toBe('events.1')
  }
  expectRefusal(await tenant.patch(`/webhooks/${id}`, { events: ['acme.nothing'] }), 'validation_failed')
  expectRefusal(await make(['halfkey.*']), 'validation_failed')
  ok(await tenant.patch(`/webhooks/${id}`, { events: [PAID] }))
})

test('a publish is refused, naming the field, and stores nothing', async () => {
  const tenant = await tenantWithType()
  const { id } = await newType(tenant, 'acme.old')
  ok(await tenant.delete(`/event-types/${id}`))
  const big = { text: 'x'.repeat(256 * 1024) }
  const cases: [body: object, status: number, code: string, field: string][] = [
    [{ type: 'acme.invoice.payed', data }, 404, 'event_type_unknown', 'type'],
    [{ type: 'acme.old', data }, 409, 'event_type_archived', 'type'],
    [{ type: 'user.created', data }, 400, 'validation_failed', 'type'],
    [{ type: 'halfkey.paid', data }, 400, 'validation_failed', 'type'],
    [{ type: 'Acme.Paid', data }, 400, 'validation_failed', 'type'],
    [{ type: PAID }, 400, 'validation_failed', 'data'],
    [{ type: PAID, data: [1] }, 400, 'validation_failed', 'data'],
    [{ type: PAID, data: null }, 400, 'validation_failed', 'data'],
    [{ type: PAID, data: big }, 400, 'validation_failed', 'data'],
    [{ type: PAID, data, id: 'evt_1' }, 400, 'validation_failed', 'id'],
    [{ type: PAID, data, orderingKey: '' }, 400, 'validation_failed', 'orderingKey'],
    [{ type: PAID, data, appId: 'app_nobody' }, 404, 'not_found', 'appId'],
    [{ type: PAID, data, idempotencyKey: '' }, 400, 'validation_failed', 'idempotencyKey'],
  ]
  for (const [body, status, code, field] of cases) {
    const answer = await tenant.post('/events', body)
    expectError(answer, status, code, JSON.stringify(body).slice(0, 100))
    expect(answer.body.details[0].field, JSON.stringify(body).slice(0, 100)).toBe(field)
    const batch = await tenant.post('/events/batch', { events: [{ type: PAID, data }, body] })
    expectError(batch, status, code, `batch ${JSON.stringify(body).slice(0, 100)}`)
    expect(batch.body.details[0].field).toBe(`events[1].${field}`)
  }
  expect(await countEvents(service, tenant, PAID)).toBe(0)
  const largest = { text: 'x'.repeat(256 * 1024 - JSON.stringify({ text: '' }).length) }
  ok(await tenant.post('/events', { type: PAID, data: largest }), 201)
})

test('a batch is published whole, in its order, and has 1 to 100 events', async () => {
  const tenant = await tenantWithType()
  const events = Array.from({ length: 100 }, (_, n) => ({ type: PAID, data: { n } }))
  const published = ok(await tenant.post('/events/batch', { events }), 201).events
  expect(published.map((event: { data: object }) => event.data)).toEqual(events.map((event) => event.data))
  expect(await inFeed(tenant, PAID, 100)).toEqual(published)
  expectRefusal(await tenant.post('/events/batch', { events: [...events, events[0]] }), 'validation_failed')
  expectRefusal(await tenant.post('/events/batch', { events: [] }), 'validation_failed')
  expect(await countEvents(service, tenant, PAID)).toBe(100)
})

test('a key of an app publishes in that app only, and a batch of a tenant-wide key in several', async () => {
  const tenant = await tenantWithType()
  const shop = ok(await tenant.post('/apps', { name: 'Shop' }), 201).id as string
  await newType(tenant, 'acme.shop.opened', { appId: shop })
  const key = await tenant.newKey({ scopes: ['events:publish', 'webhooks:read'], appId: shop })
  const event = ok(await tenant.post('/events', { type: 'acme.shop.opened', data }, { key }), 201)
  expectError(await tenant.post('/events', { type: PAID, data }, { key }), 404, 'event_type_unknown')
  const elsewhere = { type: PAID, data, appId: tenant.appId }
  const nowhere = { ...elsewhere, appId: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb' }
  const [other, none] = [
    await tenant.post('/events', elsewhere, { key }),
    await tenant.post('/events', nowhere, { key }),
  ]
  expectError(other, 404, 'not_found')
  expect(other.text).toBe(none.text)
  const mixed = [elsewhere, { type: 'acme.shop.opened', data, appId: shop }]
  const both = ok(await tenant.post('/events/batch', { events: mixed }), 201).events
  await inFeed(tenant, 'acme.*', 3)
  const seen = ok(await tenant.get('/events?type=acme.*', { key })).events
  expect(seen).toEqual([event, both[1]])
  expect((await tenant.get(`/events/${both[0].id}`, { key })).status).toBe(404)
})

test('a key needs the scope to publish, and a publishable key cannot', async () => {
  const tenant = await tenantWithType()
  const writer = await tenant.newKey({ scopes: ['webhooks:write', 'event_types:write'] })
  expectError(await tenant.post('/events', { type: PAID, data }, { key: writer }), 403, 'insufficient_scope')
  const browser = await tenant.newKey({ publishable: true })
  expectError(await tenant.post('/events', { type: PAID, data }, { key: browser }), 403, 'key_type_not_allowed')
  const publisher = await tenant.newKey({ scopes: ['events:publish'] })
  ok(await tenant.post('/events', { type: PAID, data }, { key: publisher }), 201)
  expectError(await tenant.get('/event-types', { key: publisher }), 403, 'insufficient_scope')
})

test('one idempotency key in the body is one event, whoever sends it and however many at once', async () => {
  const tenant = await tenantWithType()
  const body = { type: PAID, data, idempotencyKey: 'invoice-1' }
  const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/events', body)))
  const [first, ...others] = answers.map((answer) => ok(answer, 201))
  for (const other of others) expect(other).toEqual(first)
  expect(await countEvents(service, tenant, PAID)).toBe(1)
  const reordered = {
    idempotencyKey: 'invoice-1',
    data: Object.fromEntries(Object.entries(data).reverse()),
    type: PAID,
  }
  expect(ok(await tenant.post('/events', reordered), 201).id).toBe(first.id)
  const [batched, fresh] = ok(
    await tenant.post('/events/batch', { events: [body, { ...body, idempotencyKey: '2' }] }),
    201,
  ).events
  expect(batched).toEqual(first)
  expect(fresh.id).not.toBe(first.id)
  const conflict = await tenant.post('/events', { ...body, data: { ...data, total: '26.00' } })
  expectError(conflict, 409, 'event_key_conflict')
  expect(conflict.body.details[0]).toMatchObject({ field: 'idempotencyKey', eventId: first.id })
  const none = {
    events: [
      { type: PAID, data, idempotencyKey: '3' },
      { ...body, data: {} },
    ],
  }
  expectError(await tenant.post('/events/batch', none), 409, 'event_key_conflict')
  const twice = {
    events: [
      { ...body, idempotencyKey: '4' },
      { ...body, idempotencyKey: '4' },
    ],
  }
  expect(expectRefusal(await tenant.post('/events/batch', twice), 'validation_failed')[0].field).toBe(
    'events[1].idempotencyKey',
  )
  expect(await countEvents(service, tenant, PAID)).toBe(2)
})

test('an idempotency key of the body counts in its app and for a day', async () => {
  const tenant = await tenantWithType()
  const shop = ok(await tenant.post('/apps', { name: 'Shop' }), 201).id
  await newType(tenant, PAID, { appId: shop })
  const body = { type: PAID, data, idempotencyKey: 'one' }
  const first = ok(await tenant.post('/events', body), 201)
  expect(ok(await tenant.post('/events', { ...body, appId: shop }), 201).id).not.toBe(first.id)
  service.advance(24 * 3_600_000 - 60_000)
  expect(ok(await tenant.post('/events', body), 201)).toEqual(first)
  service.advance(61_000)
  const next = ok(await tenant.post('/events', { ...body, data: {} }), 201)
  expect(next.id).not.toBe(first.id)
  expect(await countEvents(service, tenant, PAID)).toBe(3)
})

test('batches that share keys in opposite orders neither deadlock nor publish twice', async () => {
  const tenant = await tenantWithType()
  const events = Array.from({ length: 50 }, (_, n) => ({ type: PAID, data: { n }, idempotencyKey: `key-${n}` }))
  const calls = Array.from({ length: 10 }, (_, at) =>
    tenant.post('/events/batch', { events: at % 2 === 0 ? events : events.toReversed() }),
  )
  for (const answer of await Promise.all(calls)) ok(answer, 201)
  expect(await countEvents(service, tenant, PAID)).toBe(50)
})

test('a webhook is tested with a type of the team, which sends its example', async () => {
  const tenant = await service.newTenant()
  await newType(tenant, PAID, { example: { total: '1.00' } })
  const { id } = await subscribe(tenant, `${receiver.url}/tested`)
  const delivery = ok(await tenant.post(`/webhooks/${id}/test`, { eventType: PAID }))
  expect(delivery).toMatchObject({ eventType: PAID, status: 'succeeded' })
  const { event } = await receiver.until('the test', (one) => one.path === '/tested')
  expect([event.type, event.data]).toEqual([PAID, { total: '1.00' }])
  for (const eventType of ['acme.nothing', 'user.exploded', 'acme.*', '*', 'constructor'])
    expectRefusal(await tenant.post(`/webhooks/${id}/test`, { eventType }), 'validation_failed', eventType)
})
