import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { sql } from '../../platform/db/db.ts'
import { newId } from '../../platform/ids.ts'
import { createAuthenticator } from '../../platform/security/authenticator.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_TRUSTED_PROXIES: '127.0.0.1' })
})
afterAll(() => service.stop())

const HOUR_MS = 3_600_000
const later = (ms: number) => new Date(service.deps.now().getTime() + ms).toISOString()

async function newKey(tenant: Tenant, body: object, key = tenant.key) {
  const answer = await tenant.post('/api-keys', { name: 'test', type: 'secret', ...body }, { key })
  expect(answer.text).toContain('"key"')
  expect(answer.status).toBe(201)
  return answer.body.data as { id: string; key: string }
}

async function adminKeyId(tenant: Tenant): Promise<string> {
  const keys = (await tenant.get('/api-keys?page_size=100')).body.data as { id: string; name: string }[]
  return keys.find((key) => key.name === 'Admin')?.id as string
}

async function eventsOf(tenant: Tenant, type: string) {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map((row) => row.body)
}

test('a key is shown once, works, and stands nowhere in clear', async () => {
  const tenant = await service.newTenant()
  const answer = await tenant.post('/api-keys', {
    name: ' Backend ',
    type: 'secret',
    scopes: ['users:write'],
    metadata: { a: '1' },
  })
  expect(answer.status).toBe(201)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  const { key, ...record } = answer.body.data
  expect(key).toMatch(/^hk_sk_[0-9A-Za-z]{49}$/)
  expect(record).toEqual({
    id: expect.stringMatching(/^key_/),
    name: 'Backend',
    type: 'secret',
    scopes: ['users:write'],
    appId: null,
    prefix: key.slice(0, 10),
    last4: key.slice(-4),
    allowedIps: [],
    expiresAt: null,
    lastUsedAt: null,
    status: 'active',
    metadata: { a: '1' },
    createdBy: expect.stringMatching(/^key_/),
    createdAt: expect.any(String),
    updatedAt: record.createdAt,
  })
  const [one, all] = [await tenant.get(`/api-keys/${record.id}`), await tenant.get('/api-keys')]
  expect(one.body.data).toEqual(record)
  expect(all.body.data[0]).toEqual(record)
  expect((await tenant.get('/users', { key })).status).toBe(200)
  const [row] = await service.sql<{ dump: string }>('select k::text as dump from api_keys k where id = $1', [record.id])
  const events = await eventsOf(tenant, 'api_key.created')
  expect(JSON.parse(events.at(-1) as string).data).toEqual({
    apiKeyId: record.id,
    name: 'Backend',
    type: 'secret',
    scopes: ['users:write'],
    appId: null,
  })
  for (const text of [one.text, all.text, row?.dump, events.join(), service.logs()])
    expect(text).not.toContain(key.slice(12))
})

test.each([
  [{}, 'name'],
  [{ name: ' ', type: 'secret', scopes: ['*'] }, 'name'],
  [{ name: 'x' }, 'type'],
  [{ name: 'x', type: 'secret' }, 'scopes'],
  [{ name: 'x', type: 'secret', scopes: [] }, 'scopes'],
  [{ name: 'x', type: 'secret', scopes: ['users:delete'] }, 'scopes.0'],
  [{ name: 'x', type: 'secret', scopes: ['users:read', 'users:read'] }, 'scopes'],
  [{ name: 'x', type: 'publishable' }, 'appId'],
  [{ name: 'x', type: 'publishable', appId: 'app_1', scopes: ['users:read'] }, 'scopes'],
  [{ name: 'x', type: 'secret', scopes: ['*'], allowedIps: ['nonsense'] }, 'allowedIps.0'],
  [{ name: 'x', type: 'secret', scopes: ['*'], allowedIps: ['10.0.0.1', '10.0.0.1/8'] }, 'allowedIps.1'],
  [{ name: 'x', type: 'secret', scopes: ['*'], allowedIps: ['10.0.0.1', '10.0.0.1'] }, 'allowedIps.1'],
  [
    { name: 'x', type: 'secret', scopes: ['*'], allowedIps: Array.from({ length: 101 }, (_, i) => `10.0.0.${i}`) },
    'allowedIps',
  ],
  [{ name: 'x', type: 'secret', scopes: ['*'], expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt'],
  [{ name: 'x', type: 'secret', scopes: ['*'], expiresAt: '2099-02-30T00:00:00Z' }, 'expiresAt'],
  [{ name: 'x', type: 'secret', scopes: ['*'], expiresAt: '2099-01-01' }, 'expiresAt'],
  [{ name: 'x', type: 'secret', scopes: ['*'], expiresAt: '2099-01-01T00:00:00+01:00' }, 'expiresAt'],
  [{ name: 'x', type: 'secret', scopes: ['*'], status: 'active' }, 'status'],
  [{ name: 'x', type: 'secret', scopes: ['*'], key: 'hk_sk_mine' }, 'key'],
])('POST /api-keys with %j is a 400 that names %s', async (body, field) => {
  const answer = await service.admin.post('/api-keys', body)
  expect(answer.status).toBe(400)
  expect(answer.body).toMatchObject({ code: 'validation_failed' })
  expect(answer.body.details[0].field).toBe(field)
})

test("another tenant's app is a 404 that names the field, like none", async () => {
  const [mine, other] = [await service.newTenant(), await service.newTenant()]
  for (const appId of [other.appId, newId('app'), 'nonsense']) {
    const answer = await mine.post('/api-keys', { name: 'x', type: 'publishable', appId })
    expect([answer.status, answer.body.code, answer.body.details[0].field]).toEqual([404, 'not_found', 'appId'])
  }
})

test('keys are found by type, status and app', async () => {
  const tenant = await service.newTenant()
  const revoked = await newKey(tenant, { scopes: ['users:read'] })
  await tenant.delete(`/api-keys/${revoked.id}`)
  const expiring = await newKey(tenant, { scopes: ['users:read'], expiresAt: later(HOUR_MS) })
  const bound = await newKey(tenant, { type: 'publishable', appId: tenant.appId })
  const found = async (query: string) => {
    const { body } = await tenant.get(`/api-keys?${query}`)
    return body.data.map(({ id }: { id: string }) => id)
  }
  expect(await found('status=revoked')).toEqual([revoked.id])
  expect(await found('type=publishable')).toEqual([bound.id])
  expect(await found(`app_id=${tenant.appId}`)).toEqual([bound.id])
  expect(await found('type=secret&status=active')).toContain(expiring.id)
  service.advance(2 * HOUR_MS)
  expect(await found('status=expired')).toEqual([expiring.id])
  expect(await found('type=secret&status=active')).not.toContain(expiring.id)
  service.advance(-2 * HOUR_MS)
  const unknown = await tenant.get(`/api-keys?app_id=${newId('app')}`)
  expect([unknown.status, unknown.body.details[0].field]).toEqual([404, 'app_id'])
})

test("another tenant's key is the same 404 as none, and goes on working", async () => {
  const [mine, other] = [await service.newTenant(), await service.newTenant()]
  const theirs = await newKey(other, { scopes: ['users:read'] })
  for (const [method, suffix] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/rotate'],
  ] as const) {
    const answer = await mine.call(method, `/api-keys/${theirs.id}${suffix}`)
    expect(answer.status).toBe(404)
    for (const none of [newId('key'), 'nonsense', "'%20OR%201=1"]) {
      expect((await mine.call(method, `/api-keys/${none}${suffix}`)).text).toBe(answer.text)
    }
  }
  expect((await mine.get('/users', { key: theirs.key })).status).toBe(200)
})

test('a key never creates a wider one', async () => {
  const tenant = await service.newTenant()
  const { key } = await newKey(tenant, {
    scopes: ['api_keys:write', 'users:write'],
    expiresAt: later(HOUR_MS),
    allowedIps: ['127.0.0.0/8'],
  })
  const create = (body: object) => tenant.post('/api-keys', { name: 'x', type: 'secret', ...body }, { key })
  const within = { scopes: ['users:read', 'users:write'], expiresAt: later(HOUR_MS / 2), allowedIps: ['127.0.0.1'] }
  expect((await create(within)).status).toBe(201)
  for (const [body, field] of [
    [{ ...within, scopes: ['*'] }, 'scopes'],
    [{ ...within, scopes: ['users:read', 'webhooks:read'] }, 'scopes'],
    [{ ...within, scopes: ['users:act_as'] }, 'scopes'],
    [{ ...within, expiresAt: null }, 'expiresAt'],
    [{ ...within, expiresAt: later(2 * HOUR_MS) }, 'expiresAt'],
    [{ ...within, allowedIps: [] }, 'allowedIps'],
    [{ ...within, allowedIps: ['126.0.0.0/7'] }, 'allowedIps'],
  ] as const) {
    const answer = await create(body)
    expect(answer.status).toBe(403)
    expect(answer.body).toMatchObject({ code: 'insufficient_scope', details: [{ field }] })
  }
  expect((await create({ type: 'publishable', appId: tenant.appId, scopes: undefined })).status).toBe(403)
})

test('a bound key sees and makes keys of its own app only', async () => {
  const tenant = await service.newTenant()
  const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id as string
  const bound = await newKey(tenant, { scopes: ['api_keys:write', 'users:read'], appId })
  const { key } = bound
  const own = await newKey(tenant, { scopes: ['users:read'] }, key)
  expect((await tenant.get(`/api-keys/${own.id}`)).body.data.appId).toBe(appId)
  expect((await tenant.post('/api-keys', { name: 'x', type: 'publishable' }, { key })).body.data.appId).toBe(appId)
  expect((await tenant.get('/api-keys', { key })).body.total).toBe(3)
  const unbound = await tenant.post(
    '/api-keys',
    { name: 'x', type: 'secret', scopes: ['users:read'], appId: null },
    { key },
  )
  expect([unbound.status, unbound.body.details[0].field]).toEqual([403, 'appId'])
  const elsewhere = await tenant.post(
    '/api-keys',
    { name: 'x', type: 'secret', scopes: ['users:read'], appId: tenant.appId },
    { key },
  )
  expect([elsewhere.status, elsewhere.body.details[0].field]).toEqual([404, 'appId'])
  const admin = await adminKeyId(tenant)
  for (const [method, suffix] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/rotate'],
  ] as const) {
    expect((await tenant.call(method, `/api-keys/${admin}${suffix}`, { key })).status).toBe(404)
  }
})

test('a revoked key is refused on the next request, while calls with it fly', async () => {
  const tenant = await service.newTenant()
  const { id, key } = await newKey(tenant, { scopes: ['users:read'] })
  const flying = Array.from({ length: 100 }, () => tenant.get('/users', { key }))
  const revoked = await tenant.delete(`/api-keys/${id}`)
  const after = await Promise.all(Array.from({ length: 20 }, () => tenant.get('/users', { key })))
  expect([revoked.status, revoked.body.data.status]).toEqual([200, 'revoked'])
  expect(after.map((answer) => answer.body.code)).toEqual(Array(20).fill('api_key_invalid'))
  for (const answer of await Promise.all(flying)) expect([200, 401]).toContain(answer.status)
  const again = await tenant.delete(`/api-keys/${id}`)
  expect([again.status, again.text]).toEqual([200, revoked.text])
  expect((await eventsOf(tenant, 'api_key.revoked')).length).toBe(1)
})

test('in another process a revoked key is refused within a second', async () => {
  const tenant = await service.newTenant()
  const { id, key } = await newKey(tenant, { scopes: ['users:read'] })
  const other = await startService({
    DATABASE_URL: service.databaseUrl,
    HALFKEY_KEK_FILE: `${service.dataDir}/kek.key`,
  })
  try {
    const there = async () => (await fetch(`${other.url}/v1/users`, { headers: { 'x-api-key': key } })).status
    expect(await there()).toBe(200)
    await tenant.delete(`/api-keys/${id}`)
    await eventually('refused there too', async () => (await there()) === 401, 1_000)
  } finally {
    await other.stop()
  }
})

test('the last admin key cannot be revoked; bound, expiring and narrower ones do not count', async () => {
  const tenant = await service.newTenant()
  const admin = await adminKeyId(tenant)
  await newKey(tenant, { scopes: ['*'], appId: tenant.appId })
  await newKey(tenant, { scopes: ['*'], expiresAt: later(HOUR_MS) })
  await newKey(tenant, { scopes: ['api_keys:write'] })
  const refused = await tenant.delete(`/api-keys/${admin}`)
  expect([refused.status, refused.body.code]).toEqual([409, 'last_admin_key'])
  const { key } = await newKey(tenant, { scopes: ['*'] })
  expect((await tenant.delete(`/api-keys/${admin}`, { key })).status).toBe(200)
})

test('an admin key that works from some addresses only does not replace the last one, and can be revoked', async () => {
  const tenant = await service.newTenant()
  const admin = await adminKeyId(tenant)
  const bound = await newKey(tenant, { scopes: ['*'], allowedIps: ['127.0.0.1'] })
  const refused = await tenant.delete(`/api-keys/${admin}`, { key: bound.key })
  expect([refused.status, refused.body.code]).toEqual([409, 'last_admin_key'])
  expect((await tenant.delete(`/api-keys/${bound.id}`)).status).toBe(200)
})

test('storing when keys were last used waits for nobody, and leaves out a key that is being written', async () => {
  const tenant = await service.newTenant()
  const [held, free] = [await newKey(tenant, { scopes: ['*'] }), await newKey(tenant, { scopes: ['*'] })]
  const { db, log } = service.deps
  const auth = createAuthenticator({ db, log, now: () => new Date() })
  await auth.authenticate(held.key)
  await auth.authenticate(free.key)
  await db.tx(async (tx) => {
    await tx.run(sql`select 1 from api_keys where id = ${held.id} for update`)
    await auth.stop()
  })
  const used = async (id: string) => (await tenant.get(`/api-keys/${id}`)).body.data.lastUsedAt
  expect([await used(held.id), await used(free.id)]).toEqual([null, expect.any(String)])
})

test('of the last two admin keys, two revocations at once take one', async () => {
  const tenant = await service.newTenant()
  let [id, key] = [await adminKeyId(tenant), tenant.key]
  for (let round = 0; round < 5; round += 1) {
    const second = await newKey(tenant, { scopes: ['*'] }, key)
    const [first, other] = await Promise.all([
      tenant.delete(`/api-keys/${id}`, { key: second.key }),
      tenant.delete(`/api-keys/${second.id}`, { key }),
    ])
    const statuses = [first.status, other.status]
    expect(statuses.filter((status) => status === 200).length).toBe(1)
    // The one that came too late finds the last key, or that its own has been revoked meanwhile.
    expect([401, 409]).toContain(statuses.find((status) => status !== 200))
    if (first.status === 200) [id, key] = [second.id, second.key]
  }
})

test('rotation keeps the id; the old value works for the grace and not a moment longer', async () => {
  const tenant = await service.newTenant()
  const { id, key } = await newKey(tenant, { scopes: ['users:read'] })
  const works = async (value: string) => (await tenant.get('/users', { key: value })).status === 200
  const first = await tenant.post(`/api-keys/${id}/rotate`, { graceSeconds: 60 })
  expect([first.status, first.body.data.id, first.headers.get('cache-control')]).toEqual([200, id, 'no-store'])
  expect(first.body.data.key).not.toBe(key)
  expect([await works(key), await works(first.body.data.key)]).toEqual([true, true])
  service.advance(61_000)
  expect([await works(key), await works(first.body.data.key)]).toEqual([false, true])
  const second = await tenant.post(`/api-keys/${id}/rotate`)
  expect([await works(first.body.data.key), await works(second.body.data.key)]).toEqual([false, true])
  expect((await eventsOf(tenant, 'api_key.rotated')).length).toBe(2)
  expect((await eventsOf(tenant, 'api_key.rotated')).join()).not.toContain(second.body.data.key.slice(12))
  for (const graceSeconds of [-1, 1.5, 604_801, '60', null]) {
    expect((await tenant.post(`/api-keys/${id}/rotate`, { graceSeconds })).status).toBe(400)
  }
})

test('a revoked or expired key is not rotated', async () => {
  const tenant = await service.newTenant()
  const [ended, revoked] = [
    await newKey(tenant, { scopes: ['users:read'], expiresAt: later(HOUR_MS) }),
    await newKey(tenant, { scopes: ['users:read'] }),
  ]
  await tenant.delete(`/api-keys/${revoked.id}`)
  service.advance(2 * HOUR_MS)
  expect((await tenant.get('/users', { key: ended.key })).status).toBe(401)
  expect((await tenant.get(`/api-keys/${ended.id}`)).body.data.status).toBe('expired')
  for (const { id } of [ended, revoked]) {
    const answer = await tenant.post(`/api-keys/${id}/rotate`)
    expect([answer.status, answer.body.code]).toEqual([409, 'api_key_not_active'])
  }
  expect((await tenant.delete(`/api-keys/${ended.id}`)).body.data.status).toBe('revoked')
})

test('a key does not rotate a wider one, whose value it would get', async () => {
  const tenant = await service.newTenant()
  const { id, key } = await newKey(tenant, { scopes: ['api_keys:write'] })
  const wider = await tenant.post(`/api-keys/${await adminKeyId(tenant)}/rotate`, {}, { key })
  expect([wider.status, wider.body.code]).toEqual([403, 'insufficient_scope'])
  expect((await tenant.get('/tenant')).status).toBe(200)
  const own = await tenant.post(`/api-keys/${id}/rotate`, { graceSeconds: 60 }, { key })
  expect(own.status).toBe(200)
  // An old value in its grace makes nothing that outlives it.
  expect((await tenant.post(`/api-keys/${id}/rotate`, {}, { key })).body.code).toBe('insufficient_scope')
  expect(
    (await tenant.post('/api-keys', { name: 'x', type: 'secret', scopes: ['api_keys:read'] }, { key })).body.code,
  ).toBe('insufficient_scope')
})

test('a key works from its allowed addresses only', async () => {
  const tenant = await service.newTenant()
  const { key } = await newKey(tenant, { scopes: ['users:read'], allowedIps: ['203.0.113.0/24', '2001:db8::/32'] })
  const from = async (address: string) =>
    (await tenant.get('/users', { key, headers: { 'x-forwarded-for': address } })).status
  expect(await Promise.all(['203.0.113.9', '2001:db8::9', '203.0.114.9', '::1'].map(from))).toEqual([
    200, 200, 403, 403,
  ])
})

test('under one Idempotency-Key one key is made, and every repeat tells its value', async () => {
  const tenant = await service.newTenant()
  const create = () =>
    tenant.post(
      '/api-keys',
      { name: 'once', type: 'secret', scopes: ['users:read'] },
      { headers: { 'idempotency-key': 'once' } },
    )
  const answers = await Promise.all(Array.from({ length: 20 }, create))
  expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true)
  const repeat = await create()
  expect([repeat.status, repeat.headers.get('idempotency-replayed'), repeat.headers.get('cache-control')]).toEqual([
    201,
    'true',
    'no-store',
  ])
  for (const answer of answers.filter(({ status }) => status === 201)) expect(answer.text).toBe(repeat.text)
  expect((await tenant.get('/api-keys')).body.total).toBe(2)
  const kept = await service.sql<{ answer: Buffer }>('select answer from idempotency_keys where tenant_id = $1', [
    tenant.tenantId,
  ])
  for (const { answer } of kept) expect(answer.toString('latin1')).not.toContain(repeat.body.data.key.slice(12))
})

test('reading takes api_keys:read, changing api_keys:write; a publishable key does neither', async () => {
  const tenant = await service.newTenant()
  const reader = await tenant.newKey({ scopes: ['api_keys:read'] })
  expect((await tenant.get('/api-keys', { key: reader })).status).toBe(200)
  const id = await adminKeyId(tenant)
  for (const answer of [
    await tenant.post('/api-keys', { name: 'x', type: 'secret', scopes: ['api_keys:read'] }, { key: reader }),
    await tenant.delete(`/api-keys/${id}`, { key: reader }),
    await tenant.post(`/api-keys/${id}/rotate`, {}, { key: reader }),
  ]) {
    expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_scope'])
  }
  const publishable = await tenant.newKey({ publishable: true })
  expect((await tenant.get('/api-keys', { key: publishable })).body.code).toBe('key_type_not_allowed')
})
