import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { sql } from '../../platform/db/db.ts'
import { deleteOldJobs, stepJob } from '../../platform/events/jobs.ts'
import { idTime } from '../../platform/ids.ts'
import {
  createUser,
  deliveriesIn,
  deliveriesOf,
  insertDeadLetters,
  jobEnded,
  subscribe,
} from '../engine/delivery.fixture.ts'
import { stepRecovery } from './recover.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const hour = 3_600_000
const anHourAgo = () => new Date(Date.now() - hour).toISOString()

describe.concurrent('the test event', () => {
  const isTest = (id: string) => (got: { event: { type: string; data: { webhookId: string } } }) =>
    got.event.type === 'webhook.test' && got.event.data.webhookId === id

  test('is sent once, to this webhook alone, and answered with the ended delivery', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, `${receiver.url}/tested`, { events: ['tx.completed'] })
    const other = await subscribe(tenant, `${receiver.url}/other`, { events: ['webhook.*', 'user.*'] })
    const tested = await tenant.post(`/webhooks/${id}/test`)
    expect(tested.status).toBe(200)
    expect(tested.body.data).toMatchObject({
      webhookId: id,
      eventType: 'webhook.test',
      status: 'succeeded',
      retryCount: 0,
      nextAttemptAt: null,
      attempts: [{ number: 0, statusCode: 200, error: null, responseSnippet: '' }],
    })
    const got = await receiver.until('the test', isTest(id))
    expect(got.path).toBe('/tested')
    expect(got.headers['x-service-event-id']).toBe(tested.body.data.eventId)
    expect(await deliveriesOf(tenant, id)).toEqual([tested.body.data])
    expect(await deliveriesOf(tenant, other.id)).toEqual([])
  })

  test('imitates any kind of the catalogue, and no other', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const tested = await tenant.post(`/webhooks/${id}/test`, { eventType: 'user.created' })
    expect(tested.body.data).toMatchObject({ eventType: 'user.created', status: 'succeeded' })
    const got = await receiver.until('it', (each) => each.event.id === tested.body.data.eventId)
    expect(Object.keys(got.event)).toEqual(['id', 'type', 'created_at', 'api_version', 'data'])
    expect(Object.keys(got.event.data).sort()).toEqual(['email', 'partyId', 'userId'])
    for (const body of [{ eventType: 'user.*' }, { eventType: 'x' }, { eventType: null }, { type: 'user.created' }]) {
      expect((await tenant.post(`/webhooks/${id}/test`, body)).status).toBe(400)
    }
  })

  test('that fails is not repeated, is no dead letter and cannot be retried', async () => {
    const tenant = await service.newTenant()
    const failing = await startReceiver(answer(500, 'no'))
    const { id } = await subscribe(tenant, failing.url)
    const { data } = (await tenant.post(`/webhooks/${id}/test`)).body
    expect(data).toMatchObject({
      status: 'failed',
      nextAttemptAt: null,
      attempts: [{ number: 0, statusCode: 500, error: 'status 500', responseSnippet: 'no' }],
    })
    const retried = await tenant.post(`/webhooks/${id}/deliveries/${data.id}/retry`)
    expect([retried.status, retried.body.code]).toEqual([409, 'delivery_not_retryable'])
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toEqual([])
    expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('active')
    expect(failing.received).toHaveLength(1)
    await failing.close()
  })

  test('is one test under one idempotency key', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const send = () => tenant.post(`/webhooks/${id}/test`, {}, { headers: { 'idempotency-key': 't' } })
    const first = await send()
    const again = await send()
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.body).toEqual(first.body)
    expect(receiver.received.filter(isTest(id))).toHaveLength(1)
  })

  test('goes out at once while the webhook is paused, and while it is disabled', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('succeeded')
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('succeeded')
    expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('disabled')
  })

  test('overtakes a backlog, and is answered within 10 s by a receiver that hangs', async () => {
    const tenant = await service.newTenant()
    const hanging = await startReceiver((got, response) => {
      if (got.event.type === 'tx.completed') response.end()
    })
    const { id } = await subscribe(tenant, hanging.url)
    await Promise.all(Array.from({ length: 40 }, () => createUser(tenant)))
    await hanging.count('all its places are taken', 8)
    const overtaking = await tenant.post(`/webhooks/${id}/test`, { eventType: 'tx.completed' })
    expect(overtaking.body.data.status).toBe('succeeded')
    expect(await deliveriesOf(tenant, id, '&status=delivering')).toHaveLength(8)
    const hung = await Promise.all([tenant.post(`/webhooks/${id}/test`), tenant.post(`/webhooks/${id}/test`)])
    // Answered while the receiver still hangs.
    for (const each of hung) {
      expect(each.status).toBe(200)
      expect(each.body.data).toMatchObject({ status: 'delivering', attempts: [] })
    }
    await hanging.close()
  })
})

describe.concurrent('whose events', () => {
  test('without an app those of all apps and the tenant’s own; with one, that app’s only', async () => {
    const tenant = await service.newTenant()
    const other = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    const events = ['user.*', 'tenant.*']
    const all = await subscribe(tenant, `${receiver.url}/scope-all`, { events })
    const bound = await subscribe(tenant, `${receiver.url}/scope-app`, { events, appId: app })
    const stranger = await subscribe(other, `${receiver.url}/scope-stranger`, { events })
    const inDefault = await createUser(tenant)
    const inSecond = await createUser(tenant, { appId: app })
    await tenant.patch('/tenant', { name: 'Renamed' })
    await deliveriesIn(tenant, all.id, 'succeeded', 3)
    await deliveriesIn(tenant, bound.id, 'succeeded', 1)
    const got = (path: string) =>
      receiver.received.filter((each) => each.path === path).map((each) => each.event.data.userId ?? each.event.type)
    expect(got('/scope-all').sort()).toEqual(['tenant.updated', inDefault, inSecond].sort())
    expect(got('/scope-app')).toEqual([inSecond])
    expect(await deliveriesOf(other, stranger.id)).toEqual([])
  })

  test('a kind, a family and everything are matched as they are named', async () => {
    const tenant = await service.newTenant()
    const kind = await subscribe(tenant, receiver.url, { events: ['user.updated'] })
    const family = await subscribe(tenant, receiver.url, { events: ['user.*'] })
    const everything = await subscribe(tenant, receiver.url, { events: ['*', 'user.*', 'user.created'] })
    const neither = await subscribe(tenant, receiver.url, { events: ['user.signed_in', 'tx.*'] })
    const user = await createUser(tenant)
    await tenant.patch(`/users/${user}`, { name: 'Ada' })
    await tenant.patch('/tenant', { name: 'Renamed' })
    // What the tenant's own creation caused may still have been on its way when the webhooks came.
    const early = ['app.created', 'api_key.created']
    const types = (id: string, count: number) =>
      eventually(`${count} deliveries`, async () => {
        const found = (await deliveriesOf(tenant, id, '&status=succeeded')).map((each) => each.eventType as string)
        const caused = found.filter((type) => !early.includes(type)).reverse()
        return caused.length >= count && caused
      })
    expect(await types(everything.id, 3)).toEqual(['user.created', 'user.updated', 'tenant.updated'])
    expect(await types(family.id, 2)).toEqual(['user.created', 'user.updated'])
    expect(await types(kind.id, 1)).toEqual(['user.updated'])
    expect(await deliveriesOf(tenant, neither.id)).toEqual([])
  })
})

describe.concurrent('dead letters', () => {
  test('are recovered from a time on, by a job that says how far it is', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, `${receiver.url}/recovered`)
    await insertDeadLetters(service, tenant, id, 3)
    const since = new Date().toISOString()
    await eventually('a later millisecond', async () => new Date().toISOString() > since)
    await insertDeadLetters(service, tenant, id, 2)
    const begun = await tenant.post(`/webhooks/${id}/recover`, { since: new Date(Date.parse(since) + 1).toISOString() })
    expect(begun.status).toBe(201)
    expect(begun.body.data).toMatchObject({ type: 'webhook.recover', status: 'pending', progress: 0, total: 2 })
    expect(await jobEnded(tenant, begun.body.data.id)).toMatchObject({ status: 'succeeded', progress: 2, total: 2 })
    await deliveriesIn(tenant, id, 'succeeded', 2)
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toHaveLength(3)
  })

  test.each([
    ['no time', {}],
    ['a day only', { since: '2026-01-01' }],
    ['no zone', { since: '2026-01-01T00:00:00' }],
    ['text', { since: 'yesterday' }],
    ['a number', { since: 0 }],
    ['the 30th of February', { since: '2026-02-30T00:00:00Z' }],
    ['the future', { since: '2999-01-01T00:00:00Z' }],
  ])('recovering since %s is 400', async (_, body) => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const refused = await tenant.post(`/webhooks/${id}/recover`, body)
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.details[0].field).toBe('since')
  })

  test('a time before 1970, or in another zone, is a time', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    for (const since of ['1900-01-01T00:00:00Z', '2026-01-01T00:00:00.123+05:30']) {
      expect((await tenant.post(`/webhooks/${id}/recover`, { since })).status).toBe(201)
    }
  })

  test('of a disabled webhook are neither retried nor recovered: 409', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 1)
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    const [dead] = await deliveriesOf(tenant, id)
    for (const refused of [
      await tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`),
      await tenant.post(`/webhooks/${id}/recover`, { since: anHourAgo() }),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([409, 'webhook_disabled'])
    }
    expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toHaveLength(1)
  })

  test('are purged, and nothing else is', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const other = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 6_000)
    await insertDeadLetters(service, tenant, other.id, 1)
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'succeeded')
    for (const query of ['', '?status=succeeded', '?status=dead_letter&event_type=user.created']) {
      expect((await tenant.delete(`/webhooks/${id}/deliveries${query}`)).status).toBe(400)
    }
    const purged = await tenant.delete(`/webhooks/${id}/deliveries?status=dead_letter`)
    expect([purged.status, purged.body.data]).toEqual([200, { purged: 6_000 }])
    expect((await tenant.get(`/webhooks/${id}/deliveries`)).body.total).toBe(1)
    expect((await tenant.get(`/webhooks/${other.id}/deliveries?status=dead_letter`)).body.total).toBe(1)
    const again = await tenant.delete(`/webhooks/${id}/deliveries?status=dead_letter`)
    expect(again.body.data).toEqual({ purged: 0 })
  })
})

test.concurrent('a recover job that is left half-way is taken up by another process, and sends each dead letter once', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  const target = await startReceiver()
  const { id } = await subscribe(tenant, target.url)
  await insertDeadLetters(api, tenant, id, 1_200)
  const begun = await tenant.post(`/webhooks/${id}/recover`, { since: new Date(Date.now() - 60_000).toISOString() })
  expect(begun.body.data).toMatchObject({ status: 'pending', progress: 0, total: 1_200 })
  expect(await stepRecovery(api.deps.db, api.deps.log)).toBe(true)
  expect((await tenant.get(`/jobs/${begun.body.data.id}`)).body.data).toMatchObject({
    status: 'running',
    progress: 500,
  })
  const worker = await startService({
    DATABASE_URL: api.databaseUrl,
    HALFKEY_DATA_DIR: api.dataDir,
    HALFKEY_ROLE: 'worker',
  })
  expect(await jobEnded(tenant, begun.body.data.id)).toMatchObject({
    status: 'succeeded',
    progress: 1_200,
    total: 1_200,
  })
  await target.count('all', 1_200)
  expect(new Set(target.received.map((got) => got.event.id)).size).toBe(1_200)
  await eventually('all are stored', async () => {
    const page = await tenant.get(`/webhooks/${id}/deliveries?status=succeeded`)
    return page.body.total === 1_200
  })
  expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toEqual([])
  expect(target.received).toHaveLength(1_200)
  await target.close()
  await worker.stop()
  await api.stop()
})

describe.concurrent('a delivery’s history', () => {
  test('is whole in the delivery, and its last ten attempts in a list', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 1)
    const [dead] = await deliveriesOf(tenant, id)
    await service.sql(
      `insert into attempts (tenant_id, delivery_id, number, at, duration_ms) select $1, $2, n, now(), 1 from generate_series(0, 14) n`,
      [tenant.tenantId, dead.id],
    )
    const numbers = (delivery: { attempts: { number: number }[] }) => delivery.attempts.map((each) => each.number)
    const all = Array.from({ length: 15 }, (_, n) => n)
    expect((await deliveriesOf(tenant, id)).map(numbers)).toEqual([all.slice(5)])
    expect(numbers((await tenant.get(`/webhooks/${id}/deliveries/${dead.id}`)).body.data)).toEqual(all)
  })

  test('of a hundred attempts is not gone on with: 409, and recovery leaves the dead letter', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 2)
    const [worn, other] = await deliveriesOf(tenant, id)
    const set = 'update deliveries_done set attempts = $3 where tenant_id = $1 and id = $2'
    await service.sql(set, [tenant.tenantId, worn.id, 100])
    await service.sql(set, [tenant.tenantId, other.id, 99])
    const refused = await tenant.post(`/webhooks/${id}/deliveries/${worn.id}/retry`)
    expect([refused.status, refused.body.code]).toEqual([409, 'delivery_not_retryable'])
    const begun = await tenant.post(`/webhooks/${id}/recover`, { since: anHourAgo() })
    expect(await jobEnded(tenant, begun.body.data.id)).toMatchObject({ status: 'succeeded', progress: 2, total: 2 })
    const [sent] = await deliveriesIn(tenant, id, 'succeeded')
    expect(sent).toMatchObject({ id: other.id, attempts: [{ number: 99 }] })
    expect((await deliveriesOf(tenant, id, '&status=dead_letter')).map((each) => each.id)).toEqual([worn.id])
  })

  test('ends where its event is being deleted: a retry at that moment is 409, and leaves the dead letter', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(service, tenant, id, 1)
    const [dead] = await deliveriesOf(tenant, id)
    const retried = await service.deps.db.tx(async (tx) => {
      await tx.run(sql`delete from events where tenant_id = ${tenant.tenantId} and id = ${dead.eventId}`)
      const retrying = tenant.post(`/webhooks/${id}/deliveries/${dead.id}/retry`)
      const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%for key share of e%'`
      await eventually('it waits', async () => (await service.sql(waits)).length > 0)
      return { retrying }
    })
    const refused = await retried.retrying
    expect([refused.status, refused.body.code]).toEqual([409, 'delivery_not_retryable'])
    expect((await deliveriesOf(tenant, id)).map((each) => each.status)).toEqual(['dead_letter'])
  })
})

describe('where no worker runs', () => {
  let api: Service
  beforeAll(async () => {
    api = await startService({ HALFKEY_ROLE: 'api' })
  })
  afterAll(() => api.stop())

  const step = () => stepRecovery(api.deps.db, api.deps.log)
  const ago = (hours: number) => new Date(Date.now() - hours * hour).toISOString()

  test('at most ten tests of a webhook are open, and at most fifty calls of a tenant wait', async () => {
    const tenant = await api.newTenant()
    const ids: string[] = []
    for (let n = 0; n < 6; n += 1) ids.push((await subscribe(tenant, receiver.url)).id)
    const waiting = ids
      .slice(0, 5)
      .flatMap((id) => Array.from({ length: 10 }, () => tenant.post(`/webhooks/${id}/test`)))
    const open = 'select 1 from deliveries where tenant_id = $1'
    await eventually('fifty wait', async () => (await api.sql(open, [tenant.tenantId])).length === 50)
    const refused = await tenant.post(`/webhooks/${ids[0]}/test`)
    expect([refused.status, refused.body.code, refused.headers.get('retry-after')]).toEqual([429, 'rate_limited', '10'])
    expect(refused.body.details).toEqual([
      {
        code: 'too_many_tests',
        message: expect.stringContaining('10 unfinished test events'),
        docs: expect.any(String),
      },
    ])
    let answered = 0
    for (const each of waiting) each.then(() => (answered += 1))
    const unwaited = await tenant.post(`/webhooks/${ids[5]}/test`)
    expect(answered).toBeLessThan(50)
    expect([unwaited.status, unwaited.body.data.status]).toEqual([200, 'pending'])
    const waited = await Promise.all(waiting)
    expect(waited.every((each) => each.status === 200 && each.body.data.status === 'pending')).toBe(true)
  })

  test('a webhook has one recover job at a time: asked again it is that one, which goes back to an earlier time', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const other = await subscribe(tenant, receiver.url)
    await insertDeadLetters(api, tenant, id, 600)
    const recover = (since: string, webhook = id) => tenant.post(`/webhooks/${webhook}/recover`, { since })
    const since = ago(2)
    const job = (await recover(since)).body.data
    expect(await step()).toBe(true)
    for (const again of [await recover(since), await recover(ago(1))]) {
      expect(again.status).toBe(201)
      expect(again.body.data).toMatchObject({ id: job.id, status: 'running', progress: 500 })
    }
    const earlier = await recover(ago(3))
    expect(earlier.status).toBe(201)
    expect(earlier.body.data).toMatchObject({ id: job.id, progress: 500 })
    expect(earlier.body.data.total).toBeGreaterThanOrEqual(600)
    expect((await recover(since, other.id)).body.data.id).not.toBe(job.id)
    while (await step());
    expect((await tenant.get(`/jobs/${job.id}`)).body.data.status).toBe('succeeded')
    expect((await recover(ago(3))).body.data.id).not.toBe(job.id)
    while (await step());
  })

  test('a recover job leaves what became a dead letter after the call, and asked again sends that too', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(api, tenant, id, 3)
    const recover = async (since: string) => (await tenant.post(`/webhooks/${id}/recover`, { since })).body.data
    const left = async () => (await deliveriesOf(tenant, id, '&status=dead_letter')).length
    const oneEndsNow = () =>
      api.sql(
        `update deliveries_done set done_at = clock_timestamp() where id = (
           select max(id) from deliveries_done where webhook_id = $1)`,
        [id],
      )
    const job = await recover(ago(2))
    expect(job).toMatchObject({ progress: 0, total: 3 })
    await oneEndsNow()
    while (await step());
    expect((await tenant.get(`/jobs/${job.id}`)).body.data).toMatchObject({ status: 'succeeded', progress: 2 })
    expect(await left()).toBe(1)
    const other = await recover(ago(2))
    await oneEndsNow()
    expect(await recover(ago(1))).toMatchObject({ id: other.id, progress: 0, total: 1 })
    while (await step());
    expect((await tenant.get(`/jobs/${other.id}`)).body.data).toMatchObject({ status: 'succeeded', progress: 1 })
    expect(await left()).toBe(0)
  })

  test('a recover job sends dead letters of a process whose clock is ahead', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(api, tenant, id, 1)
    const ahead = `dlv_${idTime(Date.now() + 5_000)}${'0'.repeat(16)}`
    await api.sql('update deliveries_done set id = $2 where webhook_id = $1', [id, ahead])
    const job = (await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data
    while (await step());
    expect((await tenant.get(`/jobs/${job.id}`)).body.data).toMatchObject({ status: 'succeeded', progress: 1 })
  })

  test('a recover job that an earlier version began sends all dead letters of its time', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await insertDeadLetters(api, tenant, id, 2)
    const job = (await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data
    await api.sql(`update jobs set state = state - 'endedUntil' where id = $1`, [job.id])
    while (await step());
    expect((await tenant.get(`/jobs/${job.id}`)).body.data).toMatchObject({ status: 'succeeded', progress: 2 })
  })

  test('a recover job takes no step while it is asked for again, so that neither waits for the other', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const recover = () => tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })
    const job = (await recover()).body.data
    const again = await api.deps.db.tx(async (tx) => {
      await tx.run(sql`select from webhooks where id = ${id} for no key update`)
      const asked = recover()
      const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%from webhooks%'`
      await eventually('it waits', async () => (await api.sql(waits)).length > 0)
      expect(await step()).toBe(false)
      return { asked }
    })
    expect((await again.asked).body.data).toMatchObject({ id: job.id, status: 'pending' })
    while (await step());
  })

  test('of many at once one begins the recover job, and all are answered with it', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const since = ago(1)
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => tenant.post(`/webhooks/${id}/recover`, { since })),
    )
    expect(new Set(answers.map((each) => each.body.data.id)).size).toBe(1)
    while (await step());
  })

  test('recover jobs take turns, so that a long one delays no other', async () => {
    const tenant = await api.newTenant()
    const jobs: string[] = []
    for (const count of [1_200, 600]) {
      const { id } = await subscribe(tenant, receiver.url)
      await insertDeadLetters(api, tenant, id, count)
      jobs.push((await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data.id)
    }
    await step()
    await step()
    for (const id of jobs) expect((await tenant.get(`/jobs/${id}`)).body.data).toMatchObject({ progress: 500 })
    while (await step());
  })

  test('a recover job whose webhook was deleted, or disabled, fails and says so, and sends nothing', async () => {
    const tenant = await api.newTenant()
    const ended = async (end: (id: string) => Promise<unknown>) => {
      const { id } = await subscribe(tenant, receiver.url)
      await insertDeadLetters(api, tenant, id, 1)
      const job = (await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data.id
      await end(id)
      while (await step());
      expect(await api.sql('select 1 from deliveries where webhook_id = $1', [id])).toEqual([])
      return (await tenant.get(`/jobs/${job}`)).body.data
    }
    expect(await ended((id) => tenant.delete(`/webhooks/${id}`))).toMatchObject({
      status: 'failed',
      error: 'The webhook was deleted.',
    })
    expect(await ended((id) => api.sql(`update webhooks set status = 'disabled' where id = $1`, [id]))).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^The webhook was disabled\./),
    })
  })

  test('a job that breaks says nothing of the cause, which the log has', async () => {
    const tenant = await api.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const job = (await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data.id
    const breaking = () =>
      stepJob(api.deps.db, api.deps.log, 'webhook.recover', async (tx) => {
        await tx.run(sql`select 1 / 0`)
        return { progress: 0, state: {}, done: true }
      })
    expect(await breaking()).toBe(true)
    const { status, error } = (await tenant.get(`/jobs/${job}`)).body.data
    expect([status, error]).toEqual(['failed', expect.stringMatching(/^The job stopped after an internal error\./)])
    expect(api.logs()).toContain(job)
    expect(api.logs()).toContain('division by zero')
  })

  test('jobs that ended thirty days ago are deleted; newer and open ones stay', async () => {
    const tenant = await api.newTenant()
    const jobs: string[] = []
    for (let n = 0; n < 3; n += 1) {
      const { id } = await subscribe(tenant, receiver.url)
      jobs.push((await tenant.post(`/webhooks/${id}/recover`, { since: ago(1) })).body.data.id)
      if (n < 2) while (await step());
    }
    const [old, ended, open] = jobs
    const age = 'update jobs set updated_at = now() - $2::interval where id = $1'
    await api.sql(age, [old, '31 days'])
    await api.sql(age, [ended, '29 days'])
    await api.sql(age, [open, '31 days'])
    expect(await deleteOldJobs(api.deps.db)).toBe(false)
    const statuses = []
    for (const id of jobs) statuses.push((await tenant.get(`/jobs/${id}`)).status)
    expect(statuses).toEqual([404, 200, 200])
    while (await step());
  })
})
