import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const CSV = { headers: { accept: 'text/csv' } }

/** Adds so many users to the default app. */
async function addUsers({ tenantId, appId }: Tenant, count: number, name: string): Promise<void> {
  await service.sql(
    `insert into users (tenant_id, id, app_id, party_id, name, metadata, search_text, created_at, updated_at)
     select $1, 'usr_' || lpad(n::text, 26, '0'), $2, 'p' || n, $4, '{}', '', now(), now() from generate_series(1, $3::int) n`,
    [tenantId, appId, count, name],
  )
  await service.sql(
    `insert into user_counts (tenant_id, app_id, trust_level, shard, n) values ($1, $2, 'embedded', 100, $3)`,
    [tenantId, appId, count],
  )
}

test('a list as CSV has every record, the fields of the JSON in their order, and filters hold', async () => {
  const tenant = await service.newTenant()
  await addUsers(tenant, 2345, 'A customer')
  await tenant.post('/users', {
    email: 'ada@example.com',
    name: 'Ada, "the first"\nof her name',
    metadata: { plan: 'gold' },
  })
  const answer = await tenant.get('/users', CSV)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/csv; charset=utf-8; header=present'])
  const lines = answer.text.split('\r\n')
  expect(lines).toHaveLength(2345 + 1 + 2)
  const [json] = (await tenant.get('/users?search=ada@')).body.data
  expect(lines[0]).toBe(Object.keys(json).join(','))
  expect(lines[1]).toContain('"Ada, ""the first""\nof her name"')
  expect(lines[1]).toContain('"{""plan"":""gold""}"')
  expect((await tenant.get('/users?search=ada@', CSV)).text.split('\r\n')).toHaveLength(3)
})

test.each(['=1+1', '+1', '-1+1', '@SUM(A1)', '\tx'])(
  'text that a spreadsheet would run, %j, is made harmless',
  async (name) => {
    const tenant = await service.newTenant()
    await tenant.post('/users', { externalId: name })
    const { text } = await tenant.get('/users', CSV)
    expect(text).toContain(`,'${name},`)
  },
)

test('pages, other resources and other callers are as for JSON', async () => {
  const tenant = await service.newTenant()
  expectError(await tenant.get('/users?page=2', CSV), 400, 'validation_failed')
  expectError(await tenant.get('/users?status=x', CSV), 400, 'validation_failed')
  const narrow = await tenant.newKey({ scopes: ['wallets:read'] })
  expectError(await tenant.get('/users', { ...CSV, key: narrow }), 403, 'insufficient_scope')
  const { id } = (await tenant.post('/users', {})).body.data
  expect((await tenant.get(`/users/${id}`, CSV)).body.data.id).toBe(id)
  const keys = await tenant.get('/api-keys', CSV)
  expect(keys.text).not.toContain(tenant.key)
  expect((await (await service.newTenant()).get('/users', CSV)).text.trimEnd().split('\r\n')).toHaveLength(1)
})

test('a CSV that is being sent ends, as an error, when its key is revoked', async () => {
  const tenant = await service.newTenant()
  await addUsers(tenant, 30_000, 'x'.repeat(1000))
  const { id, key } = (await tenant.post('/api-keys', { name: 'Export', type: 'secret', scopes: ['users:read'] })).body
    .data
  const { body } = await fetch(`${service.url}/v1/users`, { headers: { accept: 'text/csv', 'x-api-key': key } })
  const reader = (body as ReadableStream<Uint8Array>).getReader()
  await reader.read()
  expect((await tenant.delete(`/api-keys/${id}`)).status).toBe(200)
  const readAll = async () => {
    while (!(await reader.read()).done);
  }
  await expect(readAll()).rejects.toThrow('terminated')
})
