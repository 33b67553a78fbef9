import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { newId } from '../../platform/ids.ts'
import { createUser, deliveriesIn, subscribe } from '../engine/delivery.fixture.ts'

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

describe('who may call', () => {
  interface Endpoint {
    method: string
    /** The path, of this webhook, delivery and job. */
    path(ids: { webhook: string; delivery: string; job: string }): string
    scope: 'webhooks:read' | 'webhooks:write'
    status: number
    body?: object
    /** The records that the path names; each must be the caller's. */
    names: ('webhook' | 'delivery' | 'job')[]
  }
  const url = 'https://hooks.example.com/'
  const endpoints: Endpoint[] = [
    { method: 'GET', path: () => '/webhooks', scope: 'webhooks:read', status: 200, names: [] },
    {
      method: 'POST',
      path: () => '/webhooks',
      scope: 'webhooks:write',
      status: 201,
      body: { url, events: ['*'] },
      names: [],
    },
    { method: 'GET', path: () => '/webhooks/event-types', scope: 'webhooks:read', status: 200, names: [] },
    {
      method: 'GET',
      path: (ids) => `/webhooks/${ids.webhook}`,
      scope: 'webhooks:read',
      status: 200,
      names: ['webhook'],
    },
    {
      method: 'PATCH',
      path: (ids) => `/webhooks/${ids.webhook}`,
      scope: 'webhooks:write',
      status: 200,
      body: { description: 'changed' },
      names: ['webhook'],
    },
    {
      method: 'POST',
      path: (ids) => `/webhooks/${ids.webhook}/rotate`,
      scope: 'webhooks:write',
      status: 200,
      names: ['webhook'],
    },
    {
      method: 'POST',
      path: (ids) => `/webhooks/${ids.webhook}/test`,
      scope: 'webhooks:write',
      status: 200,
      names: ['webhook'],
    },
    {
      method: 'GET',
      path: (ids) => `/webhooks/${ids.webhook}/deliveries`,
      scope: 'webhooks:read',
      status: 200,
      names: ['webhook'],
    },
    {
      method: 'GET',
      path: (ids) => `/webhooks/${ids.webhook}/deliveries/${ids.delivery}`,
      scope: 'webhooks:read',
      status: 200,
      names: ['webhook', 'delivery'],
    },
    {
      method: 'POST',
      path: (ids) => `/webhooks/${ids.webhook}/deliveries/${ids.delivery}/retry`,
      scope: 'webhooks:write',
      status: 200,
      names: ['webhook', 'delivery'],
    },
    {
      method: 'POST',
      path: (ids) => `/webhooks/${ids.webhook}/recover`,
      scope: 'webhooks:write',
      status: 201,
      body: { since: '2020-01-01T00:00:00.000Z' },
      names: ['webhook'],
    },
    {
      method: 'POST',
      path: (ids) => `/webhooks/${ids.webhook}/deliveries/bulk`,
      scope: 'webhooks:write',
      status: 201,
      body: { action: 'purge', filter: {} },
      names: ['webhook'],
    },
    { method: 'GET', path: (ids) => `/jobs/${ids.job}`, scope: 'webhooks:read', status: 200, names: ['job'] },
    {
      method: 'DELETE',
      path: (ids) => `/webhooks/${ids.webhook}/deliveries?status=dead_letter`,
      scope: 'webhooks:write',
      status: 200,
      names: ['webhook'],
    },
    {
      method: 'DELETE',
      path: (ids) => `/webhooks/${ids.webhook}`,
      scope: 'webhooks:write',
      status: 200,
      names: ['webhook'],
    },
  ]
  const cases = endpoints.map((each) => {
    const name = `${each.method} ${each.path({ webhook: ':id', delivery: ':deliveryId', job: ':jobId' })}`
    return [name, each] as const
  })

  let tenant: Tenant
  let stranger: Tenant
  let read: string
  let write: string
  let users: string
  let browser: string
  let boundElsewhere: string
  let own: { webhook: string; delivery: string; job: string }

  beforeAll(async () => {
    tenant = await service.newTenant()
    stranger = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    read = await tenant.newKey({ scopes: ['webhooks:read'] })
    write = await tenant.newKey({ scopes: ['webhooks:write'] })
    users = await tenant.newKey({ scopes: ['users:write'] })
    browser = await tenant.newKey({ publishable: true })
    boundElsewhere = await tenant.newKey({ scopes: ['*'], appId: app })
    const { id } = await subscribe(tenant, receiver.url, { appId: tenant.appId })
    await createUser(tenant)
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    const job = await tenant.post(`/webhooks/${id}/recover`, { since: anHourAgo() })
    own = { webhook: id, delivery: delivery.id, job: job.body.data.id }
  })

  const send = (each: Endpoint, key: string | null, ids = own): Promise<Answer> =>
    tenant.call(each.method, each.path(ids), { key, ...(each.body === undefined ? {} : { body: each.body }) })

  test.each(cases)('%s without a key, or with one that is none, is 401', async (_, each) => {
    const missing = await send(each, null)
    expect([missing.status, missing.body.code]).toEqual([401, 'api_key_missing'])
    const wrong = await send(each, 'hk_sk_nothing')
    expect([wrong.status, wrong.body.code]).toEqual([401, 'api_key_invalid'])
  })

  test.each(cases)('%s with a publishable key or without the scope is 403', async (_, each) => {
    const publishable = await send(each, browser)
    expect([publishable.status, publishable.body.code]).toEqual([403, 'key_type_not_allowed'])
    for (const key of each.scope === 'webhooks:write' ? [users, read] : [users]) {
      const refused = await send(each, key)
      expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_scope'])
    }
  })

  test.each(cases.filter(([, each]) => each.names.length > 0))(
    '%s of another tenant, another app or nobody is one and the same 404, and does nothing',
    async (_, each) => {
      // Attempts are counted every few seconds, which has nothing to do with the calls.
      const stored = async () => ({ ...(await tenant.get(`/webhooks/${own.webhook}`)).body.data, health: null })
      const before = await stored()
      const answers = [
        await stranger.call(each.method, each.path(own), each.body === undefined ? {} : { body: each.body }),
        await send(each, boundElsewhere),
      ]
      for (const name of each.names) {
        const prefix = name === 'webhook' ? 'wh' : name === 'delivery' ? 'dlv' : 'job'
        for (const id of [newId(prefix), 'x', `${prefix}_${'u'.repeat(26)}`, "' OR 1=1", '\u{1f600}', '%00']) {
          answers.push(await send(each, tenant.key, { ...own, [name]: encodeURIComponent(id) }))
        }
      }
      for (const refused of answers) {
        expect(refused.status).toBe(404)
        expectError(refused, 404, 'not_found')
        expect(refused.text).toBe(answers[0]?.text)
      }
      expect(await stored()).toEqual(before)
    },
  )

  // In the table's order: the last one deletes the webhook.
  test.each(cases)('%s answers its own tenant with the status of the matrix', async (_, each) => {
    const result = await send(each, each.scope === 'webhooks:read' ? read : write)
    expect(result.status, result.text).toBe(each.status)
    expect(result.body.data).toBeDefined()
  })

  test('a delivery is found under its own webhook only', async () => {
    const owner = await service.newTenant()
    const [first, second] = [await subscribe(owner, receiver.url), await subscribe(owner, receiver.url)]
    await createUser(owner)
    const [delivery] = await deliveriesIn(owner, first.id, 'succeeded')
    expect((await owner.get(`/webhooks/${second.id}/deliveries/${delivery.id}`)).status).toBe(404)
    expect((await owner.post(`/webhooks/${second.id}/deliveries/${delivery.id}/retry`)).status).toBe(404)
  })
})
