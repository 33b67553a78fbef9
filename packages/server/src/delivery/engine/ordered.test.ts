import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Received, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { sql } from '../../platform/db/db.ts'
import { idMs, idTime } from '../../platform/ids.ts'
import { newType, ok } from '../events/own-events.fixture.ts'
import { deliveriesIn, deliveriesOf, jobEnded, subscribe } from './delivery.fixture.ts'
import { createReleaseOfStranded } from './ordered.ts'

/** Takes calls and sends nothing: its events wait until a worker is started. */
let api: Service
const workers: Service[] = []
const receivers: Receiver[] = []
beforeAll(async () => {
  api = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  for (const each of [...workers, api]) await each.stop()
})

async function startWorkers(count: number): Promise<void> {
  while (workers.length < count)
    workers.push(
      await startService({
        DATABASE_URL: api.databaseUrl,
        HALFKEY_DATA_DIR: api.dataDir,
        HALFKEY_ROLE: 'worker',
        HALFKEY_WEBHOOK_RETRY_DELAYS: '100ms,100ms',
      }),
    )
}

const TYPE = 'acme.step'

async function newTenant(): Promise<Tenant> {
  const tenant = await api.newTenant()
  await newType(tenant, TYPE)
  return tenant
}

async function newReceiver(behaviour: Parameters<Receiver['behave']>[0] = answer(200)): Promise<Receiver> {
  const receiver = await startReceiver(behaviour)
  receivers.push(receiver)
  return receiver
}

interface Step {
  key: string | null
  n: number
}
const stepOf = ({ event }: Received): Step => event.data
const bodyOf = (key: string | null, n: number) => ({
  type: TYPE,
  data: { key, n },
  ...(key === null ? {} : { orderingKey: key }),
})
const publish = async (tenant: Tenant, key: string | null, n: number): Promise<string> =>
  ok(await tenant.post('/events', bodyOf(key, n)), 201).id

/** What a receiver was sent with a key, in its order. */
const sent = (receiver: Receiver, key: string) =>
  receiver.received
    .map(stepOf)
    .filter((step) => step.key === key)
    .map(({ n }) => n)
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
const allSent = (receiver: Receiver, count: number) =>
  eventually(`${count} sends`, async () => receiver.received.length >= count)

describe('before the fan-out', () => {
  test('an event sorts after one with its key that an API process with a fast clock took before', async () => {
    const tenant = await newTenant()
    const receiver = await newReceiver()
    await subscribe(tenant, receiver.url, { events: [TYPE] })
    const first = await publish(tenant, 'a', 0)
    // As a process whose clock is a minute ahead would have named it: longer than this takes on any machine.
    const ahead = `evt_${idTime(idMs(first) + 60_000)}${first.slice(14)}`
    await api.sql('update outbox set event_id = $2 where event_id = $1', [first, ahead])
    await api.sql('update events set id = $2 where id = $1', [first, ahead])
    const second = await publish(tenant, 'a', 1)
    ok(await tenant.post('/events/batch', { events: [bodyOf('a', 2), bodyOf('b', 0), bodyOf('a', 3)] }), 201)
    const third = await publish(tenant, 'b', 1)
    expect(second > ahead).toBe(true)
    expect(third < ahead).toBe(true)
    await startWorkers(2)
    await allSent(receiver, 6)
    expect(sent(receiver, 'a')).toEqual([0, 1, 2, 3])
    expect(sent(receiver, 'b')).toEqual([0, 1])
  })

  test('an ordering key is a text of 1 to 255 characters, and part of what an idempotency key stands for', async () => {
    const tenant = await newTenant()
    for (const orderingKey of ['', 'x'.repeat(256), 7])
      expect(
        expectRefusal(await tenant.post('/events', { type: TYPE, data: {}, orderingKey }), 'validation_failed')[0]
          .field,
      ).toBe('orderingKey')
    const body = { type: TYPE, data: {}, idempotencyKey: 'once', orderingKey: 'a' }
    const { id } = ok(await tenant.post('/events', body), 201)
    expect(ok(await tenant.post('/events', body), 201).id).toBe(id)
    expect((await tenant.post('/events', { ...body, orderingKey: 'b' })).status).toBe(409)
  })
})

describe('events with one key', () => {
  test('arrive one at a time in their order, with two workers, and hold up no others', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    let open = 0
    let most = 0
    const receiver = await newReceiver((got, response) => {
      const ofA = stepOf(got).key === 'a'
      if (ofA) open += 1
      most = Math.max(most, open)
      setTimeout(() => {
        if (ofA) open -= 1
        response.end()
      }, 3)
    })
    await subscribe(tenant, receiver.url, { events: [TYPE] })
    for (const n of upTo(15)) for (const key of ['a', 'b', null]) await publish(tenant, key, n)
    await allSent(receiver, 45)
    for (const key of ['a', 'b']) expect(sent(receiver, key)).toEqual(upTo(15))
    expect(most).toBe(1)
  })

  test('wait while one of them fails, with its key shown, and go on once it has been delivered', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    let fails = true
    const receiver = await newReceiver((got, response) => {
      const { key, n } = stepOf(got)
      response.writeHead(fails && key === 'a' && n === 0 ? 500 : 200).end()
      fails &&= !(key === 'a' && n === 0 && sent(receiver, 'a').length === 2)
    })
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'paused' }))
    for (const n of upTo(3)) await publish(tenant, 'a', n)
    await eventually('all are fanned out', async () => (await deliveriesOf(tenant, id)).length === 3)
    const waiting = await deliveriesOf(tenant, id)
    expect(waiting.map(({ heldByKey }) => heldByKey).sort()).toEqual(['a', 'a', null])
    for (const each of waiting) expect(each.nextAttemptAt === null).toBe(each.heldByKey !== null)
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active' }))
    await publish(tenant, 'b', 0)
    await deliveriesIn(tenant, id, 'succeeded', 4)
    expect(sent(receiver, 'a')).toEqual([0, 0, 0, 1, 2])
    for (const each of await deliveriesOf(tenant, id)) expect(each.heldByKey).toBeNull()
  })

  test('go on behind one that became a dead letter, whose retry by hand waits for nothing', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    const receiver = await newReceiver((got, response) => {
      response
        .writeHead(stepOf(got).n === 0 && sent(receiver, 'a').filter((n) => n === 0).length <= 3 ? 500 : 200)
        .end()
    })
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    for (const n of upTo(3)) await publish(tenant, 'a', n)
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    await deliveriesIn(tenant, id, 'succeeded', 2)
    expect(sent(receiver, 'a')).toEqual([0, 0, 0, 1, 2])
    ok(await tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`))
    await deliveriesIn(tenant, id, 'succeeded', 3)
  })

  test('are sent at once by a recovery only if they were dead letters when it was asked for', async () => {
    const own = await startService({ HALFKEY_ROLE: 'api', HALFKEY_WEBHOOK_RETRY_DELAYS: '100ms' })
    const tenant = await own.newTenant()
    await newType(tenant, TYPE)
    const let1 = Promise.withResolvers<void>()
    const receiver = await newReceiver(async (got, response) => {
      if (stepOf(got).n === 1) await let1.promise
      response.writeHead(stepOf(got).n === 0 ? 500 : 200).end()
    })
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    for (const n of upTo(3)) await publish(tenant, 'a', n)
    const since = new Date(Date.now() - 60_000).toISOString()
    const job = ok(await tenant.post(`/webhooks/${id}/recover`, { since }), 201)
    expect(job.total).toBe(0)
    // While its row is locked, no worker takes the job up.
    const worker = await own.deps.db.tx(async (tx) => {
      await tx.run(sql`select from jobs for update`)
      const { databaseUrl: DATABASE_URL, dataDir: HALFKEY_DATA_DIR } = own
      const shared = { DATABASE_URL, HALFKEY_DATA_DIR, HALFKEY_WEBHOOK_RETRY_DELAYS: '100ms' }
      const started = await startService({ ...shared, HALFKEY_ROLE: 'worker' })
      await receiver.until('the second', (got) => stepOf(got).n === 1)
      return started
    })
    expect(await jobEnded(tenant, job.id)).toMatchObject({ status: 'succeeded', progress: 0, total: 0 })
    let1.resolve()
    await deliveriesIn(tenant, id, 'succeeded', 2)
    expect(sent(receiver, 'a')).toEqual([0, 0, 1, 2])
    const again = ok(await tenant.post(`/webhooks/${id}/recover`, { since }), 201)
    expect(await jobEnded(tenant, again.id)).toMatchObject({ status: 'succeeded', progress: 1, total: 1 })
    await eventually('it is sent again', async () => sent(receiver, 'a').length === 6)
    expect(sent(receiver, 'a')).toEqual([0, 0, 1, 2, 0, 0])
    await worker.stop()
    await own.stop()
  })

  test('are sent at once by a retry by hand, and those behind still wait for the first', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    const let0 = Promise.withResolvers<void>()
    const receiver = await newReceiver(async (got, response) => {
      if (stepOf(got).n === 0) await let0.promise
      response.end()
    })
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    for (const n of upTo(4)) await publish(tenant, 'a', n)
    await eventually('all are fanned out', async () => (await deliveriesOf(tenant, id)).length === 4)
    await receiver.until('the first', (got) => stepOf(got).n === 0)
    const byEvent = (await deliveriesOf(tenant, id)).sort((a, b) => (a.eventId < b.eventId ? -1 : 1))
    ok(await tenant.post(`/webhooks/${id}/deliveries/${byEvent[2].id}/retry`))
    await deliveriesIn(tenant, id, 'succeeded')
    expect(sent(receiver, 'a')).toEqual([0, 2])
    let0.resolve()
    await deliveriesIn(tenant, id, 'succeeded', 4)
    expect(sent(receiver, 'a')).toEqual([0, 2, 1, 3])
  })

  test('end with their webhook, and those of a webhook that is enabled again go on', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'paused' }))
    for (const n of upTo(5)) await publish(tenant, 'a', n)
    await eventually('all are fanned out', async () => (await deliveriesOf(tenant, id)).length === 5)
    await api.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    await deliveriesIn(tenant, id, 'dead_letter', 5)
    receiver.behave(answer(200))
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active' }))
    for (const n of upTo(3)) await publish(tenant, 'a', n + 5)
    await deliveriesIn(tenant, id, 'succeeded', 3)
    expect(sent(receiver, 'a').slice(-3)).toEqual([5, 6, 7])
  })

  test('that a worker of an earlier version left behind nothing are found, also at a busy webhook', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    const let0 = Promise.withResolvers<void>()
    const receiver = await newReceiver(async (got, response) => {
      if (stepOf(got).key === 'busy') await let0.promise
      response.end()
    })
    const { id } = await subscribe(tenant, receiver.url, { events: [TYPE] })
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'paused' }))
    for (const n of upTo(3)) for (const key of ['a', 'b']) await publish(tenant, key, n)
    await eventually('all are fanned out', async () => (await deliveriesOf(tenant, id)).length === 6)
    await api.sql(`delete from deliveries where webhook_id = $1 and place = 1 and ordering_key = 'a'`, [id])
    await publish(tenant, 'busy', 0)
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active' }))
    await receiver.until('the webhook is busy', (got) => stepOf(got).key === 'busy')
    await deliveriesIn(tenant, id, 'succeeded', 3)
    const releaseStranded = createReleaseOfStranded(api.deps.db)
    const released = await releaseStranded()
    // Each minute a worker looks for them, too: then it says so.
    if (released === 0) expect(workers.map((each) => each.logs()).join('')).toContain('deliveries waited behind none')
    else expect(released).toBe(1)
    await deliveriesIn(tenant, id, 'succeeded', 5)
    let0.resolve()
    await deliveriesIn(tenant, id, 'succeeded', 6)
    expect([sent(receiver, 'a'), sent(receiver, 'b')]).toEqual([
      [1, 2],
      [0, 1, 2],
    ])
    expect(await releaseStranded()).toBe(0)
  })

  test('of many keys keep their order at endpoints that fail at random', async () => {
    await startWorkers(2)
    const tenant = await newTenant()
    const delivered: [Receiver, Step][] = []
    const flaky = () =>
      newReceiver((got, response) => {
        const status = Math.random() < 0.15 ? 500 : 200
        const receiver = made.find((each) => each.received.includes(got)) as Receiver
        if (status === 200) delivered.push([receiver, stepOf(got)])
        response.writeHead(status).end()
      })
    const made: Receiver[] = []
    for (let n = 0; n < 2; n += 1) made.push(await flaky())
    const ids: string[] = []
    for (const { url } of made) ids.push((await subscribe(tenant, url, { events: ['acme.*'] })).id)
    const keys = ['a', 'b', 'c', 'd', 'e']
    for (const n of upTo(25)) ok(await tenant.post('/events/batch', { events: keys.map((key) => bodyOf(key, n)) }), 201)
    for (const id of ids)
      await eventually('all have ended', async () => {
        const [left] = await api.sql<{ n: number }>(
          'select (select count(*) from deliveries where webhook_id = $1)::int + (select count(*) from outbox where tenant_id = $2)::int as n',
          [id, tenant.tenantId],
        )
        return left?.n === 0
      })
    for (const receiver of made)
      for (const key of keys) {
        const order = delivered.filter(([to, step]) => to === receiver && step.key === key).map(([, { n }]) => n)
        expect(order).toEqual([...order].sort((a, b) => a - b))
        expect(order.length).toBeGreaterThan(20)
      }
  })
})
