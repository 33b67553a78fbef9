import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { NOWHERE } from '../../../test/matrix/bodies.ts'
import { newId } from '../../platform/ids.ts'
import { newType, ok } from '../events/own-events.fixture.ts'
import { newSubscriber, newWebhook, openPortal, publish } from './subscribers.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('a subscriber is created, found by its external id, changed and deleted', async () => {
  const tenant = await service.newTenant()
  const input = { externalId: 'customer-1', name: 'Ada Ltd', metadata: { plan: 'gold' } }
  const made = ok(await tenant.post('/subscribers', input), 201)
  expect(made).toEqual({
    id: expect.stringMatching(/^sub_/),
    appId: tenant.appId,
    ...input,
    createdAt: expect.any(String),
    updatedAt: expect.any(String),
  })
  await newSubscriber(tenant)
  expect(ok(await tenant.get(`/subscribers/${made.id}`))).toEqual(made)
  expect(ok(await tenant.get('/subscribers?external_id=customer-1'))).toEqual([made])
  expect(ok(await tenant.get('/subscribers'))).toHaveLength(2)
  const changed = ok(
    await tenant.patch(`/subscribers/${made.id}`, { name: null, metadata: { plan: null, seats: '5' } }),
  )
  expect(changed).toMatchObject({ externalId: 'customer-1', name: null, metadata: { seats: '5' } })
  expect(ok(await tenant.patch(`/subscribers/${made.id}`, {}))).toEqual(changed)
  expect(ok(await tenant.delete(`/subscribers/${made.id}`))).toMatchObject({ id: made.id })
  expectError(await tenant.get(`/subscribers/${made.id}`), 404, 'not_found')
  expectError(await tenant.delete(`/subscribers/${made.id}`), 404, 'not_found')
  const actions = await eventually('the entries of the audit log', async () => {
    const found: { action: string; target: string }[] = ok(await tenant.get('/audit-log?page_size=100'))
    const own = found.filter(({ target }) => target === made.id).map(({ action }) => action)
    return own.length >= 3 && own
  })
  expect(actions).toEqual(['subscriber.deleted', 'subscriber.updated', 'subscriber.created'])
})

test('an external id is unique in its app, and free again after the subscriber’s deletion', async () => {
  const tenant = await service.newTenant()
  const appId = ok(await tenant.post('/apps', { name: 'Second' }), 201).id
  const first = ok(await tenant.post('/subscribers', { externalId: 'a' }), 201)
  const second = ok(await tenant.post('/subscribers', { externalId: 'b' }), 201)
  for (const answer of [
    await tenant.post('/subscribers', { externalId: 'a' }),
    await tenant.patch(`/subscribers/${second.id}`, { externalId: 'a' }),
  ]) {
    expectError(answer, 409, 'already_exists')
    expect(answer.body.details[0].field).toBe('externalId')
  }
  ok(await tenant.post('/subscribers', { externalId: 'a', appId }), 201)
  ok(await tenant.delete(`/subscribers/${first.id}`))
  ok(await tenant.post('/subscribers', { externalId: 'a' }), 201)
})

test('a key that is bound to an app finds no subscriber of another', async () => {
  const tenant = await service.newTenant()
  const appId = ok(await tenant.post('/apps', { name: 'Second' }), 201).id
  const key = await tenant.newKey({ scopes: ['subscribers:write', 'webhooks:write'], appId })
  const ada = await newSubscriber(tenant)
  const unknown = await tenant.get(`/subscribers/${newId('sub')}`, { key })
  for (const [method, path] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/portal-link'],
    ['DELETE', '/portal-links'],
  ] as const)
    expect((await tenant.call(method, `/subscribers/${ada}${path}`, { key })).text).toBe(unknown.text)
  expect(ok(await tenant.get('/subscribers', { key }))).toEqual([])
  const webhook = await tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada }, { key })
  expect(expectRefusal(webhook, 'validation_failed')[0].field).toBe('subscriberId')
  expect((await tenant.get(`/webhooks?subscriber_id=${ada}`, { key })).status).toBe(404)
  expectError(
    await tenant.get('/subscribers', { key: await tenant.newKey({ scopes: ['webhooks:write'] }) }),
    403,
    'insufficient_scope',
  )
})

test('a webhook belongs to its subscriber for life, in the subscriber’s app', async () => {
  const tenant = await service.newTenant()
  const other = await service.newTenant()
  const appId = ok(await tenant.post('/apps', { name: 'Second' }), 201).id
  const ada = await newSubscriber(tenant, { appId })
  const bob = await newSubscriber(tenant)
  const made = ok(await tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada }), 201)
  expect(made).toMatchObject({ appId, subscriberId: ada, includeSubscribers: false })
  await newWebhook(tenant, NOWHERE, bob)
  const own = ok(await tenant.post('/webhooks', { url: NOWHERE, events: ['*'] }), 201)
  expect(own).toMatchObject({ subscriberId: null, includeSubscribers: false })
  const found = ok(await tenant.get(`/webhooks?subscriber_id=${ada}`))
  expect(found.map(({ id }: { id: string }) => id)).toEqual([made.id])
  expect(ok(await tenant.get('/webhooks'))).toHaveLength(3)
  for (const [answer, field] of [
    [await tenant.patch(`/webhooks/${made.id}`, { subscriberId: bob }), 'subscriberId'],
    [await tenant.patch(`/webhooks/${made.id}`, { includeSubscribers: true }), 'includeSubscribers'],
    [
      await tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada, includeSubscribers: true }),
      'includeSubscribers',
    ],
    [
      await tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada, appId: tenant.appId }),
      'subscriberId',
    ],
    [await other.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada }), 'subscriberId'],
  ] as const)
    expect(expectRefusal(answer, 'validation_failed', field)[0].field).toBe(field)
  expect(ok(await tenant.patch(`/webhooks/${own.id}`, { includeSubscribers: true })).includeSubscribers).toBe(true)
})

test('a webhook that its subscriber may redirect carries no headers, token or certificate of the tenant', async () => {
  const tenant = await service.newTenant()
  const subscriberId = await newSubscriber(tenant)
  const id = await newWebhook(tenant, NOWHERE, subscriberId)
  const options = {
    headers: { 'X-Api-Key': 'of-the-tenant-0123456789' },
    oauth: { tokenUrl: 'http://127.0.0.2:49150/token', clientId: 'a', clientSecret: 'b' },
    clientCertificate: { certificate: 'x', privateKey: 'x' },
  }
  for (const [field, value] of Object.entries(options))
    for (const answer of [
      await tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId, [field]: value }),
      await tenant.patch(`/webhooks/${id}`, { [field]: value }),
    ]) {
      const [detail] = expectRefusal(answer, 'validation_failed', field)
      expect(detail).toMatchObject({ field, code: 'not_allowed' })
    }
  ok(await tenant.patch(`/webhooks/${id}`, { headers: null, oauth: null, clientCertificate: null }))
})

test('a subscriber has at most 20 webhooks, also if many are created at once, and they count for no other', async () => {
  const tenant = await service.newTenant()
  const ada = await newSubscriber(tenant)
  const create = () => tenant.post('/webhooks', { url: NOWHERE, events: ['*'], subscriberId: ada })
  const answers = await Promise.all(Array.from({ length: 25 }, create))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(20)
  for (const answer of answers.filter(({ status }) => status !== 201)) expectError(answer, 409, 'webhook_limit_reached')
  await newWebhook(tenant, NOWHERE, await newSubscriber(tenant))
  await newWebhook(tenant, NOWHERE, null)
})

test('deleting a subscriber deletes its webhooks, cancels what they wait for and ends its portal', async () => {
  const tenant = await service.newTenant()
  await newType(tenant, 'acme.paid')
  const receiver = await startReceiver((_, response) => response.writeHead(500).end())
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const adas = await newWebhook(tenant, receiver.url, ada)
  const bobs = await newWebhook(tenant, receiver.url, bob)
  const portal = await openPortal(service, tenant, ada)
  await publish(tenant, 'acme.paid', ada)
  await receiver.until('the first attempt', () => true)
  ok(await tenant.delete(`/subscribers/${ada}`))
  expectError(await tenant.get(`/webhooks/${adas}`), 404, 'not_found')
  expectError(await portal.call('GET', '/subscriber'), 401, 'portal_link_invalid')
  expect((await tenant.post('/events', { type: 'acme.paid', data: {}, subscriberId: ada })).status).toBe(400)
  await eventually('what waited is cancelled', async () => {
    const [left] = await service.sql<{ n: number }>(
      'select count(*)::int as n from deliveries where tenant_id = $1 and webhook_id = $2',
      [tenant.tenantId, adas],
    )
    return left?.n === 0
  })
  expect(ok(await tenant.get(`/webhooks/${bobs}`)).status).toBe('active')
  await receiver.close()
})

test('deleting an app deletes its subscribers', async () => {
  const tenant = await service.newTenant()
  const appId = ok(await tenant.post('/apps', { name: 'Second' }), 201).id
  const ada = await newSubscriber(tenant, { appId })
  const id = await newWebhook(tenant, NOWHERE, ada)
  const portal = await openPortal(service, tenant, ada)
  ok(await tenant.delete(`/apps/${appId}`))
  for (const path of [`/subscribers/${ada}`, `/webhooks/${id}`]) expectError(await tenant.get(path), 404, 'not_found')
  expectError(await portal.call('GET', '/webhooks'), 401, 'portal_link_invalid')
})
