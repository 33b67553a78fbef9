import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { deliveriesIn, deliveriesOf, insertDeadLetters, jobEnded, subscribe } from '../engine/delivery.fixture.ts'
import { newType, ok } from '../events/own-events.fixture.ts'
import { stepBulk } from './bulk.ts'

const UNKNOWN = 'dlv_00000000000000000000000000'

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await service.stop()
  await receiver.close()
})

const start = async (tenant: Tenant, webhookId: string, body: object) =>
  ok(await tenant.post(`/webhooks/${webhookId}/deliveries/bulk`, body), 201)

const run = async (tenant: Tenant, webhookId: string, body: object) =>
  jobEnded(tenant, (await start(tenant, webhookId, body)).id)

const idsOf = (records: { id: string }[]) => records.map(({ id }) => id)
const failureIds = ({ failures }: { failures: { id: string }[] }) => idsOf(failures)

/** A tenant with a webhook that has dead letters. */
async function withDeadLetters(count: number, path = '/hook') {
  const tenant = await service.newTenant()
  const { id: webhookId } = await subscribe(tenant, receiver.url + path)
  await insertDeadLetters(service, tenant, webhookId, count)
  return { tenant, webhookId, ids: idsOf(await deliveriesOf(tenant, webhookId)) }
}

describe.concurrent('a bulk job', () => {
  test('is refused while twenty jobs of the tenant are open, and of no other', async () => {
    const [{ tenant, webhookId }, other] = [await withDeadLetters(1), await withDeadLetters(1)]
    await service.sql(
      `insert into jobs (tenant_id, id, type, status, total, state, created_at, updated_at)
       select $1, 'job_' || n, 'of.this.test', 'pending', 1, '{}', now(), now() from generate_series(1, 20) n`,
      [tenant.tenantId],
    )
    const body = { action: 'purge', filter: {} }
    expectError(await tenant.post(`/webhooks/${webhookId}/deliveries/bulk`, body), 429, 'rate_limited')
    expect(await run(other.tenant, other.webhookId, body)).toMatchObject({ status: 'succeeded', progress: 1 })
  })

  test('retries the given dead letters, leaves the others, and says which it could not retry', async () => {
    const { tenant, webhookId, ids } = await withDeadLetters(4)
    const [first = '', second = '', worn = '', other = ''] = ids
    await service.sql('update deliveries_done set attempts = 100 where tenant_id = $1 and id = $2', [
      tenant.tenantId,
      worn,
    ])
    const body = { action: 'retry', deliveryIds: [first, second, worn, UNKNOWN, 'none', first] }
    const begun = await start(tenant, webhookId, body)
    expect(begun).toMatchObject({ type: 'deliveries.retry', status: 'pending', progress: 0, total: 5, failures: [] })
    const done = await jobEnded(tenant, begun.id)
    expect(done).toMatchObject({ id: begun.id, status: 'succeeded', progress: 5, total: 5, error: null })
    expect(done.failures.map(({ id, code }: { id: string; code: string }) => [id, code])).toEqual([
      [worn, 'delivery_not_retryable'],
      [UNKNOWN, 'not_found'],
      ['none', 'not_found'],
    ])
    const sent = await deliveriesIn(tenant, webhookId, 'succeeded', 2)
    expect(idsOf(sent).toSorted()).toEqual([first, second].toSorted())
    expect(idsOf(await deliveriesOf(tenant, webhookId, '&status=dead_letter')).toSorted()).toEqual(
      [worn, other].toSorted(),
    )
  })

  test('deletes the given dead letters with their attempts, and nothing that is no dead letter', async () => {
    const { tenant, webhookId, ids } = await withDeadLetters(3)
    const [first = '', second = '', third = ''] = ids
    await run(tenant, webhookId, { action: 'retry', deliveryIds: [third] })
    await deliveriesIn(tenant, webhookId, 'succeeded')
    const done = await run(tenant, webhookId, { action: 'purge', deliveryIds: [first, third] })
    expect(done).toMatchObject({ status: 'succeeded', progress: 2, failures: [{ id: third, code: 'not_found' }] })
    expect(idsOf(await deliveriesOf(tenant, webhookId)).toSorted()).toEqual([second, third].toSorted())
    const left = 'select 1 from attempts where tenant_id = $1 and delivery_id = $2'
    expect(await service.sql(left, [tenant.tenantId, first])).toEqual([])
  })

  test('does it to all dead letters that match a filter, in portions', async () => {
    const { tenant, webhookId } = await withDeadLetters(1_100)
    await newType(tenant, 'acme.paid')
    const type = `update deliveries_done set event_type = 'acme.paid' where tenant_id = $1 and id in
      (select id from deliveries_done where tenant_id = $1 order by id limit 600)`
    await service.sql(type, [tenant.tenantId])
    const purged = await run(tenant, webhookId, { action: 'purge', filter: { eventType: 'acme.paid' } })
    expect(purged).toMatchObject({ status: 'succeeded', progress: 600, total: 600, failures: [] })
    expect((await tenant.get(`/webhooks/${webhookId}/deliveries`)).body.total).toBe(500)
    const none = await run(tenant, webhookId, { action: 'purge', filter: { since: new Date().toISOString() } })
    expect(none).toMatchObject({ status: 'succeeded', progress: 0, total: 0 })
    const retried = await run(tenant, webhookId, { action: 'retry', filter: {} })
    expect(retried).toMatchObject({ status: 'succeeded', progress: 500, total: 500, failures: [] })
    await eventually('all are sent', async () => {
      const { total } = (await tenant.get(`/webhooks/${webhookId}/deliveries?status=succeeded`)).body
      return total === 500
    })
  })

  test('starts one cycle for a dead letter that several jobs and calls retry at once', async () => {
    const { tenant, webhookId, ids } = await withDeadLetters(3, '/once')
    const retry = { action: 'retry', deliveryIds: ids }
    const all = { action: 'retry', filter: {} }
    const jobs = await Promise.all([retry, retry, all].map((body) => start(tenant, webhookId, body)))
    for (const { id } of jobs) expect(await jobEnded(tenant, id)).toMatchObject({ status: 'succeeded', failures: [] })
    for (const delivery of await deliveriesIn(tenant, webhookId, 'succeeded', 3))
      expect(delivery.attempts).toHaveLength(1)
    expect(receiver.received.filter(({ path }) => path === '/once')).toHaveLength(3)
  })

  test('reaches no delivery of another webhook or tenant', async () => {
    const { tenant, webhookId, ids } = await withDeadLetters(1)
    const other = await withDeadLetters(1)
    const { id: second } = await subscribe(tenant, receiver.url)
    for (const action of ['retry', 'purge']) {
      expect(failureIds(await run(tenant, second, { action, deliveryIds: ids }))).toEqual(ids)
      expect(failureIds(await run(tenant, webhookId, { action, deliveryIds: other.ids }))).toEqual(other.ids)
    }
    for (const { tenant: owner, webhookId: of } of [{ tenant, webhookId }, other])
      expect(await deliveriesOf(owner, of, '&status=dead_letter')).toHaveLength(1)
    const { id } = await start(tenant, webhookId, { action: 'purge', filter: {} })
    expectError(await other.tenant.get(`/jobs/${id}`), 404, 'not_found')
  })

  test('of a disabled webhook purges and does not retry', async () => {
    const { tenant, webhookId, ids } = await withDeadLetters(2)
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [webhookId])
    const path = `/webhooks/${webhookId}/deliveries/bulk`
    expectError(await tenant.post(path, { action: 'retry', deliveryIds: ids }), 409, 'webhook_disabled')
    expect(await run(tenant, webhookId, { action: 'purge', deliveryIds: ids })).toMatchObject({
      status: 'succeeded',
      failures: [],
    })
    expect(await deliveriesOf(tenant, webhookId)).toEqual([])
  })

  test.each([
    ['neither ids nor a filter', {}, 'deliveryIds'],
    ['both', { deliveryIds: [UNKNOWN], filter: {} }, 'deliveryIds'],
    ['no ids', { deliveryIds: [] }, 'deliveryIds'],
    ['1001 ids', { deliveryIds: Array(1_001).fill(UNKNOWN) }, 'deliveryIds'],
    ['a number as id', { deliveryIds: [7] }, 'deliveryIds.0'],
    ['another action', { action: 'delete', filter: {} }, 'action'],
    ['an unknown type', { filter: { eventType: 'acme.none' } }, 'filter.eventType'],
    ['a family', { filter: { eventType: 'user.*' } }, 'filter.eventType'],
    ['a time in the future', { filter: { since: '2999-01-01T00:00:00Z' } }, 'filter.since'],
    ['a day', { filter: { since: '2026-01-01' } }, 'filter.since'],
    ['another filter', { filter: { status: 'succeeded' } }, 'filter.status'],
  ])('with %s is 400 and names the field', async (_, body, field) => {
    const { tenant, webhookId } = await withDeadLetters(1)
    const refused = await tenant.post(`/webhooks/${webhookId}/deliveries/bulk`, { action: 'purge', ...body })
    expect(expectRefusal(refused, 'validation_failed')[0].field).toBe(field)
    expect(await deliveriesOf(tenant, webhookId, '&status=dead_letter')).toHaveLength(1)
  })
})

test('a bulk job continues in another process where the first one stopped, and sends each dead letter once', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  const target = await startReceiver(answer(204))
  const { id: webhookId } = await subscribe(tenant, target.url)
  await insertDeadLetters(api, tenant, webhookId, 900)
  const rows = await api.sql<{ id: string }>('select id from deliveries_done where tenant_id = $1', [tenant.tenantId])
  const begun = await start(tenant, webhookId, { action: 'retry', deliveryIds: idsOf(rows) })
  expect(await stepBulk(api.deps.db, api.deps.log)).toBe(true)
  // A process that dies within a step leaves nothing of it.
  const killed = api.deps.db.tx(async (tx) => {
    expect(await stepBulk(tx, api.deps.log)).toBe(true)
    throw new Error('killed')
  })
  await expect(killed).rejects.toThrow('killed')
  expect(ok(await tenant.get(`/jobs/${begun.id}`))).toMatchObject({ status: 'running', progress: 500, total: 900 })
  const shared = { DATABASE_URL: api.databaseUrl, HALFKEY_DATA_DIR: api.dataDir }
  const worker = await startService({ ...shared, HALFKEY_ROLE: 'worker' })
  expect(await jobEnded(tenant, begun.id)).toMatchObject({ status: 'succeeded', progress: 900, failures: [] })
  await target.count('all', 900)
  await eventually('all are stored', async () => {
    const { total } = (await tenant.get(`/webhooks/${webhookId}/deliveries?status=succeeded`)).body
    return total === 900
  })
  expect(target.received).toHaveLength(900)
  await worker.stop()
  await api.stop()
  await target.close()
})

test('a bulk job fails, and says why, if its webhook is disabled or deleted before it has ended', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  const { id: webhookId } = await subscribe(tenant, receiver.url)
  const retry = await start(tenant, webhookId, { action: 'retry', filter: {} })
  await api.sql(`update webhooks set status = 'disabled' where id = $1`, [webhookId])
  await stepBulk(api.deps.db, api.deps.log)
  const purge = await start(tenant, webhookId, { action: 'purge', filter: {} })
  ok(await tenant.delete(`/webhooks/${webhookId}`))
  await stepBulk(api.deps.db, api.deps.log)
  expect(await jobEnded(tenant, retry.id)).toMatchObject({ status: 'failed', error: expect.stringMatching('disabled') })
  expect(await jobEnded(tenant, purge.id)).toMatchObject({ status: 'failed', error: 'The webhook was deleted.' })
  await api.stop()
})

test('a bulk job with a filter leaves what became a dead letter after the call', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  for (const action of ['retry', 'purge']) {
    const { id: webhookId } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(api, tenant, webhookId, 3)
    const [later] = idsOf(await deliveriesOf(tenant, webhookId))
    const job = await start(tenant, webhookId, { action, filter: {} })
    await api.sql('update deliveries_done set done_at = clock_timestamp() where id = $1', [later])
    while (await stepBulk(api.deps.db, api.deps.log));
    expect(await jobEnded(tenant, job.id)).toMatchObject({ status: 'succeeded', progress: 2, total: 3, failures: [] })
    expect(idsOf(await deliveriesOf(tenant, webhookId, '&status=dead_letter'))).toEqual([later])
  }
  await api.stop()
})
