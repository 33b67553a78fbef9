import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { signInAs } from '../sessions/sessions.fixture.ts'
import { stepBulk } from './bulk.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const UNKNOWN = 'usr_00000000000000000000000000'

async function newUsers(tenant: Tenant, count: number, body: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let made = 0; made < count; made += 1) ids.push((await tenant.post('/users', body)).body.data.id)
  return ids
}

async function start(tenant: Tenant, action: string, userIds: readonly string[], options = {}) {
  const answer = await tenant.post('/users/bulk', { action, userIds }, options)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

const ended = (tenant: Tenant, id: string) =>
  eventually('the job has ended', async () => {
    const { data } = (await tenant.get(`/users/bulk/${id}`)).body
    return ['succeeded', 'failed'].includes(data.status) && data
  })

const run = async (tenant: Tenant, action: string, userIds: readonly string[]) =>
  ended(tenant, (await start(tenant, action, userIds)).id)

const eventsOf = async (tenant: Tenant, type: string): Promise<string[]> => {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map(({ body }) => JSON.parse(body).data.userId)
}

test('suspends, activates and deletes users with an event each, and says for whom it failed', async () => {
  const tenant = await service.newTenant()
  const ids = await newUsers(tenant, 3)
  const begun = await start(tenant, 'suspend', [...ids, UNKNOWN, 'nobody', ids[0] as string])
  expect(begun).toMatchObject({ action: 'suspend', status: 'pending', done: 0, total: 5, failed: [], error: null })
  const done = await ended(tenant, begun.id)
  expect(done).toMatchObject({ id: begun.id, status: 'succeeded', done: 5, total: 5 })
  expect(done.failed).toEqual(
    [UNKNOWN, 'nobody'].map((userId) => ({ userId, code: 'not_found', message: 'Not found.' })),
  )
  expect(await eventsOf(tenant, 'user.updated')).toEqual(ids)
  for (const id of ids) expect((await tenant.get(`/users/${id}`)).body.data.status).toBe('suspended')
  expect(await run(tenant, 'activate', ids.slice(1))).toMatchObject({ done: 2, failed: [] })
  const statuses = await Promise.all(ids.map(async (id) => (await tenant.get(`/users/${id}`)).body.data.status))
  expect(statuses).toEqual(['suspended', 'active', 'active'])
  expect(await run(tenant, 'delete', ids.slice(0, 2))).toMatchObject({ done: 2, failed: [] })
  expect((await tenant.get('/users')).body).toMatchObject({ total: 1, data: [{ id: ids[2] }] })
  expect(await eventsOf(tenant, 'user.deleted')).toEqual(ids.slice(0, 2))
  const log = await eventually('the log has the deletions', async () => {
    const { body } = await tenant.get('/audit-log?action=user.deleted')
    return body.total === 2 && body.data
  })
  const keyId = (await tenant.get('/api-keys')).body.data[0].id
  expect(log.map(({ actor }: { actor: string }) => actor)).toEqual([keyId, keyId])
})

test('ends all sessions of the users, and of nobody else', async () => {
  const tenant = await service.newTenant()
  const [ada, eve] = [await signInAs(service, tenant), await signInAs(service, tenant)]
  expect(await run(tenant, 'end_sessions', [ada.userId])).toMatchObject({ done: 1, failed: [] })
  expectError(await ada.get('/users/me'), 401, 'session_revoked')
  expect((await eve.get('/users/me')).status).toBe(200)
  expect(await eventsOf(tenant, 'session.revoked')).toEqual([ada.userId])
})

test('touches no user that the key does not see, and is read only by keys that see it', async () => {
  const [tenant, other] = [await service.newTenant(), await service.newTenant()]
  const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
  const bound = await tenant.newKey({ scopes: ['users:write'], appId })
  const [theirs, mine] = [await newUsers(other, 1), await newUsers(tenant, 1)]
  const [own] = await newUsers(tenant, 1, { appId })
  const begun = await start(tenant, 'delete', [...theirs, ...mine, own as string], { key: bound })
  const done = await ended(tenant, begun.id)
  expect(done.failed.map(({ userId }: { userId: string }) => userId)).toEqual([...theirs, ...mine])
  expect((await tenant.get(`/users/bulk/${begun.id}`, { key: bound })).status).toBe(200)
  const unbound = await start(tenant, 'activate', mine)
  expectError(await tenant.get(`/users/bulk/${unbound.id}`, { key: bound }), 404, 'not_found')
  expectError(await other.get(`/users/bulk/${begun.id}`), 404, 'not_found')
  const webhook = await tenant.post('/webhooks', { url: 'http://127.0.0.2:49150/hook', events: ['*'] })
  const recovery = await tenant.post(`/webhooks/${webhook.body.data.id}/recover`, { since: new Date(0).toISOString() })
  expectError(await tenant.get(`/users/bulk/${recovery.body.data.id}`), 404, 'not_found')
  const reader = await tenant.newKey({ scopes: ['users:read'] })
  expectError(
    await tenant.post('/users/bulk', { action: 'delete', userIds: mine }, { key: reader }),
    403,
    'insufficient_scope',
  )
})

test('takes 1 to 1000 ids and four actions, and one Idempotency-Key starts one job', async () => {
  const tenant = await service.newTenant()
  for (const [body, field] of [
    [{ action: 'delete', userIds: [] }, 'userIds'],
    [{ action: 'delete', userIds: Array(1001).fill(UNKNOWN) }, 'userIds'],
    [{ action: 'promote', userIds: [UNKNOWN] }, 'action'],
    [{ userIds: [UNKNOWN] }, 'action'],
    [{ action: 'delete', userIds: [7] }, 'userIds.0'],
  ] as const)
    expect(expectRefusal(await tenant.post('/users/bulk', body), 'validation_failed')[0].field).toBe(field)
  const headers = { 'idempotency-key': 'once' }
  const [first, again] = [
    await start(tenant, 'suspend', [UNKNOWN], { headers }),
    await start(tenant, 'suspend', [UNKNOWN], { headers }),
  ]
  expect(again).toEqual(first)
})

test('continues in another process where the first one stopped: each user once', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const tenant = await api.newTenant()
  const ids = await newUsers(tenant, 5)
  const { id } = await start(tenant, 'suspend', ids)
  for (let step = 0; step < 2; step += 1) expect(await stepBulk(api.deps, api.deps.db)).toBe(true)
  expect((await tenant.get(`/users/bulk/${id}`)).body.data).toMatchObject({ status: 'running', done: 2, total: 5 })
  // A process that dies within a step leaves nothing of it.
  const killed = api.deps.db.tx(async (tx) => {
    expect(await stepBulk(api.deps, tx)).toBe(true)
    throw new Error('killed')
  })
  await expect(killed).rejects.toThrow('killed')
  expect((await tenant.get(`/users/${ids[2]}`)).body.data.status).toBe('active')
  const worker = await startService({
    DATABASE_URL: api.databaseUrl,
    HALFKEY_DATA_DIR: api.dataDir,
    HALFKEY_ROLE: 'worker',
  })
  expect(await ended(tenant, id)).toMatchObject({ status: 'succeeded', done: 5, failed: [] })
  const rows = await api.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type = 'user.updated' order by id`,
    [tenant.tenantId],
  )
  expect(rows.map(({ body }) => JSON.parse(body).data.userId)).toEqual(ids)
  await worker.stop()
  await api.stop()
})
