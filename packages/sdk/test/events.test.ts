import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { eventually, type Service, startService } from '../../server/test/harness/harness.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import type { EventPage } from '../src/models.ts'
import type { WebhookEvent } from '../src/webhooks.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** A client of a new tenant, whose own first events are in its feed. */
async function newClient(): Promise<HalfkeyClient> {
  const client = createClient({ baseUrl: service.url, apiKey: (await service.newTenant()).key })
  await eventually('the events of the new tenant are in its feed', async () => {
    const { events } = await client.events.list({ type: 'api_key.created', limit: 1 })
    return events.length > 0
  })
  return client
}

/** The users of the next `count` events of a feed. */
async function usersOf(feed: AsyncIterable<WebhookEvent>, count: number): Promise<string[]> {
  const users: string[] = []
  for await (const event of feed) {
    if (event.type === 'user.created') users.push(event.data.userId)
    if (users.length === count) break
  }
  return users
}

async function createUsers(client: HalfkeyClient, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < count; at += 1) ids.push((await client.users.create({})).id)
  return ids
}

describe('the event feed', () => {
  test('is read in pages with typed events', async () => {
    const client = await newClient()
    const start = await client.events.list({ last: 0 })
    expect(start).toMatchObject({ events: [], hasMore: false, missed: false })
    const [userId] = await createUsers(client, 1)
    const page = await client.events.list({ after: start.nextCursor, type: 'user.created', limit: 10, wait: 30 })
    expectTypeOf(page).toEqualTypeOf<EventPage>()
    const [event] = page.events
    if (event?.type !== 'user.created') throw new Error('another event')
    expectTypeOf(event.data.email).toEqualTypeOf<string>()
    expect(event.data.userId).toBe(userId)
  })

  test('returns each event once, in order, while twenty writers write', async () => {
    const client = await newClient()
    const { nextCursor: after } = await client.events.list({ last: 0 })
    const following = usersOf(client.events.follow({ after, type: 'user.created', limit: 3 }), 60)
    const made = (await Promise.all(Array.from({ length: 20 }, () => createUsers(client, 3)))).flat()
    const seen = await following
    expect([...seen].sort()).toEqual(made.sort())
    expect(await usersOf(client.events.follow({ after }), 60)).toEqual(seen)
  })

  test('continues from its cursor: no event is skipped or repeated', async () => {
    const client = await newClient()
    const { nextCursor: after } = await client.events.list({ last: 0 })
    const users = await createUsers(client, 7)
    // Else portions would be as large as what has come by then.
    await eventually('all seven are in the feed', async () => {
      const { events } = await client.events.list({ after, type: 'user.created' })
      return events.length === users.length
    })
    const first = client.events.follow({ after, type: 'user.created', limit: 2 })
    expect(first.cursor).toBe(after)
    // Five of seven: the portion of the fifth is not done.
    expect(await usersOf(first, 5)).toEqual(users.slice(0, 5))
    const rest = client.events.follow({ after: first.cursor, type: 'user.created' })
    expect(await usersOf(rest, 3)).toEqual(users.slice(4))
  })

  test('ends at its signal, also while it waits', async () => {
    const client = await newClient()
    const controller = new AbortController()
    const { nextCursor: after } = await client.events.list({ last: 0 })
    const following = usersOf(client.events.follow({ after, signal: controller.signal, type: 'tx.*' }), 1)
    await client.events.list({ after, type: 'tx.*', wait: 1 })
    controller.abort(new Error('enough'))
    await expect(following).rejects.toThrow('enough')
  })

  test('ends at a permanent error', async () => {
    const client = await newClient()
    await expect(usersOf(client.events.follow({ after: 'cur_nonsense' }), 1)).rejects.toMatchObject({
      code: 'validation_failed',
    })
  })

  test('retries after temporary errors, and loses no event', async () => {
    const tenant = await service.newTenant()
    // Stands between: refuses connections, answers 502 and 429, and passes on what is left.
    let calls = 0
    const proxy = createServer(async (request, response) => {
      calls += 1
      if (calls % 4 === 1) return void request.socket.destroy()
      if (calls % 4 === 2) return void response.writeHead(502).end('<html>')
      if (calls % 4 === 3) return void response.writeHead(429, { 'retry-after': '0' }).end('{}')
      const headers = { 'x-api-key': String(request.headers['x-api-key']) }
      const answer = await fetch(`${service.url}${request.url}`, { headers })
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const direct = createClient({ baseUrl: service.url, apiKey: tenant.key })
    const users = await createUsers(direct, 4)
    const follower = createClient({ baseUrl, apiKey: tenant.key }).events.follow({ type: 'user.created', limit: 2 })
    expect(await usersOf(follower, 4)).toEqual(users)
    expect(calls).toBeGreaterThan(7)
    await new Promise((resolve) => proxy.close(resolve))
  })
})

declare module '../src/models.ts' {
  interface CustomEventData {
    'acme.invoice.paid': { total: string }
  }
}

test('events of declared types are published and read with the type of their data', async () => {
  const halfkey = await newClient()
  const type = await halfkey.eventTypes.create({ name: 'acme.invoice.paid', schema: { required: ['total'] } })
  const event = await halfkey.events.publish({
    type: 'acme.invoice.paid',
    data: { total: '25.00' },
    idempotencyKey: '1',
  })
  expectTypeOf(event.data).toEqualTypeOf<{ total: string }>()
  const got = await halfkey.events.get(event.id)
  expect(got).toEqual(event)
  if (got.type === 'acme.invoice.paid') expectTypeOf(got.data).toEqualTypeOf<{ total: string }>()
  const again = { type: 'acme.invoice.paid', data: { total: '25.00' }, idempotencyKey: '1' } as const
  const batch = await halfkey.events.publishBatch([again, { ...again, idempotencyKey: '2' }])
  expect(batch.map(({ id }) => id === event.id)).toEqual([true, false])
  // @ts-expect-error The total is missing.
  const refused = halfkey.events.publish({ type: 'acme.invoice.paid', data: {} })
  await expect(refused).rejects.toMatchObject({ code: 'validation_failed', details: [{ field: 'data.total' }] })
  expect((await halfkey.eventTypes.update(type.id, { schema: null })).schemaVersion).toBe(2)
  expect((await halfkey.eventTypes.archive(type.id)).status).toBe('archived')
  const archived = await halfkey.eventTypes.list({ status: 'archived' })
  expect(archived.data.map(({ id }) => id)).toEqual([type.id])
  await expect(halfkey.events.publish(again)).rejects.toMatchObject({ code: 'event_type_archived' })
})
