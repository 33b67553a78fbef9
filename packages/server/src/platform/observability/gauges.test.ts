import { expect, test, vi } from 'vitest'
import { call, eventually, startService } from '../../../test/harness/harness.ts'
import { PostgresProcess } from '../../../test/harness/postgres-process.ts'
import { answer, startReceiver } from '../../../test/harness/receiver.ts'

// A PostgreSQL of its own is made and killed.
vi.setConfig({ testTimeout: 180_000 })

/** A sample's value, or undefined where it has none. */
async function figure(url: string, sample: string): Promise<number | undefined> {
  const { text } = await call(url, 'GET', '/metrics')
  const line = text.split('\n').find((each) => each.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.slice(sample.length + 1))
}

test('a scrape tells how many events wait and how long, for nobody works, and counts stop at 10 000 however many there are', async (context) => {
  const service = await startService({ HALFKEY_ROLE: 'api' })
  context.onTestFinished(() => service.stop())
  const tenant = await service.newTenant()
  await tenant.post('/users', {})
  await service.sql(`update events set created_at = now() - interval '5 minutes' where tenant_id = $1`, [
    tenant.tenantId,
  ])
  const [waiting] = await service.sql<{ n: number }>('select count(*)::int as n from outbox')
  await eventually('the figures', async () => (await figure(service.url, 'halfkey_outbox_events')) === waiting?.n)
  const age = await figure(service.url, 'halfkey_outbox_age_seconds')
  expect(age).toBeGreaterThanOrEqual(300)
  expect(age).toBeLessThan(400)
  expect(await figure(service.url, 'halfkey_workers_alive')).toBe(0)
  expect(await figure(service.url, 'halfkey_ready{check="database"}')).toBe(1)
  await service.sql(
    `insert into outbox (tenant_id, event_id, type) select $1, 'evt_' || lpad(n::text, 26, '0'), 'user.created' from generate_series(1, 10050) n`,
    [tenant.tenantId],
  )
  await eventually('a count that stops', async () => (await figure(service.url, 'halfkey_outbox_events')) === 10_000)
})

test('a delivery leaves the time of each of its stages, also with as few connections as there may be', async (context) => {
  const service = await startService({ HALFKEY_DATABASE_CONNECTIONS: '8' })
  context.onTestFinished(() => service.stop())
  const receiver = await startReceiver(answer(200))
  context.onTestFinished(() => receiver.close())
  const tenant = await service.newTenant()
  await tenant.post('/webhooks', { url: receiver.url, events: ['user.created'] })
  const seen = (stage: string) =>
    figure(service.url, `halfkey_delivery_stage_duration_seconds_count{stage="${stage}"}`).then((n = 0) => n)
  const before = await Promise.all(['outbox', 'fan_out', 'complete'].map(seen))
  await tenant.post('/users', {})
  await receiver.count('the event', 1)
  await eventually('its stages', async () => {
    const after = await Promise.all(['outbox', 'fan_out', 'complete'].map(seen))
    return after.every((count, at) => count > (before[at] as number)) && (await seen('claim')) > 0
  })
  const pools = ['api', 'engine', 'async_commit', 'probe', 'key']
  const most = pools.map((pool) => figure(service.url, `halfkey_database_connections_max{pool="${pool}"}`))
  expect((await Promise.all(most)).reduce<number>((sum, n) => sum + (n ?? 0), 0)).toBe(8)
})

test('the oldest event of any tenant counts, not that of the first one', async (context) => {
  const service = await startService({ HALFKEY_ROLE: 'api' })
  context.onTestFinished(() => service.stop())
  const tenants = await Promise.all([service.newTenant(), service.newTenant(), service.newTenant()])
  for (const { post } of tenants) await post('/users', {})
  const last = tenants
    .map(({ tenantId }) => tenantId)
    .sort()
    .at(-1)
  await service.sql(`update events set created_at = now() - interval '1 hour' where tenant_id = $1`, [last])
  await eventually('its age', async () => ((await figure(service.url, 'halfkey_outbox_age_seconds')) ?? 0) > 3_500)
})

test('while the database is away a scrape is answered: the database is down, and figures of it have no value rather than an old one', async (context) => {
  const server = await PostgresProcess.create()
  context.onTestFinished(() => server.remove())
  const service = await startService({ DATABASE_URL: server.url })
  context.onTestFinished(() => service.stop())
  expect(await figure(service.url, 'halfkey_database_up')).toBe(1)
  expect(await figure(service.url, 'halfkey_outbox_age_seconds')).toBeDefined()
  expect(Math.abs((await figure(service.url, 'halfkey_clock_skew_seconds')) as number)).toBeLessThan(5)
  await server.kill()
  await eventually('the database is down', async () => (await figure(service.url, 'halfkey_database_up')) === 0)
  for (const name of ['halfkey_outbox_age_seconds', 'halfkey_workers_alive', 'halfkey_clock_skew_seconds'])
    expect(await figure(service.url, name), name).toBeUndefined()
  // A check is not made anew for each scrape.
  await eventually('no readiness', async () => (await figure(service.url, 'halfkey_ready{check="database"}')) === 0)
  expect(await figure(service.url, 'halfkey_database_connections_max{pool="api"}')).toBeGreaterThan(0)
  await server.start()
  await eventually('the database is back', async () => (await figure(service.url, 'halfkey_database_up')) === 1)
})
