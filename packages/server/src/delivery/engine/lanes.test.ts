import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import {
  createUser,
  deliveriesIn,
  deliveriesOf,
  deliveryOf,
  insertDue,
  insertEvents,
  subscribe,
} from './delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

const receivers: Receiver[] = []
let service: Service
let second: Service
/** The delays of the specification: what fails here waits for a minute. */
beforeAll(async () => {
  service = await startService({ HALFKEY_DATABASE_CONNECTIONS: '24' })
  second = await startService({
    DATABASE_URL: service.databaseUrl,
    HALFKEY_DATA_DIR: service.dataDir,
    HALFKEY_ROLE: 'worker',
  })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await second.stop()
  await service.stop()
})

type Behaviour = Parameters<Receiver['behave']>[0]

async function newReceiver(behaviour: Behaviour = answer(200)): Promise<Receiver> {
  const receiver = await startReceiver(behaviour)
  receivers.push(receiver)
  return receiver
}

/** Answers 200 after a while. */
const after =
  (ms: number): Behaviour =>
  (_, response) =>
    void setTimeout(() => response.end(), ms)

/** Events one by one: what each finds is a lane that its worker may send to at once, and the other's requests there. */
async function insertNow(of: Service, tenant: Tenant, _: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await insertEvents(of, tenant, 1)
    of.deps.wake.outbox()
    second.deps.wake.outbox()
  }
}

const idsOf = (receiver: Receiver) => receiver.received.map((got) => got.event.id as string)

/** Answers after a while; from the `late`-th request on, not before five were open at once, however slowly they come. */
function togetherFrom(late: number, ms: number, seen: (open: number) => void): Behaviour {
  const five = Promise.withResolvers<void>()
  let count = 0
  let open = 0
  return async (_, response) => {
    count += 1
    open += 1
    seen(open)
    if (open === 5) five.resolve()
    if (count >= late) await five.promise
    setTimeout(() => {
      open -= 1
      response.end()
    }, ms)
  }
}

describe('one endpoint', () => {
  test.each([
    ['that takes its time never has more than eight requests at once', 120, 120, [7, 8], insertDue],
    ['that answers fast never has more than thirty-two', 15, 600, [9, 32], insertDue],
    ['whose events are fanned out now never has more than eight', 120, 120, [7, 8], insertNow],
  ] as const)(
    '%s, with two workers too, and gets each event once',
    async (_, delayMs, count, [least, most], insert) => {
      const tenant = await service.newTenant()
      const receiver = await newReceiver(after(delayMs))
      const { id } = await subscribe(tenant, receiver.url)
      let sent = 0
      // Again and again, for a busy machine may begin them too slowly to have so many open.
      await eventually(`${least} at once`, async () => {
        for (let burst = 0; burst < 4; burst += 1) await insert(service, tenant, id, count / 4)
        sent += count
        await receiver.count('all', sent)
        return receiver.mostAtOnce() >= least
      })
      await deliveriesIn(tenant, id, 'succeeded', 100)
      expect(receiver.mostAtOnce()).toBeLessThanOrEqual(most)
      expect(new Set(idsOf(receiver)).size).toBe(sent)
      expect(receiver.received).toHaveLength(sent)
    },
  )

  test('that fails is tried one at a time, and gets more again with each success', async (context) => {
    // Each worker learns for itself: here is one alone.
    const alone = await startService()
    context.onTestFinished(() => alone.stop())
    const tenant = await alone.newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url)
    await insertDue(alone, tenant, id, 1)
    await deliveriesIn(tenant, id, 'retrying')
    const atOnce: number[] = []
    receiver.behave(togetherFrom(20, 20, (open) => atOnce.push(open)))
    await insertDue(alone, tenant, id, 40)
    await receiver.count('all', 41)
    expect(atOnce[0]).toBe(1)
    expect(atOnce[2]).toBeLessThanOrEqual(2)
    expect(Math.max(...atOnce)).toBeGreaterThan(4)
  })

  test('that times out again and again is tried one at a time until it answers', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(after(40))
    const { id } = await subscribe(tenant, receiver.url)
    await service.sql('update lanes set timeouts = 3 where id = $1', [id])
    receiver.behave((_, response) => void setTimeout(() => response.writeHead(500).end(), 40))
    await insertDue(service, tenant, id, 6)
    await receiver.count('all', 6)
    expect(receiver.mostAtOnce()).toBe(1)
    receiver.behave(togetherFrom(15, 40, () => {}))
    await insertDue(service, tenant, id, 30)
    await receiver.count('all', 36)
    expect(receiver.mostAtOnce()).toBeGreaterThan(4)
  })

  test('that hangs with a backlog does not delay another of its tenant', async () => {
    const tenant = await service.newTenant()
    const hanging = await newReceiver(() => {})
    const healthy = await newReceiver()
    const stuck = await subscribe(tenant, hanging.url, { events: ['user.deleted'] })
    await subscribe(tenant, healthy.url)
    await insertDue(service, tenant, stuck.id, 3_000)
    await hanging.count('its places are taken', 8)
    for (let n = 0; n < 40; n += 1) {
      const user = await createUser(tenant)
      await healthy.until('the next', (got) => got.event.data.userId === user)
    }
    // It hangs still, with nearly all of its backlog before it.
    expect(hanging.mostAtOnce()).toBe(8)
    expect(await deliveriesOf(tenant, stuck.id, '&status=succeeded')).toEqual([])
    expect(hanging.received.length).toBeLessThan(1_000)
    await tenant.delete(`/webhooks/${stuck.id}`)
  })

  test('that is paused in the middle of a backlog gets what was leased before, and nothing more until it is active', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(after(120))
    const { id } = await subscribe(tenant, receiver.url)
    await insertDue(service, tenant, id, 300)
    await receiver.count('it is in full swing', 40)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    const leased = async () => {
      const [row] = await service.sql<{ n: number }>(
        'select count(*)::int as n from deliveries where webhook_id = $1 and lease_id is not null',
        [id],
      )
      return row?.n ?? 0
    }
    // First what is still to come, for it may come while it is counted.
    const held = await leased()
    const most = receiver.received.length + held
    await eventually('nothing is under way', async () => (await leased()) === 0)
    expect(receiver.received.length).toBeLessThanOrEqual(most)
    expect(most).toBeLessThan(200)
    await tenant.patch(`/webhooks/${id}`, { status: 'active' })
    await receiver.count('all', 300)
    expect(new Set(idsOf(receiver)).size).toBe(300)
  })
})

describe.concurrent('a lease', () => {
  interface Held {
    tenant: Tenant
    receiver: Receiver
    id: string
    deliveryId: string
    release: () => void
  }

  /** One delivery in the air, whose receiver answers when it is told to; later requests are answered at once. */
  async function inTheAir(): Promise<Held> {
    const tenant = await service.newTenant()
    const released = Promise.withResolvers<void>()
    let count = 0
    const receiver = await newReceiver(async (_, response) => {
      if (count++ === 0) await released.promise
      response.end()
    })
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    await receiver.count('it is in the air', 1)
    const [delivery] = await deliveriesIn(tenant, id, 'delivering')
    expect(delivery).toMatchObject({ nextAttemptAt: null, attempts: [] })
    return { tenant, receiver, id, deliveryId: delivery.id, release: released.resolve }
  }

  const lateOutcomes = () => (service.logs() + second.logs()).split('after their lease').length - 1

  test('that another worker took makes the late outcome change nothing; once it runs out the event is sent again', async () => {
    const { tenant, receiver, id, deliveryId, release } = await inTheAir()
    await service.sql(`insert into workers values ('thief', now(), now() + interval '1 hour')`)
    await service.sql(
      `update deliveries set lease_id = 'thief/1', lease_until = now() + interval '1 hour' where webhook_id = $1`,
      [id],
    )
    const before = lateOutcomes()
    release()
    await eventually('the late outcome was dropped', async () => lateOutcomes() > before)
    expect(await deliveryOf(tenant, id, deliveryId)).toMatchObject({ status: 'delivering', attempts: [] })
    await service.sql(`update deliveries set lease_until = now() - interval '1 second' where webhook_id = $1`, [id])
    const [done] = await deliveriesIn(tenant, id, 'succeeded')
    expect(done).toMatchObject({ id: deliveryId, retryCount: 0, attempts: [{ number: 0, statusCode: 200 }] })
    expect(done.attempts).toHaveLength(1)
    expect(receiver.received).toHaveLength(2)
    expect(new Set(idsOf(receiver)).size).toBe(1)
    expect(receiver.received[1]?.body).toBe(receiver.received[0]?.body)
  })

  test('of a worker that is gone is free at once, long before it runs out', async () => {
    const { tenant, receiver, id, release } = await inTheAir()
    await service.sql(
      `update deliveries set lease_id = 'nobody/1', lease_until = now() + interval '1 hour' where webhook_id = $1`,
      [id],
    )
    await receiver.count('it is sent again', 2)
    release()
    const [done] = await deliveriesIn(tenant, id, 'succeeded')
    expect(done.attempts).toHaveLength(1)
  })

  test('lost for the tenth time makes a dead letter that says worker_lost and can be retried', async () => {
    const { tenant, id, deliveryId, release } = await inTheAir()
    await service.sql(
      `update deliveries set leases_lost = 9, lease_id = 'nobody/1', lease_until = now() - interval '1 second' where webhook_id = $1`,
      [id],
    )
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    expect(dead).toMatchObject({
      id: deliveryId,
      attempts: [{ number: 0, statusCode: null, error: 'worker_lost', responseSnippet: null }],
    })
    release()
    await tenant.post(`/webhooks/${id}/deliveries/${deliveryId}/retry`)
    const [done] = await deliveriesIn(tenant, id, 'succeeded')
    expect(done.attempts.map((each: { error: string | null }) => each.error)).toEqual(['worker_lost', null])
  })

  test('lost nine times is sent a tenth time', async () => {
    const { tenant, receiver, id, release } = await inTheAir()
    await service.sql(
      `update deliveries set leases_lost = 8, lease_id = 'nobody/1', lease_until = now() - interval '1 second' where webhook_id = $1`,
      [id],
    )
    await receiver.count('it is sent again', 2)
    release()
    expect((await deliveriesIn(tenant, id, 'succeeded'))[0].attempts).toHaveLength(1)
  })

  test('of a test event that is lost ends the test: it is not sent twice', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(() => {})
    const { id } = await subscribe(tenant, receiver.url)
    const asked = tenant.post(`/webhooks/${id}/test`)
    await receiver.count('it is in the air', 1)
    await service.sql(`update deliveries set lease_id = 'nobody/1' where webhook_id = $1`, [id])
    expect((await asked).body.data).toMatchObject({ status: 'failed', attempts: [{ error: 'worker_lost' }] })
    expect(receiver.received).toHaveLength(1)
  })
})

describe.concurrent('a failed send, by the specification’s delays', () => {
  test('waits for 60 to 66 s, and asked for at once ten times it is sent once more, not twice', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [waiting] = await deliveriesIn(tenant, id, 'retrying')
    const failedAtMs = Date.parse(waiting.attempts[0].at) + waiting.attempts[0].durationMs
    const nextAtMs = Date.parse(waiting.nextAttemptAt)
    expect(nextAtMs - failedAtMs).toBeGreaterThanOrEqual(59_999)
    // From when it was seen, for a busy machine notes a failure late.
    expect(nextAtMs - Date.now()).toBeLessThanOrEqual(66_000)
    // A request after its arrival would ask for another one: it arrives once all ten have asked.
    const { promise: asked, resolve: allHaveAsked } = Promise.withResolvers<void>()
    receiver.behave(async (_, response) => {
      await asked
      response.end()
    })
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => tenant.post(`/webhooks/${id}/deliveries/${waiting.id}/retry`)),
    )
    allHaveAsked()
    expect(answers.map((each) => each.status)).toEqual(Array(10).fill(200))
    const [done] = await deliveriesIn(tenant, id, 'succeeded')
    expect(done).toMatchObject({ id: waiting.id, retryCount: 1, nextAttemptAt: null })
    expect(done.attempts).toHaveLength(2)
    expect(receiver.received).toHaveLength(2)
    expect(await service.sql('select 1 from deliveries where webhook_id = $1', [id])).toEqual([])
  })

  test('that is hastened and fails again goes on with its schedule', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(answer(500))
    const { id } = await subscribe(tenant, receiver.url)
    await createUser(tenant)
    const [waiting] = await deliveriesIn(tenant, id, 'retrying')
    await tenant.post(`/webhooks/${id}/deliveries/${waiting.id}/retry`)
    const again = await eventually('the second attempt is stored', async () => {
      const each = await deliveryOf(tenant, id, waiting.id)
      return each.attempts.length === 2 && each
    })
    expect(again).toMatchObject({ status: 'retrying', retryCount: 2 })
    const nextAtMs = Date.parse(again.nextAttemptAt)
    expect(nextAtMs - Date.parse(again.attempts[1].at)).toBeGreaterThanOrEqual(300_000)
    expect(nextAtMs - Date.now()).toBeLessThanOrEqual(330_000)
  })
})
