import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { createUser, insertEvents, subscribe } from './delivery.fixture.ts'
import { createFanOut } from './fan-out.ts'

const receivers: Receiver[] = []
let service: Service
let second: Service
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

async function newReceiver(): Promise<Receiver> {
  const receiver = await startReceiver(answer(200))
  receivers.push(receiver)
  return receiver
}

/** Waits until every event of a tenant has its place in the feed: each exactly once, from 1 on without a gap. */
async function expectWholeFeed(tenant: Tenant): Promise<void> {
  const feed = await eventually('all are in the feed', async () => {
    const [left] = await service.sql<{ n: number }>('select count(*)::int as n from outbox where tenant_id = $1', [
      tenant.tenantId,
    ])
    return (
      left?.n === 0 &&
      service.sql<{ seq: number; event_id: string }>(
        'select seq::int, event_id from feed where tenant_id = $1 order by seq',
        [tenant.tenantId],
      )
    )
  })
  const events = await service.sql<{ id: string }>('select id from events where tenant_id = $1', [tenant.tenantId])
  expect(feed.map((row) => row.seq)).toEqual(Array.from({ length: events.length }, (_, n) => n + 1))
  expect(feed.map((row) => row.event_id).sort()).toEqual(events.map((row) => row.id).sort())
}

describe('fan-out', () => {
  test('brings one event to each of 1 200 endpoints exactly once', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver()
    const paths = Array.from({ length: 1_200 }, (_, n) => `/many-${n}`)
    for (let from = 0; from < paths.length; from += 40) {
      await Promise.all(paths.slice(from, from + 40).map((path) => subscribe(tenant, receiver.url + path)))
    }
    const user = await createUser(tenant)
    await receiver.count('all', 1_200)
    expect(receiver.received.every((got) => got.event.data.userId === user)).toBe(true)
    expect(receiver.received.map((got) => got.path).sort()).toEqual([...paths].sort())
    const done = await eventually('all are stored', async () => {
      const rows = await service.sql('select webhook_id from deliveries_done where tenant_id = $1', [tenant.tenantId])
      return rows.length >= 1_200 && rows
    })
    expect(done).toHaveLength(1_200)
    // An empty lane that stayed due would be visited for ever.
    await eventually('no lane is due', async () => {
      const [due] = await service.sql<{ n: number }>(
        `select count(*)::int as n from lanes where tenant_id = $1 and due_at < 'infinity'`,
        [tenant.tenantId],
      )
      return due?.n === 0
    })
    await expectWholeFeed(tenant)
  })

  test('four at a time over the same endpoints neither lock each other out nor lose or double an event', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver()
    const webhooks = await Promise.all(Array.from({ length: 40 }, () => subscribe(tenant, receiver.url)))
    for (const { id } of webhooks) await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    const fanOuts = Array.from({ length: 4 }, () =>
      createFanOut({ asyncCommit: service.deps.db, now: service.deps.now }),
    )
    for (let round = 0; round < 5; round += 1) {
      await Promise.all([insertEvents(service, tenant, 15), insertEvents(service, tenant, 15)])
      // Beside the two workers' own. A deadlock would be an error here.
      await Promise.all(fanOuts.map((fanOut) => fanOut()))
    }
    const rows = await eventually('all are there', async () => {
      const found = await service.sql<{ n: number }>(
        'select count(*)::int as n from deliveries where tenant_id = $1 group by webhook_id',
        [tenant.tenantId],
      )
      return found.reduce((sum, row) => sum + row.n, 0) >= 150 * 40 && found
    })
    expect(rows.map((row) => row.n)).toEqual(Array(40).fill(150))
    await expectWholeFeed(tenant)
    expect(service.logs() + second.logs()).not.toContain('deadlock')
  })

  test('writes a feed without gaps that holds each event once, under parallel writers', async () => {
    const tenant = await service.newTenant()
    const writers = Array.from({ length: 10 }, async () => {
      for (let n = 0; n < 20; n += 1) await createUser(tenant)
    })
    await Promise.all(writers)
    await expectWholeFeed(tenant)
  })
})

test('each of three hundred events that meet an idle lane is sent by itself, once', async () => {
  const tenant = await service.newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  for (let round = 0; round < 300; round += 1) {
    const user = await createUser(tenant)
    await receiver.until(`event ${round}`, (got) => got.event.data.userId === user)
  }
  expect(receiver.received).toHaveLength(300)
  const total = await eventually('all are stored', async () => {
    const page = await tenant.get(`/webhooks/${id}/deliveries?status=succeeded`)
    return page.body.total === 300 && page.body.total
  })
  expect(total).toBe(300)
})
