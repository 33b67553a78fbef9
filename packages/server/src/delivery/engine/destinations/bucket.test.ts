import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { newType, ok } from '../../events/own-events.fixture.ts'
import { createUser, deliveriesIn, deliveriesOf, insertDue, insertEvents } from '../delivery.fixture.ts'
import { type Request, STAGES, type Stage } from './stage.fixture.ts'

const EVENTS_MAX = 64
const BYTES_MAX = 5 * 1024 * 1024

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '200ms,1h' })
})
afterAll(() => service.stop())

async function makeWebhook(tenant: Tenant, stage: Stage, events = ['user.created']): Promise<string> {
  return ok(await tenant.post('/webhooks', { ...stage.target, events }), 201).id
}

const linesOf = ({ body }: Request) => body.split('\n').slice(0, -1)

/** Waits until so many deliveries have succeeded. */
const succeeded = (id: string, count: number, on = service) =>
  eventually(`${count} deliveries`, async () => {
    const [row] = await on.sql<{ n: number }>(
      `select count(*)::int as n from deliveries_done where webhook_id = $1 and status = 'succeeded'`,
      [id],
    )
    return row?.n === count
  })

describe.concurrent('an S3-compatible bucket', () => {
  test('deliveries of the same second become one object, named by the hour and by themselves', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    const id = await makeWebhook(tenant, stage)
    await insertEvents(service, tenant, 5)
    await succeeded(id, 5)
    const [object, ...others] = front.passed as [Request, ...Request[]]
    expect(others).toEqual([])
    expect(linesOf(object).map((line) => JSON.parse(line).type)).toEqual(Array(5).fill('user.created'))
    const bucket = (stage.target as { destination: { bucket: string } }).destination.bucket
    const times = (await deliveriesOf(tenant, id)).map(({ createdAt }) => createdAt as string)
    const [first] = times.toSorted() as [string]
    const hour = first.slice(0, 13).replace(/[-T]/g, '/')
    expect(object).toMatchObject({ method: 'PUT', headers: { 'content-type': 'application/x-ndjson' } })
    expect(object.path).toMatch(new RegExp(`^/${bucket}/halfkey/events/${hour}/[0-9a-f]{32}\\.jsonl$`))
  })

  test('a failed batch is the same object again, with every delivery of it', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    const id = await makeWebhook(tenant, stage)
    // The first object shows the worker that deliveries go in batches.
    await createUser(tenant)
    await succeeded(id, 1)
    front.script.push({ status: 500, body: '<Error><Code>InternalError</Code></Error>' })
    await insertEvents(service, tenant, 20)
    await succeeded(id, 21)
    const [, failed, again, ...others] = front.requests as [Request, Request, Request, ...Request[]]
    expect(others).toEqual([])
    expect(linesOf(failed)).toHaveLength(20)
    expect(again).toMatchObject({ path: failed.path, body: failed.body })
    const retried = (await deliveriesIn(tenant, id, 'succeeded', 21)).filter(({ retryCount }) => retryCount === 1)
    expect(retried).toHaveLength(20)
    for (const { attempts } of retried)
      expect(attempts).toMatchObject([{ error: 'status 500: InternalError' }, { statusCode: 200 }])
  })

  test('a batch that was written while its answer was lost is written over', async () => {
    // Retries that become due together are one batch again, if nothing has them looked for in between.
    const settings = { HALFKEY_WEBHOOK_RETRY_DELAYS: '3s', HALFKEY_WEBHOOK_TIMEOUT: '2s' }
    const hasty = await startService(settings, { unhurried: true })
    const stage = await STAGES.s3(null)
    try {
      await using front = stage.front
      const tenant = await hasty.newTenant()
      const id = await makeWebhook(tenant, stage)
      await createUser(tenant)
      await succeeded(id, 1, hasty)
      const late = Promise.withResolvers<void>()
      front.hold = late.promise
      await insertEvents(hasty, tenant, 20)
      await deliveriesIn(tenant, id, 'retrying', 20)
      front.hold = null
      late.resolve()
      await succeeded(id, 21, hasty)
      expect(front.requests).toHaveLength(3)
      expect(await stage.arrived()).toHaveLength(21)
      const attempts = (await deliveriesIn(tenant, id, 'succeeded', 21)).flatMap((each) => each.attempts)
      expect(attempts.filter(({ error }) => error === 'timeout')).toHaveLength(20)
    } finally {
      await hasty.stop()
    }
  })

  test('all deliveries of a batch are due again at the same time, so that they meet again', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    const id = await makeWebhook(tenant, stage)
    for (let n = 0; n < 2; n += 1) front.script.push({ status: 500, body: '' })
    await insertEvents(service, tenant, 5)
    const times = await eventually('the second failure', async () => {
      const retrying = await deliveriesOf(tenant, id, '&status=retrying')
      const twice = retrying.filter(({ retryCount }) => retryCount === 2)
      return twice.length === 5 && twice.map(({ nextAttemptAt }) => Date.parse(nextAttemptAt))
    })
    // By chance they would be up to six minutes apart, and all five within 30 s once in 4,000 times.
    expect(Math.max(...times) - Math.min(...times)).toBeLessThan(30_000)
  })

  test('a backlog goes in few objects of at most 64 events, and each event once', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    const id = await makeWebhook(tenant, stage)
    await insertDue(service, tenant, id, 600)
    await succeeded(id, 600)
    const sizes = front.passed.map((object) => linesOf(object).length)
    expect(Math.max(...sizes)).toBe(EVENTS_MAX)
    expect(new Set(front.passed.flatMap(linesOf)).size).toBe(600)
    expect(sizes.reduce((sum, size) => sum + size)).toBe(600)
  })

  test('an object has at most 5 MiB', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    await newType(tenant, 'acme.large')
    const id = await makeWebhook(tenant, stage, ['acme.large'])
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'paused' }))
    const large = { type: 'acme.large', data: { text: 'x'.repeat(250_000) } }
    for (let n = 0; n < 40; n += 1) ok(await tenant.post('/events', large), 201)
    await deliveriesIn(tenant, id, 'pending', 40)
    ok(await tenant.patch(`/webhooks/${id}`, { status: 'active' }))
    await succeeded(id, 40)
    const sizes = front.passed.map(({ body }) => body.length)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(BYTES_MAX)
    expect(front.passed.flatMap(linesOf)).toHaveLength(40)
  })

  test('webhooks with the same bucket do not share objects', async () => {
    const stage = await STAGES.s3(null)
    await using front = stage.front
    const tenant = await service.newTenant()
    const ids = [await makeWebhook(tenant, stage), await makeWebhook(tenant, stage)]
    await createUser(tenant)
    for (const id of ids) await succeeded(id, 1)
    expect(new Set(front.passed.map(({ path }) => path)).size).toBe(2)
  })
})
