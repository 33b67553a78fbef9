import { Webhook as StandardWebhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { type Received, type Receiver, startReceiver } from '../../server/test/harness/receiver.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { verifyWebhook, WebhookVerificationError } from '../src/webhooks.ts'

let service: Service
let receiver: Receiver
let client: HalfkeyClient

beforeAll(async () => {
  service = await startService()
  receiver = await startReceiver()
  client = createClient({ baseUrl: `${service.url}/v1`, apiKey: (await service.newTenant()).key })
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

/** Creates a user and answers the delivery that says so. */
async function deliveryOfNewUser(path: string): Promise<{ userId: string; delivery: Received }> {
  const { id } = await client.users.create({ email: `${path.slice(1)}-${Math.random()}@example.com` })
  const fits = (one: Received) => one.path === path && one.event.data.userId === id
  return { userId: id, delivery: await receiver.until(`user.created at ${path}`, fits) }
}

const verified = (delivery: Received, secrets: string | string[]) =>
  verifyWebhook(delivery.body, delivery.headers, secrets)
const rejected = (delivery: Received, secrets: string | string[]) =>
  expect(verified(delivery, secrets)).rejects.toThrow(WebhookVerificationError)

describe('deliveries of a real server', () => {
  test('are valid with the secret of their webhook only', async () => {
    const { secret } = await client.webhooks.create({ url: `${receiver.url}/one`, events: ['user.created'] })
    const other = await client.webhooks.create({ url: `${receiver.url}/other`, events: ['user.created'] })
    const { userId, delivery } = await deliveryOfNewUser('/one')
    const event = await verified(delivery, secret)
    if (event.type !== 'user.created') throw new Error(event.type)
    expect(event.data.userId).toBe(userId)
    expect(event.id).toBe(delivery.headers['x-service-event-id'])
    await rejected(delivery, other.secret)
    expect((await verified(delivery, [other.secret, secret])).id).toBe(event.id)
    await rejected(
      { ...delivery, body: delivery.body.replace(userId, `${userId.slice(0, -1)}${userId.endsWith('0') ? '1' : '0'}`) },
      secret,
    )
  })

  test('are valid with either of their two signatures alone', async () => {
    const { secret } = await client.webhooks.create({ url: `${receiver.url}/two`, events: ['user.created'] })
    const { delivery } = await deliveryOfNewUser('/two')
    for (const prefix of ['x-service-', 'webhook-']) {
      const headers = Object.fromEntries(Object.entries(delivery.headers).filter(([name]) => name.startsWith(prefix)))
      expect((await verifyWebhook(delivery.body, headers, secret)).type).toBe('user.created')
    }
  })

  test('are valid during a rotation with the old secret, the new one or both, and after it with the new one', async () => {
    const made = await client.webhooks.create({ url: `${receiver.url}/rotated`, events: ['user.created'] })
    const { secret } = await client.webhooks.rotate(made.id, { graceSeconds: 3_600 })
    if (secret === null) throw new Error('no new secret')
    expect(secret).not.toBe(made.secret)
    const during = (await deliveryOfNewUser('/rotated')).delivery
    for (const secrets of [made.secret, secret, [secret, made.secret], [made.secret, secret]])
      expect((await verified(during, secrets)).type).toBe('user.created')
    // What the receivers' other library makes of it is the same.
    for (const one of [made.secret, secret])
      expect(() => new StandardWebhook(one).verify(during.body, during.headers)).not.toThrow()

    expect((await client.webhooks.rotate(made.id, { endGrace: true })).secret).toBeNull()
    const after = (await deliveryOfNewUser('/rotated')).delivery
    expect((await verified(after, secret)).type).toBe('user.created')
    expect((await verified(after, [made.secret, secret])).type).toBe('user.created')
    await rejected(after, made.secret)
  })

  test('are valid for every type of event that can be tested', async () => {
    const { id, secret } = await client.webhooks.create({ url: `${receiver.url}/kinds`, events: ['*'] })
    const kinds: string[] = []
    for await (const { type } of client.webhooks.eventTypes({ pageSize: 100 })) kinds.push(type)
    expect(kinds.length).toBeGreaterThan(40)
    for (const eventType of kinds) await client.webhooks.test(id, { eventType: eventType as 'webhook.test' })
    for (const kind of kinds) {
      const fits = (one: Received) => one.path === '/kinds' && one.event.type === kind
      expect((await verified(await receiver.until(kind, fits), secret)).type).toBe(kind)
    }
  })
})
