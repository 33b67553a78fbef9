import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { newId } from '../../platform/ids.ts'
import { createUser, deliveriesOf, subscribe } from '../engine/delivery.fixture.ts'
import { inFeed } from './own-events.fixture.ts'

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

async function eventOf(tenant: Awaited<ReturnType<Service['newTenant']>>) {
  await createUser(tenant)
  const [event] = await inFeed(tenant, 'user.created', 1)
  return event
}

test('an event shows where it was sent: every webhook that was subscribed, with status and attempts, and no other', async () => {
  const tenant = await service.newTenant()
  const good = await subscribe(tenant, `${receiver.url}/good`, { events: ['user.*'] })
  const broken = await subscribe(tenant, 'http://127.0.0.2:49150/hook', { events: ['user.created'] })
  await subscribe(tenant, `${receiver.url}/other`, { events: ['tx.completed'] })
  const event = await eventOf(tenant)
  expect((await tenant.get(`/events/${event.id}`)).body.data).toEqual(event)
  const sent = await eventually('both attempts', async () => {
    const { body } = await tenant.get(`/events/${event.id}/deliveries`)
    return body.data.every(({ attempts }: { attempts: unknown[] }) => attempts.length === 1) && body.total === 2 && body
  })
  const byWebhook = new Map(sent.data.map((each: { webhookId: string }) => [each.webhookId, each]))
  expect(byWebhook.get(good.id)).toEqual((await deliveriesOf(tenant, good.id))[0])
  expect(byWebhook.get(good.id)).toMatchObject({ eventId: event.id, status: 'succeeded' })
  expect(byWebhook.get(broken.id)).toMatchObject({ status: 'retrying', nextAttemptAt: expect.any(String) })
  const late = await subscribe(tenant, `${receiver.url}/late`, { events: ['user.*'] })
  expect(byWebhook.has(late.id)).toBe(false)
  const first = await tenant.get(`/events/${event.id}/deliveries?page_size=1`)
  expect([first.body.data.length, first.body.total, first.body.hasMore]).toEqual([1, 2, true])
})

test('a test event leads to its one delivery', async () => {
  const tenant = await service.newTenant()
  const { id } = await subscribe(tenant, `${receiver.url}/tested`, { events: ['user.*'] })
  const tested = (await tenant.post(`/webhooks/${id}/test`)).body.data
  const { body } = await tenant.get(`/events/${tested.eventId}/deliveries`)
  expect(body.data).toEqual([tested])
})

test("another tenant's, another app's and unknown events are one identical 404", async () => {
  const tenant = await service.newTenant()
  const event = await eventOf(tenant)
  const other = await service.newTenant()
  const app = (await tenant.post('/apps', { name: 'Other' })).body.data
  const bound = await tenant.newKey({ scopes: ['webhooks:read'], appId: app.id })
  for (const path of ['', '/deliveries']) {
    const answers = [
      await other.get(`/events/${event.id}${path}`),
      await tenant.get(`/events/${event.id}${path}`, { key: bound }),
      await tenant.get(`/events/${newId('evt')}${path}`),
      await tenant.get(`/events/nothing${path}`),
    ]
    for (const each of answers) expectError(each, 404, 'not_found')
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  }
})
