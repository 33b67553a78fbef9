import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import type { Id } from '../../../platform/ids.ts'
import { createUser, deliveriesIn, insertDue, subscribe } from '../delivery.fixture.ts'
import { type Count, createSweepOfAlerts, forgetOldMinutes, recordAttempts } from './alerts.ts'

const receivers: Receiver[] = []
let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

async function newReceiver(status = 200): Promise<Receiver> {
  const receiver = await startReceiver(answer(status))
  receivers.push(receiver)
  return receiver
}

/** Counts attempts of a webhook, as a worker does. */
function record(tenant: Tenant, webhookId: string, attempts: number, failed: number): Promise<void> {
  const count = { tenantId: tenant.tenantId, webhookId, attempts, failed } as Count
  return service.deps.db.tx((tx) => recordAttempts(tx, service.deps, [count]))
}

/** Moves what was counted so far into the past. */
const age = (webhookId: string, minutes: number) =>
  service.sql(`update webhook_minutes set minute = minute - $2 * interval '1 minute' where webhook_id = $1`, [
    webhookId,
    minutes,
  ])

const sweep = () =>
  service.deps.db.tx(async (tx) => {
    await forgetOldMinutes(tx)
    await createSweepOfAlerts(service.deps)(tx)
  })

interface Alert {
  type: string
  data: Record<string, unknown>
}

/** The alerts about a webhook, in order. */
async function alertsOf(tenant: Tenant, webhookId: string): Promise<Alert[]> {
  const rows = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type in ('webhook.failing', 'webhook.recovered') order by id`,
    [tenant.tenantId],
  )
  return rows.map(({ body }) => JSON.parse(body) as Alert).filter(({ data }) => data.webhookId === webhookId)
}

const told = async (tenant: Tenant, webhookId: string) =>
  (await alertsOf(tenant, webhookId)).map(({ type, data }) => `${type.slice(8)} ${data.threshold}`)

/** A webhook that nothing is sent to. */
async function quietWebhook(): Promise<{ tenant: Tenant; id: string }> {
  const tenant = await service.newTenant()
  const { id } = await subscribe(tenant, 'https://user-facing.example.com/hook?key=in-the-url', {
    events: ['app.deleted'],
  })
  return { tenant, id }
}

describe.concurrent('an alert', () => {
  test('goes to the other webhooks when enough attempts failed, and health says so; its own delivery counts for nothing', async () => {
    const tenant = await service.newTenant()
    const [failing, alarm, deaf] = [await newReceiver(500), await newReceiver(), await newReceiver(500)]
    const { id } = await subscribe(tenant, failing.url, { events: ['user.created', 'webhook.*'] })
    await subscribe(tenant, alarm.url, { events: ['webhook.failing'] })
    const unheard = await subscribe(tenant, deaf.url, { events: ['webhook.*'] })
    await insertDue(service, tenant, id, 25)
    const got = await alarm.until('the alert', () => true)
    expect(got.event).toMatchObject({
      type: 'webhook.failing',
      data: { webhookId: id, host: new URL(failing.url).host, threshold: 100, windowMinutes: 15, failureRate: 1 },
    })
    expect(got.event.data.attempts).toBe(got.event.data.failed)
    expect(got.event.data.attempts).toBeGreaterThanOrEqual(20)
    await deaf.until('the one that fails', (each) => each.event.type === 'webhook.failing')
    const health = async (webhookId: string) => (await tenant.get(`/webhooks/${webhookId}`)).body.data.health
    await eventually('all are counted', async () => (await health(id)).attempts === 25)
    expect(await health(id)).toEqual({ attempts: 25, failed: 25, state: 'failing' })
    expect(await health(unheard.id)).toEqual({ attempts: 0, failed: 0, state: 'idle' })
    const listed = (await tenant.get('/webhooks')).body.data as { id: string; health: { state: string } }[]
    expect(listed.find((each) => each.id === id)?.health.state).toBe('failing')
    expect(failing.received.some((each) => each.event.type?.startsWith('webhook.'))).toBe(false)
    expect(alarm.received).toHaveLength(1)
  })

  test('is told once for each threshold of an episode, the highest of those reached at once', async () => {
    const { tenant, id } = await quietWebhook()
    await record(tenant, id, 19, 19)
    expect(await told(tenant, id)).toEqual([])
    await record(tenant, id, 19, 0)
    expect(await told(tenant, id)).toEqual(['failing 50'])
    await record(tenant, id, 10, 0)
    await record(tenant, id, 10, 10)
    expect(await told(tenant, id)).toEqual(['failing 50'])
    await record(tenant, id, 300, 300)
    expect(await told(tenant, id)).toEqual(['failing 50', 'failing 90'])
    await age(id, 15)
    await record(tenant, id, 20, 20)
    expect(await told(tenant, id)).toEqual(['failing 50', 'failing 90', 'failing 100'])
    const [first] = await alertsOf(tenant, id)
    expect(first?.data).toEqual({
      webhookId: id,
      host: 'user-facing.example.com',
      threshold: 50,
      windowMinutes: 15,
      attempts: 38,
      failed: 19,
      failureRate: 0.5,
    })
  })

  test('ends with one that it has recovered, and the next episode begins anew', async () => {
    const { tenant, id } = await quietWebhook()
    await record(tenant, id, 20, 15)
    await record(tenant, id, 40, 0)
    // Exactly a quarter is not below it.
    expect(await told(tenant, id)).toEqual(['failing 75'])
    await record(tenant, id, 1, 0)
    expect(await told(tenant, id)).toEqual(['failing 75', 'recovered 75'])
    const [, recovered] = await alertsOf(tenant, id)
    expect(recovered?.data).toMatchObject({ attempts: 61, failed: 15, failureRate: 0.2459 })
    expect(recovered?.data.failingSince).toMatch(/^\d{4}-.*Z$/)
    await record(tenant, id, 100, 100)
    expect(await told(tenant, id)).toEqual(['failing 75', 'recovered 75', 'failing 50'])
  })

  test('of a webhook that gets little ends when nothing in the window failed, also if that is only by the time', async () => {
    const { tenant, id } = await quietWebhook()
    await record(tenant, id, 20, 20)
    await age(id, 10)
    await record(tenant, id, 2, 0)
    await sweep()
    expect(await told(tenant, id)).toEqual(['failing 100'])
    await age(id, 6)
    await sweep()
    expect(await told(tenant, id)).toEqual(['failing 100', 'recovered 100'])
    await sweep()
    expect(await told(tenant, id)).toHaveLength(2)
  })

  test('stays open while nothing is sent, and ends untold with a webhook that is disabled or deleted', async () => {
    const { tenant, id } = await quietWebhook()
    await record(tenant, id, 20, 20)
    await age(id, 30)
    await sweep()
    const open = () => service.sql('select 1 from webhook_alerts where webhook_id = $1', [id])
    expect(await open()).toHaveLength(1)
    expect(await service.sql('select 1 from webhook_minutes where webhook_id = $1', [id])).toEqual([])
    await service.sql(`update webhooks set status = 'disabled' where id = $1`, [id])
    await record(tenant, id, 20, 0)
    await sweep()
    expect(await open()).toEqual([])
    await tenant.patch(`/webhooks/${id}`, { status: 'active' })
    await tenant.delete(`/webhooks/${id}`)
    await record(tenant, id, 100, 100)
    expect(await told(tenant, id)).toEqual(['failing 100'])
  })

  test('is told once, though several processes see the same attempts', async () => {
    const { tenant, id } = await quietWebhook()
    await Promise.all(Array.from({ length: 12 }, () => record(tenant, id, 10, 10)))
    expect(await told(tenant, id)).toEqual(['failing 100'])
    // Sweeps, unlike counts, do not wait for each other: only the episode's row decides.
    const changed = (sql: string) => service.sql(sql, [id])
    await changed('update webhook_alerts set threshold = 50 where webhook_id = $1')
    await Promise.all(Array.from({ length: 8 }, () => sweep()))
    expect(await told(tenant, id)).toEqual(['failing 100', 'failing 100'])
    await changed('update webhook_minutes set failed = 0 where webhook_id = $1')
    await Promise.all(Array.from({ length: 8 }, () => sweep()))
    expect(await told(tenant, id)).toEqual(['failing 100', 'failing 100', 'recovered 100'])
  })

  test('of a webhook of an app is the app’s; other tenants get nothing', async () => {
    const tenant = await service.newTenant()
    const [own, other, stranger] = [await newReceiver(), await newReceiver(), await newReceiver()]
    const second = (await tenant.post('/apps', { name: 'Second' })).body.data.id as string
    const events = ['webhook.failing']
    const { id } = await subscribe(tenant, 'https://example.com/', { events: ['app.deleted'], appId: tenant.appId })
    await subscribe(tenant, other.url, { events, appId: second })
    await subscribe(await service.newTenant(), stranger.url, { events })
    await subscribe(tenant, own.url, { events, appId: tenant.appId })
    await record(tenant, id, 20, 10)
    expect((await own.until('the alert', () => true)).event.data.webhookId).toBe(id)
    expect([other.received, stranger.received]).toEqual([[], []])
  })

  test('counts neither tests nor alerts, and health is of the tenant’s own webhooks', async () => {
    const tenant = await service.newTenant()
    const receiver = await newReceiver(500)
    const { id } = await subscribe(tenant, receiver.url, { events: ['user.created', 'webhook.failing'] })
    const { id: about } = await subscribe(tenant, 'https://example.com/', { events: ['app.deleted'] })
    await tenant.post(`/webhooks/${id}/test`)
    await record(tenant, about, 20, 20)
    await receiver.until('the alert', (got) => got.event.type === 'webhook.failing')
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'retrying', 2)
    await eventually(
      'the one is counted',
      async () => (await tenant.get(`/webhooks/${id}`)).body.data.health.attempts > 0,
    )
    expect((await tenant.get(`/webhooks/${id}`)).body.data.health).toEqual({ attempts: 1, failed: 1, state: 'failing' })
    const stranger = await service.newTenant()
    await service.sql(
      'insert into webhook_minutes (tenant_id, webhook_id, minute, attempts, failed) values ($1, $2, now(), 50, 0)',
      [stranger.tenantId as Id<'ten'>, id],
    )
    expect((await tenant.get(`/webhooks/${id}`)).body.data.health.attempts).toBe(1)
  })
})
