import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { answer, type Received, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { createUser, deliveriesIn, deliveriesOf, insertDue, subscribe } from './delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

/** Each different, so that a delay that is taken twice or left out is seen. */
const DELAYS_MS = [120, 360, 60, 240, 180]

const receivers: Receiver[] = []
let service: Service
let dns: DnsServer
beforeAll(async () => {
  dns = await startDnsServer()
  service = await startService({
    HALFKEY_WEBHOOK_RETRY_DELAYS: DELAYS_MS.map((ms) => `${ms}ms`).join(','),
    HALFKEY_WEBHOOK_TIMEOUT: '5s',
    HALFKEY_DNS_SERVERS: dns.address,
  })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
  await dns.close()
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

describe.concurrent('a failed send', () => {
  test.each<[string, Behaviour, number | null, string]>([
    ['500', answer(500), 500, 'status 500'],
    ['400', answer(400), 400, 'status 400'],
    ['404', answer(404), 404, 'status 404'],
    ['410', answer(410), 410, 'status 410'],
    ['429', answer(429), 429, 'status 429'],
    ['304', answer(304), 304, 'status 304'],
    [
      'a redirect',
      (got, response) => response.writeHead(302, { location: `http://${got.headers.host}/elsewhere` }).end(),
      302,
      'status 302: redirects are not followed',
    ],
    ['no answer in time', () => {}, null, 'timeout'],
    ['a broken connection', (_got, _response, request) => request.socket.destroy(), null, 'reset'],
  ])(
    '(%s) is retried after its delay, and its record says what happened',
    async (_name, behaviour, statusCode, error) => {
      const tenant = await service.newTenant()
      const receiver = await newReceiver(atFirst(behaviour))
      const { id } = await subscribe(tenant, receiver.url)
      await createUser(tenant)
      const [first, retry] = (await receiver.count('send and retry', 2)) as [Received, Received]
      const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
      expect(delivery).toMatchObject({
        retryCount: 1,
        nextAttemptAt: null,
        attempts: [
          { number: 0, statusCode, error },
          { number: 1, statusCode: 200, error: null, responseSnippet: '' },
        ],
      })
      expect(retry.headers['x-service-event-id']).toBe(first.headers['x-service-event-id'])
      const failedAtMs = Date.parse(delivery.attempts[0].at) + delivery.attempts[0].durationMs
      expect(Date.parse(delivery.attempts[1].at) - failedAtMs).toBeGreaterThanOrEqual((DELAYS_MS[0] as number) - 1)
      if (error === 'timeout') expect(delivery.attempts[0].durationMs).toBeGreaterThanOrEqual(5_000)
      expect(receiver.received.map((got) => got.path)).toEqual(['/', '/'])
    },
  )

  test('is followed by five retries, never early, then by the dead letter and its event, and by no event about that one', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(answer(500, 'no'))
    const alarm = await newReceiver()
    const { id } = await subscribe(tenant, `${receiver.url}/failing`)
    const deaf = await subscribe(tenant, `${receiver.url}/deaf`, { events: ['webhook.delivery_dead_lettered'] })
    await subscribe(tenant, alarm.url, { events: ['webhook.*'] })
    await createUser(tenant)
    const sends = await receiver.count('all sends', 6, (got) => got.path === '/failing')
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    expect(dead).toMatchObject({ retryCount: 5, nextAttemptAt: null, eventId: sends[0]?.event.id })
    expect(dead.attempts.map((each: { number: number }) => each.number)).toEqual([0, 1, 2, 3, 4, 5])
    expect(dead.attempts.every((each: { statusCode: number }) => each.statusCode === 500)).toBe(true)
    DELAYS_MS.forEach((delayMs, retry) => {
      const gapMs = (sends[retry + 1]?.atMs ?? 0) - (sends[retry]?.atMs ?? 0)
      expect(gapMs).toBeGreaterThanOrEqual(delayMs)
    })
    expect(new Set(sends.map((got) => got.body)).size).toBe(1)
    const told = await alarm.until('the alarm', (got) => got.event.data.deliveryId === dead.id)
    expect(told.event).toMatchObject({
      type: 'webhook.delivery_dead_lettered',
      data: { webhookId: id, deliveryId: dead.id, eventId: dead.eventId, eventType: 'user.created' },
    })
    await deliveriesIn(tenant, deaf.id, 'dead_letter')
    const events = await service.sql(`select 1 from events where tenant_id = $1 and type like 'webhook.%'`, [
      tenant.tenantId,
    ])
    expect(events).toHaveLength(1)
    expect(receiver.received).toHaveLength(12)
  })

  test('waits as retrying with its next time; the last retry may succeed, and then nothing is dead', async () => {
    const tenant = await service.newTenant()
    let count = 0
    const receiver = await newReceiver(async (got, response) => {
      count += 1
      // So that the next one waits until it was seen.
      if (count === 2) await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
      answer(count < 6 ? 500 : 200)(got, response, null as never)
    })
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const waiting = await eventually('a retry waits', async () => {
      const [each] = await deliveriesOf(tenant, id, '&status=retrying')
      return each?.retryCount === 2 && each
    })
    expect(waiting.attempts).toHaveLength(2)
    expect(waiting.nextAttemptAt).toMatch(/^\d{4}-\d\d-\d\dT.*\.\d{3}Z$/)
    await tenant.patch(`/webhooks/${id}`, { status: 'active' })
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    expect(delivery).toMatchObject({ retryCount: 5 })
    expect(delivery.attempts).toHaveLength(6)
    const dead = await service.sql(`select 1 from events where tenant_id = $1 and type like 'webhook.%'`, [
      tenant.tenantId,
    ])
    expect(dead).toEqual([])
  })

  test('keeps the start of the answer as text that is valid, bounded and free of NUL', async () => {
    const tenant = await service.newTenant()
    const bytes = Buffer.concat([
      Buffer.from('<img onerror=alert(1)>a\0b€'),
      Buffer.from([0xff, 0xfe]),
      Buffer.alloc(9_000, '€'),
    ])
    const receiver = await newReceiver(atFirst((_, response) => response.writeHead(500).end(bytes)))
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    const snippet = delivery.attempts[0].responseSnippet as string
    expect(snippet.startsWith('<img onerror=alert(1)>ab€\ufffd')).toBe(true)
    expect(Buffer.byteLength(snippet)).toBeLessThanOrEqual(4_096)
    expect(Buffer.byteLength(snippet)).toBeGreaterThan(4_000)
    expect(snippet.isWellFormed() && !snippet.includes('\0')).toBe(true)
  })

  test('because the name now leads inside says so, without an address, and reaches nothing', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, 'http://flips.test:8443/hook')
    dns.set('flips.test', [{ type: 'A', address: '10.7.7.7' }])
    await createUser(tenant)
    const failed = await eventually('an attempt', async () => {
      const [each] = await deliveriesOf(tenant, id)
      return each?.attempts.length > 0 && each
    })
    expect(failed.attempts[0]).toMatchObject({ statusCode: null, responseSnippet: null })
    expect(failed.attempts[0].error).toMatch(/^blocked: /)
    expect(JSON.stringify(failed)).not.toContain('10.7.7.7')
  })
})

describe.concurrent('a dead letter', () => {
  test('asked for again ten times at once is one new cycle with the same event and its history', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    // Held until all have asked: one that asks after the delivery has succeeded wishes for another.
    const asked = Promise.withResolvers<void>()
    receiver.behave((...call) => void asked.promise.then(() => answer(200)(...call)))
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`)),
    )
    asked.resolve()
    expect(answers.map((each) => each.status)).toEqual(Array(10).fill(200))
    expect(answers.every((each) => each.body.data.id === dead.id)).toBe(true)
    const [again] = await deliveriesIn(tenant, id, 'succeeded')
    expect(again).toMatchObject({ id: dead.id, eventId: dead.eventId, retryCount: 0, createdAt: dead.createdAt })
    expect(again.attempts.map((each: { number: number }) => each.number)).toEqual([0, 1, 2, 3, 4, 5, 6])
    expect(again.attempts.slice(0, 6)).toEqual(dead.attempts)
    expect(again.attempts[6]).toMatchObject({ statusCode: 200 })
    // A later one is a later wish.
    expect((await tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`)).body.data.status).toBe('pending')
    await receiver.count('six, one and one', 8)
    expect((await deliveriesIn(tenant, id, 'succeeded'))[0].attempts).toHaveLength(8)
    expect(new Set(receiver.received.map((got) => got.body)).size).toBe(1)
  })

  test('that fails again has all its retries again', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    await tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`)
    await receiver.count('two cycles', 12)
    const [again] = await deliveriesIn(tenant, id, 'dead_letter')
    expect(again).toMatchObject({ id: dead.id, retryCount: 5 })
    // The list shows the last ten attempts, the record all of them.
    expect((await tenant.get(`/webhooks/${id}/deliveries/${dead.id}`)).body.data.attempts).toHaveLength(12)
  })
})

describe.concurrent('while a delivery is on its way', () => {
  test('a new URL counts from the next attempt on', async () => {
    const tenant = await service.newTenant()
    const moved = await newReceiver()
    const receiver = await newReceiver(async (_, response) => {
      await tenant.patch(`/webhooks/${id}`, { url: `${moved.url}/new` })
      response.writeHead(500).end()
    })
    const { id, secret } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const got = await moved.until('the retry', () => true)
    expect(got.path).toBe('/new')
    expect(() => new Webhook(secret).verify(got.body, got.headers)).not.toThrow()
    expect(receiver.received.map((each) => each.event.id)).toEqual([got.event.id])
  })

  test('a pause holds its retry, and active lets it go', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(
      atFirst(async (_, response) => {
        await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
        response.writeHead(500).end()
      }),
    )
    const { id } = await subscribe(tenant, receiver.url)
    const witness = await subscribe(tenant, `${receiver.url}/witness`, { events: ['user.updated'] })
    const user = await createUser(tenant)
    await eventually('the retry is overdue', async () => {
      const [each] = await deliveriesOf(tenant, id, '&status=retrying')
      return each !== undefined && Date.parse(each.nextAttemptAt) < Date.now() - 200
    })
    await tenant.patch(`/users/${user}`, { name: 'Ada' })
    await deliveriesIn(tenant, witness.id, 'succeeded')
    expect(receiver.received.filter((got) => got.path === '/')).toHaveLength(1)
    await tenant.patch(`/webhooks/${id}`, { status: 'active' })
    await receiver.count('the retry', 2, (got) => got.path === '/')
    expect(await deliveriesIn(tenant, id, 'succeeded')).toHaveLength(1)
  })

  test('deleting the webhook cancels it, however the send that is in the air ends', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(async (_, response) => {
      await tenant.delete(`/webhooks/${id}`)
      response.writeHead(500).end()
    })
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const done = await eventually('it is cancelled', async () => {
      const [row] = await service.sql<{ status: string; attempts: number }>(
        'select status, attempts from deliveries_done where webhook_id = $1',
        [id],
      )
      return row
    })
    expect(done).toEqual({ status: 'cancelled', attempts: 1 })
    expect(receiver.received).toHaveLength(1)
  })

  test('deleting a webhook with 10 000 pending cancels each, sends none, and does not hold up another', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver()
    const { id } = await subscribe(tenant, `${receiver.url}/deleted`)
    const other = await subscribe(tenant, `${receiver.url}/other`, { events: ['user.updated'] })
    const user = await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded')
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    await insertDue(service, tenant, id, 10_000)
    expect((await tenant.delete(`/webhooks/${id}`)).status).toBe(200)
    let beside = 0
    await eventually('all are cancelled', async () => {
      beside += 1
      await tenant.patch(`/users/${user}`, { name: `Ada ${beside}` })
      await receiver.count('another', beside, (got) => got.path === '/other')
      const [row] = await service.sql<{ pending: number }>(
        'select count(*)::int as pending from deliveries where webhook_id = $1',
        [id],
      )
      return row?.pending === 0
    })
    const rows = await service.sql(
      'select status, count(*)::int as n from deliveries_done where webhook_id = $1 group by 1',
      [id],
    )
    expect(rows).toEqual(
      expect.arrayContaining([
        { status: 'cancelled', n: 10_000 },
        { status: 'succeeded', n: 1 },
      ]),
    )
    expect(receiver.received.filter((got) => got.path === '/deleted')).toHaveLength(1)
    await deliveriesIn(tenant, other.id, 'succeeded', Math.min(beside, 100))
  })
})
