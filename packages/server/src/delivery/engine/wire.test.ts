import { createHmac, timingSafeEqual } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { answer, type Received, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { createUser, deliveriesIn, deliveryOf, subscribe } from './delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

const receivers: Receiver[] = []
let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '120ms' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

type Behaviour = Parameters<Receiver['behave']>[0]

async function newReceiver(behaviour: Behaviour = answer(200)): Promise<Receiver> {
  const receiver = await startReceiver(behaviour)
  receivers.push(receiver)
  return receiver
}

/** Answers the first request by one behaviour, later ones with 200. */
function atFirst(behaviour: Behaviour): Behaviour {
  let count = 0
  return (got, response, request) => (count++ === 0 ? behaviour : answer(200))(got, response, request)
}

/** A receiver built from the specification's section 6 and nothing else. */
function specificationAccepts(secret: string, { headers, body }: Received, nowMs = Date.now()): boolean {
  const timestamp = headers['x-service-timestamp'] as string
  const expected = `sha256=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`
  const given = headers['x-service-signature'] as string
  if (given.length !== expected.length || !timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return false
  return /^\d+$/.test(timestamp) && Math.floor(nowMs / 1000) - Number(timestamp) <= 300
}

/** A receiver built with the Standard Webhooks library. */
function libraryAccepts(secret: string, { headers, body }: Received): boolean {
  try {
    new Webhook(secret).verify(body, headers)
    return true
  } catch {
    return false
  }
}

function expectGenuine(secret: string, got: Received): void {
  expect(specificationAccepts(secret, got)).toBe(true)
  expect(libraryAccepts(secret, got)).toBe(true)
  const forged = { ...got, body: got.body.replace('"data"', '"Data"') }
  expect(specificationAccepts(secret, forged)).toBe(false)
  expect(libraryAccepts(secret, forged)).toBe(false)
}

describe.concurrent('the wire', () => {
  test('a receiver made from the specification and one of Standard Webhooks accept sends, retries and tests', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(atFirst(answer(503)))
    const { id, secret } = await subscribe(tenant, `${receiver.url}/hook?a=b`)
    const user = await createUser(tenant, { email: 'Zoë+\u{1f511}@example.com' })
    const [first, retry] = await receiver.count('send and retry', 2)
    const tested = await tenant.post(`/webhooks/${id}/test`)
    const test = await receiver.until('test', (got) => got.event.type === 'webhook.test')
    for (const got of [first, retry, test] as Received[]) {
      expectGenuine(secret, got)
      const at = got.headers['x-service-timestamp']
      expect(got.path).toBe('/hook?a=b')
      expect(got.headers).toEqual({
        accept: undefined,
        'accept-encoding': 'identity',
        connection: 'keep-alive',
        'content-length': String(Buffer.byteLength(got.body)),
        'content-type': 'application/json',
        host: new URL(receiver.url).host,
        'user-agent': expect.stringMatching(/^Halfkey-Webhooks\//),
        'x-service-event-id': got.event.id,
        'x-service-signature': expect.stringMatching(/^sha256=[0-9a-f]{64}$/),
        'x-service-timestamp': expect.stringMatching(/^\d{10}$/),
        'webhook-id': got.event.id,
        'webhook-timestamp': at,
        'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
      })
      expect(Math.abs(got.atMs / 1000 - Number(at))).toBeLessThan(30)
    }
    expect(first?.event.data.userId).toBe(user)
    expect(retry?.body).toBe(first?.body)
    expect(test.headers['x-service-event-id']).toBe(tested.body.data.eventId)
  })

  test('the event is the specification’s envelope, and its stored bytes are those of every send', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(atFirst(answer(500)))
    const { id } = await subscribe(tenant, receiver.url)
    const made = (await tenant.post('/users', {})).body.data
    const [first, second] = await receiver.count('send and retry', 2)
    const event = first?.event
    expect(Object.keys(event)).toEqual(['id', 'type', 'created_at', 'api_version', 'data'])
    expect(event).toEqual({
      id: expect.stringMatching(/^evt_[0-9a-hjkmnp-tv-z]{26}$/),
      type: 'user.created',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      api_version: '2026-11-01',
      data: { userId: made.id, email: '', partyId: made.partyId },
    })
    const [stored] = await service.sql<{ body: string }>('select body from events where id = $1', [event.id])
    expect([first?.body, second?.body]).toEqual([stored?.body, stored?.body])
    const [listed] = await deliveriesIn(tenant, id, 'succeeded')
    expect((await deliveryOf(tenant, id, listed.id)).payload).toEqual(event)
  })

  test('during a rotation’s grace both secrets verify; endGrace leaves the new one alone', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver()
    const { id, secret: old } = await subscribe(tenant, receiver.url)
    const rotated = await tenant.post(`/webhooks/${id}/rotate`, { graceSeconds: 3_600 })
    const { secret } = rotated.body.data
    const next = async () => {
      const user = await createUser(tenant)
      return receiver.until('the next', (got) => got.event.data.userId === user)
    }
    const during = await next()
    expect(specificationAccepts(old, during)).toBe(true)
    expect(specificationAccepts(secret, during)).toBe(false)
    expect([libraryAccepts(old, during), libraryAccepts(secret, during)]).toEqual([true, true])
    expect(during.headers['webhook-signature']?.split(' ')).toHaveLength(2)
    await tenant.post(`/webhooks/${id}/rotate`, { endGrace: true })
    const after = await next()
    expectGenuine(secret, after)
    expect([specificationAccepts(old, after), libraryAccepts(old, after)]).toEqual([false, false])
  })

  test('a grace ends by itself, and one of 0 s has no beginning', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver()
    const { id } = await subscribe(tenant, receiver.url)
    for (const graceSeconds of [1, 0]) {
      const { secret } = (await tenant.post(`/webhooks/${id}/rotate`, { graceSeconds })).body.data
      await eventually('the grace is over', async () => {
        const [row] = await service.sql<{ over: boolean }>(
          'select coalesce(previous_secret_until < now(), true) as over from webhooks where id = $1',
          [id],
        )
        return row?.over
      })
      const user = await createUser(tenant)
      expectGenuine(secret, await receiver.until('the next', (got) => got.event.data.userId === user))
    }
  })

  test('a retry after a rotation is signed with both secrets, a first send before it with the old one', async () => {
    const tenant = await service.newTenant()
    const rotating = Promise.withResolvers<string>()
    const receiver = await newReceiver(
      atFirst(async (_, response) => {
        const rotated = await tenant.post(`/webhooks/${id}/rotate`)
        rotating.resolve(rotated.body.data.secret)
        response.writeHead(500).end()
      }),
    )
    const { id, secret: old } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [first, retry] = await receiver.count('send and retry', 2)
    const secret = await rotating.promise
    expectGenuine(old, first as Received)
    expect(libraryAccepts(secret, first as Received)).toBe(false)
    expect(specificationAccepts(old, retry as Received)).toBe(true)
    expect([libraryAccepts(old, retry as Received), libraryAccepts(secret, retry as Received)]).toEqual([true, true])
  })
})
