import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { newType, ok } from '../../events/own-events.fixture.ts'
import { deliveriesIn, deliveriesOf, jobEnded } from '../delivery.fixture.ts'
import { createFanOut } from '../fan-out.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

const PAID = 'acme.invoice.paid'
/** Of invoices from 100 on. */
const large = { path: 'data.total', gte: '100' }

const receivers: Receiver[] = []
let service: Service
/** Nothing is fanned out there but by its tests. */
let still: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms' })
  still = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
  await still.stop()
})

async function newReceiver(behaviour = answer(200)): Promise<Receiver> {
  const receiver = await startReceiver(behaviour)
  receivers.push(receiver)
  return receiver
}

async function tenantWithType(of: Service): Promise<Tenant> {
  const tenant = await of.newTenant()
  await newType(tenant, PAID)
  return tenant
}

async function webhook(tenant: Tenant, filter: unknown, url = 'https://hook.example/a'): Promise<string> {
  return ok(await tenant.post('/webhooks', { url, events: [PAID], filter }), 201).id
}

/** Publishes an invoice. @returns the event's id */
async function paid(tenant: Tenant, total: string, more: object = {}): Promise<string> {
  return ok(await tenant.post('/events', { type: PAID, data: { total, ...more } }), 201).id
}

/** Waits until every event of a tenant was fanned out. */
const fannedOut = (of: Service, { tenantId }: Tenant) =>
  eventually('the outbox is empty', async () => {
    const rows = await of.sql('select 1 from outbox where tenant_id = $1', [tenantId])
    return rows.length === 0
  })

async function fanOutAll(): Promise<void> {
  const fanOut = createFanOut({ asyncCommit: still.deps.db, now: still.deps.now, monotonicMs: () => 0 })
  while ((await fanOut()).more);
}

const eventsOf = async (tenant: Tenant, id: string, query = ''): Promise<string[]> =>
  (await deliveriesOf(tenant, id, query)).map(({ eventId }) => eventId)

describe.concurrent('a webhook with a filter', () => {
  test('gets the events that match and no others; a webhook without one gets all', async () => {
    const [tenant, receiver] = [await tenantWithType(service), await newReceiver()]
    const filtered = await webhook(tenant, large, `${receiver.url}/large`)
    await webhook(tenant, null, `${receiver.url}/all`)
    const small = await paid(tenant, '99.99')
    const other = await paid(tenant, '100.00')
    await receiver.count('all', 3)
    await fannedOut(service, tenant)
    const got = (path: string) => receiver.received.filter((one) => one.path === path).map(({ event }) => event.id)
    expect([got('/large'), got('/all').sort()]).toEqual([[other], [small, other].sort()])
    expect(await eventsOf(tenant, filtered)).toEqual([other])
    expect(ok(await tenant.get(`/events/${small}/deliveries`))).toHaveLength(1)
    expect(ok(await tenant.get(`/events?type=${PAID}`)).events).toHaveLength(2)
  })

  test('gets test events, whatever its filter', async () => {
    const [tenant, receiver] = [await tenantWithType(service), await newReceiver()]
    const id = await webhook(tenant, { path: 'type', eq: 'never' }, receiver.url)
    expect(ok(await tenant.post(`/webhooks/${id}/test`)).status).toBe('succeeded')
    expect(receiver.received).toHaveLength(1)
  })

  test('that is paused keeps the events that match, and gets them when it is resumed', async () => {
    const [tenant, receiver] = [await tenantWithType(service), await newReceiver()]
    const id = await webhook(tenant, large, receiver.url)
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'paused' }))
    await paid(tenant, '5')
    const other = await paid(tenant, '500')
    await fannedOut(service, tenant)
    expect(await eventsOf(tenant, id, '&status=pending')).toEqual([other])
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active' }))
    expect((await receiver.until('the event', () => true)).event.id).toBe(other)
  })

  test('that is disabled has dead letters of the events that match, and recovers them', async () => {
    const [tenant, receiver] = [await tenantWithType(service), await newReceiver()]
    const id = await webhook(tenant, large, receiver.url)
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    const since = new Date(Date.now() - 60_000).toISOString()
    await paid(tenant, '5')
    const other = await paid(tenant, '500')
    await fannedOut(service, tenant)
    expect(await eventsOf(tenant, id)).toEqual([other])
    expect((await deliveriesIn(tenant, id, 'dead_letter'))[0].eventId).toBe(other)
    // The dead letter was decided when it was made: a filter of now does not take it away.
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active', filter: { path: 'type', eq: 'never' } }))
    const job = ok(await tenant.post(`/webhooks/${id}/recover`, { since }), 201)
    expect(await jobEnded(tenant, job.id)).toMatchObject({ status: 'succeeded', total: 1 })
    await deliveriesIn(tenant, id, 'succeeded')
    expect(receiver.received.map(({ event }) => event.id)).toEqual([other])
  })

  test('is decided by its own filter alone, and by events of its own tenant', async () => {
    const [one, two, receiver] = [await tenantWithType(service), await tenantWithType(service), await newReceiver()]
    await webhook(one, { path: 'data.total', eq: '1' }, `${receiver.url}/one`)
    await webhook(two, { path: 'data.total', eq: '2' }, `${receiver.url}/two`)
    const ids = []
    for (const total of ['1', '2']) for (const tenant of [one, two]) ids.push(await paid(tenant, total))
    await fannedOut(service, one)
    await fannedOut(service, two)
    await receiver.count('both', 2)
    expect(receiver.received.map(({ path, event }) => [path, event.id]).sort()).toEqual([
      ['/one', ids[0]],
      ['/two', ids[3]],
    ])
  })
})

describe('the fan-out', () => {
  test('decides by the filter of its own moment, not of the event’s', async () => {
    const tenant = await tenantWithType(still)
    const id = await webhook(tenant, large)
    const [small, other] = [await paid(tenant, '5'), await paid(tenant, '500')]
    ok(await tenant.patch(`/webhooks/${id}`, { filter: { path: 'data.total', lt: '100' } }))
    await fanOutAll()
    expect(await eventsOf(tenant, id)).toEqual([small])
    ok(await tenant.patch(`/webhooks/${id}`, { filter: null }))
    const third = await paid(tenant, '7')
    await fanOutAll()
    expect(await eventsOf(tenant, id)).toEqual([third, small])
    expect(await eventsOf(tenant, id)).not.toContain(other)
  })

  test('knows a changed filter at once, in the process that used the one before', async () => {
    const tenant = await tenantWithType(still)
    const id = await webhook(tenant, { path: 'data.total', eq: '1' })
    const fanOut = createFanOut({ asyncCommit: still.deps.db, now: still.deps.now })
    const expected: string[] = []
    for (const total of ['1', '2', '1']) {
      const [match] = [await paid(tenant, total), await paid(tenant, '3')]
      while ((await fanOut()).more);
      expected.unshift(match)
      expect(await eventsOf(tenant, id)).toEqual(expected)
      const next = total === '1' ? '2' : '1'
      ok(await tenant.patch(`/webhooks/${id}`, { filter: { path: 'data.total', eq: next } }))
    }
  })

  test('finds the one webhook of 1 203 that matches, behind chunks of which none does', async () => {
    const tenant = await tenantWithType(still)
    const other = await tenantWithType(still)
    const ofOther = await webhook(other, large)
    const id = await webhook(tenant, { path: 'data.total', eq: 'never' })
    // Three chunks, and the match in the last.
    const row = await still.sql<{ columns: string }>(
      `select string_agg(quote_ident(column_name), ',') as columns from information_schema.columns
       where table_name = 'webhooks' and column_name <> 'id'`,
    )
    const { columns } = row[0] as { columns: string }
    await still.sql(
      `insert into webhooks (id, ${columns}) select 'wh_z' || lpad(n::text, 25, '0'), ${columns}
       from webhooks, generate_series(1, 1202) n where id = $1`,
      [id],
    )
    await still.sql(
      `insert into lanes (tenant_id, id, webhook_id) select tenant_id, id, id from webhooks where id like 'wh_z%' and tenant_id = $1`,
      [tenant.tenantId],
    )
    const last = `wh_z${'1202'.padStart(25, '0')}`
    await still.sql(`update webhooks set filter = $2, filter_version = 1 where id = $1`, [last, JSON.stringify(large)])
    const event = await paid(tenant, '500')
    const theirs = await paid(other, '500')
    await fanOutAll()
    const rows = await still.sql<{ webhook_id: string; event_id: string }>(
      'select webhook_id, event_id from deliveries where tenant_id = any($1) order by event_id',
      [[tenant.tenantId, other.tenantId]],
    )
    expect(rows).toEqual([
      { webhook_id: last, event_id: event },
      { webhook_id: ofOther, event_id: theirs },
    ])
    await fannedOut(still, tenant)
  })

  test('takes events that are too large for one batch in several, and other tenants’ in the first', async () => {
    const [tenant, other] = [await tenantWithType(still), await tenantWithType(still)]
    const id = await webhook(tenant, large)
    const ofOther = await webhook(other, null)
    const padding = 'ü'.repeat(120_000)
    const ids = []
    for (let n = 0; n < 12; n += 1) ids.unshift(await paid(tenant, n % 2 === 0 ? '5' : '500', { padding }))
    const theirs = await paid(other, '5')
    const fanOut = createFanOut({ asyncCommit: still.deps.db, now: still.deps.now, monotonicMs: () => 0 })
    const { events, more } = await fanOut()
    expect({ some: events > 1 && events < 13, more }).toEqual({ some: true, more: true })
    expect(await eventsOf(other, ofOther)).toEqual([theirs])
    while ((await fanOut()).more);
    expect(await eventsOf(tenant, id)).toEqual(ids.filter((_, at) => at % 2 === 0))
  })

  test('loses no event by a filter or a body that cannot be read', async () => {
    const tenant = await tenantWithType(still)
    const ids = [await webhook(tenant, large), await webhook(tenant, large)]
    await still.sql(`update webhooks set filter = '{"path":5}', filter_version = 1 where id = $1`, [ids[0]])
    const event = await paid(tenant, '5')
    const broken = await paid(tenant, '500')
    await still.sql(`update events set body = '{' where id = $1`, [broken])
    await fanOutAll()
    expect(await eventsOf(tenant, ids[0] as string)).toEqual([broken, event])
    expect(await eventsOf(tenant, ids[1] as string)).toEqual([])
    await fannedOut(still, tenant)
  })
})
