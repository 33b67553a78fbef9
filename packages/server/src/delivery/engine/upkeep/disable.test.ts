import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { createUser, deliveriesIn, deliveriesOf, jobEnded, subscribe } from '../delivery.fixture.ts'
import { deleteExpired } from './sweep.ts'

const MINUTE_MS = 60_000
const RETENTION = { retentionMs: 30 * MINUTE_MS, deadLetterRetentionMs: 120 * MINUTE_MS, followers: [] }
const receivers: Receiver[] = []
let service: Service
beforeAll(async () => {
  service = await startService({
    HALFKEY_WEBHOOK_RETRY_DELAYS: `${'600ms,'.repeat(8)}1h`,
    HALFKEY_WEBHOOK_DISABLE_AFTER: '4s',
  })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

async function newReceiver(status: number): Promise<Receiver> {
  const receiver = await startReceiver(answer(status))
  receivers.push(receiver)
  return receiver
}

test.concurrent('an endpoint that fails everything for too long is disabled with notice; what it missed can be recovered', async () => {
  const tenant = await service.newTenant()
  const since = new Date().toISOString()
  const failing = await newReceiver(500)
  const witness = await newReceiver(200)
  const { id } = await subscribe(tenant, failing.url)
  await subscribe(tenant, witness.url, { events: ['webhook.disabled'] })
  const users = [await createUser(tenant), await createUser(tenant)]
  const notice = await witness.until('the notice', () => true)
  const { data: webhook } = (await tenant.get(`/webhooks/${id}`)).body
  expect(webhook.status).toBe('disabled')
  expect(webhook.disabledReason).toMatch(/\d{4}-\d\d-\d\dT/)
  expect(notice.event.type).toBe('webhook.disabled')
  expect(notice.event.data).toEqual({
    webhookId: id,
    url: failing.url,
    reason: webhook.disabledReason,
  })
  const pending = await deliveriesIn(tenant, id, 'dead_letter', 2)
  expect(pending.every((each) => each.attempts.length > 0 && each.nextAttemptAt === null)).toBe(true)
  users.push(await createUser(tenant))
  const dead = await deliveriesIn(tenant, id, 'dead_letter', 3)
  expect(dead[0]).toMatchObject({ attempts: [], retryCount: 0 })
  const before = failing.received.length
  failing.behave(answer(200))
  expect((await tenant.patch(`/webhooks/${id}`, { status: 'active' })).body.data.disabledReason).toBeNull()
  const job = await tenant.post(`/webhooks/${id}/recover`, { since })
  expect(await jobEnded(tenant, job.body.data.id)).toMatchObject({ status: 'succeeded', progress: 3 })
  await deliveriesIn(tenant, id, 'succeeded', 3)
  const recovered = failing.received.slice(before).map((got) => got.event.data.userId)
  expect(recovered.sort()).toEqual(users.sort())
  expect(await deliveriesOf(tenant, id, '&status=dead_letter')).toEqual([])
  expect(witness.received).toHaveLength(1)
})

test.concurrent('an endpoint that answers now and then stays active, however much it fails', async () => {
  const tenant = await service.newTenant()
  // Each failure is answered once a success has come after the one before, however slow the machine is.
  const failures = Array.from({ length: 9 }, () => Promise.withResolvers<void>())
  failures[0]?.resolve()
  let failed = 0
  const receiver = await newReceiver(500)
  const { id } = await subscribe(tenant, receiver.url, { events: ['user.*'] })
  receiver.behave(async (got, response) => {
    const fails = got.event.type === 'user.created'
    if (fails) await failures[failed++]?.promise
    response.writeHead(fails ? 500 : 200).end()
  })
  const user = await createUser(tenant)
  let updates = 0
  await eventually('it has failed for twice the limit', async () => {
    const [failing] = await deliveriesOf(tenant, id, '&status=retrying')
    updates += 1
    await tenant.patch(`/users/${user}`, { name: `Ada ${updates}` })
    await deliveriesIn(tenant, id, 'succeeded', Math.min(updates, 100))
    failures[failing?.retryCount]?.resolve()
    return receiver.received.filter((got) => got.event.type === 'user.created').length >= 9
  })
  expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('active')
})

test.concurrent('a failing test event neither disables the webhook nor counts against it', async () => {
  const tenant = await service.newTenant()
  const receiver = await newReceiver(500)
  const { id } = await subscribe(tenant, receiver.url)
  await service.sql(`update lanes set failing_since = now() - interval '1 hour' where webhook_id = $1`, [id])
  expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('failed')
  expect((await tenant.post(`/webhooks/${id}/test`)).body.data.status).toBe('failed')
  expect((await tenant.get(`/webhooks/${id}`)).body.data.status).toBe('active')
})

/** Runs retention until it has taken what is old: one call skips rows that another test's call holds locked. */
const expireUntilLeft = (tenant: Tenant, webhookId: string, left: { deliveries: number; events: number }) =>
  eventually(`${left.deliveries} deliveries and ${left.events} events are left`, async () => {
    await service.deps.db.tx(async (tx) => {
      while ((await deleteExpired(tx, RETENTION)) > 0);
    })
    const events = await service.sql('select from events where tenant_id = $1', [tenant.tenantId])
    return (await deliveriesOf(tenant, webhookId)).length === left.deliveries && events.length === left.events
  })

test.concurrent('retention takes old deliveries, attempts and events; dead letters, their events and what is young stay', async () => {
  const tenant = await service.newTenant()
  const receiver = await newReceiver(200)
  const { id } = await subscribe(tenant, receiver.url)
  const other = await subscribe(tenant, `${receiver.url}/dead`, { events: ['user.updated'] })
  const user = await createUser(tenant)
  const [old] = await deliveriesIn(tenant, id, 'succeeded')
  await tenant.patch(`/users/${user}`, { name: 'Ada' })
  const [dead] = await deliveriesIn(tenant, other.id, 'succeeded')
  await createUser(tenant)
  const [young] = await deliveriesIn(tenant, id, 'succeeded', 2)
  await service.sql(`update deliveries_done set status = 'dead_letter' where id = $1`, [dead.id])
  for (const [table, column] of [
    ['deliveries_done', 'done_at'],
    ['events', 'created_at'],
  ]) {
    await service.sql(
      `update ${table} set ${column} = ${column} - interval '1 hour' where tenant_id = $1 and id <> all($2)`,
      [tenant.tenantId, [young.id, young.eventId]],
    )
  }
  await expireUntilLeft(tenant, id, { deliveries: 1, events: 2 })
  expect((await deliveriesOf(tenant, id)).map((each) => each.id)).toEqual([young.id])
  expect((await deliveriesOf(tenant, other.id)).map((each) => each.id)).toEqual([dead.id])
  expect((await tenant.get(`/webhooks/${id}/deliveries/${old.id}`)).status).toBe(404)
  const left = async (table: string, column: string) =>
    (
      await service.sql<{ id: string }>(`select ${column} as id from ${table} where tenant_id = $1 order by 1`, [
        tenant.tenantId,
      ])
    ).map((row) => row.id)
  expect(await left('events', 'id')).toEqual([dead.eventId, young.eventId].sort())
  expect(await left('feed', 'event_id')).toEqual([dead.eventId, young.eventId].sort())
  expect(await left('attempts', 'delivery_id')).toEqual([dead.id, young.id].sort())
  // The dead letter has its own time; a retry within it still has the event to send.
  await tenant.post(`/webhooks/${other.id}/deliveries/${dead.id}/retry`)
  await receiver.count('the dead letter again', 2, (got) => got.path === '/dead')
  await deliveriesIn(tenant, other.id, 'succeeded')
})

test.concurrent('retention leaves what still waits, and a dead letter past its own time goes', async () => {
  const tenant = await service.newTenant()
  const receiver = await newReceiver(200)
  const { id } = await subscribe(tenant, receiver.url)
  await createUser(tenant)
  await deliveriesIn(tenant, id, 'succeeded')
  await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
  await createUser(tenant)
  const [waiting] = await deliveriesIn(tenant, id, 'pending')
  await service.sql(
    `update deliveries_done set status = 'dead_letter', done_at = now() - interval '3 hours' where webhook_id = $1`,
    [id],
  )
  await service.sql(`update events set created_at = now() - interval '3 hours' where tenant_id = $1`, [tenant.tenantId])
  await expireUntilLeft(tenant, id, { deliveries: 1, events: 1 })
  expect((await deliveriesOf(tenant, id)).map((each) => each.id)).toEqual([waiting.id])
  await tenant.patch(`/webhooks/${id}`, { status: 'active' })
  await receiver.until('the one that waited', (got) => got.event.id === waiting.eventId)
})

test.concurrent('what waits for a webhook ends though thousands before it have been disabled for long', async () => {
  const tenant = await service.newTenant()
  const failing = await newReceiver(500)
  const first = await subscribe(tenant, failing.url)
  const last = await subscribe(tenant, failing.url)
  await service.sql(
    `insert into webhooks select (jsonb_populate_record(w, jsonb_build_object('id', left(w.id, -4) || to_char(n, 'FM0000'), 'status', 'disabled'))).* from webhooks w, generate_series(1, 2500) n
     where w.tenant_id = $1 and w.id = $2`,
    [tenant.tenantId, first.id],
  )
  await createUser(tenant)
  await deliveriesIn(tenant, last.id, 'dead_letter', 1)
})
