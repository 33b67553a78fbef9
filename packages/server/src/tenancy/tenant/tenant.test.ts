import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import { newApiKey } from '../../platform/security/api-key.ts'
import { open } from '../../platform/security/crypto.ts'
import { createTenant } from './service.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function updates(tenant: Tenant) {
  const rows = await service.sql<{ body: string }>(
    "select body from events where tenant_id = $1 and type = 'tenant.updated' order by id",
    [tenant.tenantId],
  )
  return rows.map((row) => JSON.parse(row.body).data)
}

test('a new tenant has one app, one admin key and a node key of its own, sealed', async () => {
  const tenant = await service.newTenant()
  const shown = await tenant.get('/tenant')
  expect(shown.status).toBe(200)
  expect(shown.body.data).toEqual({
    id: tenant.tenantId,
    name: 'Test',
    plan: 'self_hosted',
    settings: { defaultAppId: tenant.appId },
    createdAt: expect.any(String),
    updatedAt: shown.body.data.createdAt,
  })
  expect((await tenant.get('/apps')).body).toMatchObject({ total: 1, data: [{ id: tenant.appId, name: 'Default' }] })
  expect((await tenant.get('/api-keys')).body).toMatchObject({
    total: 1,
    data: [{ name: 'Admin', type: 'secret', scopes: ['*'], appId: null, expiresAt: null }],
  })
  const [row] = await service.sql<{ node_public_key: Buffer; node_key_sealed: Buffer }>(
    'select node_public_key, node_key_sealed from tenants where id = $1',
    [tenant.tenantId],
  )
  const pkcs8 = await open(service.deps.keys, row?.node_key_sealed as Buffer, ['node key', tenant.tenantId])
  const { createPrivateKey, createPublicKey } = await import('node:crypto')
  const spki = createPublicKey(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })).export({
    type: 'spki',
    format: 'der',
  })
  expect(spki.subarray(-32)).toEqual(row?.node_public_key)
  const user = await tenant.post('/users', {})
  expect(user.body.data.partyId).toBe(`${user.body.data.id}::${keyFingerprint(row?.node_public_key as Buffer)}`)
})

test('an admin key may be given, and only once', async () => {
  const adminKey = newApiKey('secret')
  const made = await createTenant(service.deps, { name: 'Given', adminKey })
  expect(made.key).toBe(adminKey)
  const tenants = async () => (await service.sql('select 1 from tenants')).length
  const before = await tenants()
  await expect(createTenant(service.deps, { name: 'Again', adminKey })).rejects.toThrow('already in use')
  expect(await tenants()).toBe(before)
})

test('PATCH changes name and default app, each with its name in one event', async () => {
  const tenant = await service.newTenant()
  const app = await tenant.post('/apps', { name: 'Second' })
  const appId = app.body.data.id
  const answer = await tenant.patch('/tenant', { name: ' Example Ltd ', settings: { defaultAppId: appId } })
  expect(answer.status).toBe(200)
  expect(answer.body.data).toMatchObject({ name: 'Example Ltd', settings: { defaultAppId: appId } })
  expect((await tenant.post('/users', {})).body.data.appId).toBe(appId)
  expect((await tenant.delete(`/apps/${appId}?force=true`)).body.code).toBe('default_app')
  expect((await tenant.delete(`/apps/${tenant.appId}`)).status).toBe(200)
  expect(await updates(tenant)).toEqual([{ tenantId: tenant.tenantId, changed: ['name', 'settings.defaultAppId'] }])
})

test('a PATCH that changes nothing answers 200 without an event', async () => {
  const tenant = await service.newTenant()
  const before = await tenant.get('/tenant')
  for (const body of [{}, { name: 'Test', settings: {} }, { settings: { defaultAppId: tenant.appId } }]) {
    const answer = await tenant.patch('/tenant', body)
    expect([answer.status, answer.text]).toEqual([200, before.text])
  }
  expect(await updates(tenant)).toEqual([])
})

test.each([
  [{ plan: 'enterprise' }, 'plan'],
  [{ quotas: {} }, 'quotas'],
  [{ id: 'ten_1' }, 'id'],
  [{ name: '' }, 'name'],
  [{ name: null }, 'name'],
  [{ settings: null }, 'settings'],
  [{ settings: { defaultAppId: null } }, 'settings.defaultAppId'],
  [{ settings: { plan: 'x' } }, 'settings.plan'],
])('PATCH /tenant with %j is a 400 that names %s', async (body, field) => {
  const answer = await service.admin.patch('/tenant', body)
  expect(answer.status).toBe(400)
  expect(answer.body).toMatchObject({ code: 'validation_failed' })
  expect(answer.body.details[0].field).toBe(field)
})

test("another tenant's app, a deleted one and nonsense can't become the default app", async () => {
  const [mine, other] = [await service.newTenant(), await service.newTenant()]
  const gone = (await mine.post('/apps', { name: 'Gone' })).body.data.id
  await mine.delete(`/apps/${gone}`)
  for (const defaultAppId of [other.appId, gone, 'nonsense']) {
    const answer = await mine.patch('/tenant', { name: 'New', settings: { defaultAppId } })
    expect([answer.status, answer.body.code, answer.body.details[0].field]).toEqual([
      404,
      'not_found',
      'settings.defaultAppId',
    ])
  }
  expect((await mine.get('/tenant')).body.data).toMatchObject({ name: 'Test', settings: { defaultAppId: mine.appId } })
})

test('the default app is never one that is being deleted', async () => {
  const tenant = await service.newTenant()
  for (let round = 0; round < 5; round += 1) {
    const appId = (await tenant.post('/apps', { name: 'Next' })).body.data.id
    const [deleted, changed] = await Promise.all([
      tenant.delete(`/apps/${appId}`),
      tenant.patch('/tenant', { settings: { defaultAppId: appId } }),
    ])
    expect([
      [200, 404],
      [409, 200],
    ]).toContainEqual([deleted.status, changed.status])
    const { defaultAppId } = (await tenant.get('/tenant')).body.data.settings
    expect((await tenant.get(`/apps/${defaultAppId}`)).status).toBe(200)
  }
})

test('reading takes tenant:read; changing takes tenant:write and a key that is bound to no app', async () => {
  const tenant = await service.newTenant()
  const reader = await tenant.newKey({ scopes: ['tenant:read'] })
  expect((await tenant.get('/tenant', { key: reader })).status).toBe(200)
  expect((await tenant.patch('/tenant', { name: 'x' }, { key: reader })).body.code).toBe('insufficient_scope')
  const bound = await tenant.newKey({ scopes: ['tenant:write'], appId: tenant.appId })
  expect((await tenant.get('/tenant', { key: bound })).status).toBe(200)
  expect((await tenant.patch('/tenant', { name: 'x' }, { key: bound })).body.code).toBe('insufficient_scope')
  const publishable = await tenant.newKey({ publishable: true })
  expect((await tenant.get('/tenant', { key: publishable })).body.code).toBe('key_type_not_allowed')
})
