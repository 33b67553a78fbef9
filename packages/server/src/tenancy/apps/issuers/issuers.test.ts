import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { newId } from '../../../platform/ids.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_PUBLIC_URL: 'https://id.example.com' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

let names = 0
const body = (more: object = {}) => ({
  issuer: `https://login-${++names}.example.com/`,
  jwksUri: 'https://keys.example.com/jwks.json',
  audiences: ['shop-web'],
  ...more,
})

const newApp = async (by = tenant): Promise<string> => (await by.post('/apps', { name: 'Shop' })).body.data.id

async function made(more: object = {}, by = tenant) {
  const appId = await newApp(by)
  const answer = await by.post(`/apps/${appId}/issuers`, body(more))
  expect(answer.status, answer.text).toBe(201)
  return { appId, issuer: answer.body.data, path: `/apps/${appId}/issuers/${answer.body.data.id}` }
}

test('an issuer needs a name, a source of keys and an audience, and has every default', async () => {
  const { appId, issuer, path } = await made({ issuer: 'https://login.example.com/tenant/v2.0' })
  expect(issuer).toEqual({
    id: expect.stringMatching(/^iss_[0-9a-hjkmnp-tv-z]{26}$/),
    appId,
    issuer: 'https://login.example.com/tenant/v2.0',
    jwksUri: 'https://keys.example.com/jwks.json',
    discovery: null,
    audiences: ['shop-web'],
    algorithms: ['RS256', 'ES256'],
    claims: { sub: 'sub', email: 'email', emailVerified: 'email_verified', name: 'name' },
    jit: 'create',
    maxTokenAgeSeconds: 3600,
    mfaClaim: null,
    createdAt: expect.any(String),
    updatedAt: issuer.createdAt,
  })
  expect((await tenant.get(path)).body.data).toEqual(issuer)
  expect((await tenant.get(`/apps/${appId}/issuers`)).body).toMatchObject({ data: [issuer], total: 1 })
})

test.each([
  [{ issuer: undefined }, 'issuer'],
  [{ issuer: 'login.example.com' }, 'issuer'],
  [{ issuer: 'javascript:alert(1)' }, 'issuer'],
  [{ issuer: 'https://a.example/?x' }, 'issuer'],
  [{ issuer: 'https://a.example/#x' }, 'issuer'],
  [{ issuer: `https://a.example/${'x'.repeat(500)}` }, 'issuer'],
  [{ jwksUri: undefined }, 'jwksUri'],
  [{ discovery: 'https://a.example/.well-known/openid-configuration' }, 'jwksUri'],
  [{ audiences: undefined }, 'audiences'],
  [{ audiences: [] }, 'audiences'],
  [{ audiences: [''] }, 'audiences.0'],
  [{ audiences: ['a', 'a'] }, 'audiences'],
  [{ algorithms: [] }, 'algorithms'],
  [{ algorithms: ['none'] }, 'algorithms.0'],
  [{ algorithms: ['HS256'] }, 'algorithms.0'],
  [{ algorithms: ['RS256', 'HS512'] }, 'algorithms.1'],
  [{ claims: { sub: null } }, 'claims.sub'],
  [{ claims: { sub: '' } }, 'claims.sub'],
  [{ claims: { picture: 'picture' } }, 'claims.picture'],
  [{ jit: 'link' }, 'jit'],
  [{ maxTokenAgeSeconds: 59 }, 'maxTokenAgeSeconds'],
  [{ maxTokenAgeSeconds: 86_401 }, 'maxTokenAgeSeconds'],
  [{ mfaClaim: { claim: 'amr' } }, 'mfaClaim.values'],
  [{ mfaClaim: { claim: 'amr', values: [] } }, 'mfaClaim.values'],
  [{ id: 'iss_1' }, 'id'],
  [{ appId: 'app_1' }, 'appId'],
])('POST with %j is a 400 that names %s', async (more, field) => {
  const answer = await tenant.post(`/apps/${tenant.appId}/issuers`, body(more))
  expectError(answer, 400, 'validation_failed')
  expect(answer.body.details[0].field).toBe(field)
})

test('keys are fetched from public addresses only, told before anything is stored', async () => {
  const { path } = await made()
  const inside = ['http://10.0.0.1/jwks', 'https://169.254.169.254/latest', 'https://[fd00::1]/', 'file:///etc']
  for (const url of inside)
    for (const field of ['jwksUri', 'discovery']) {
      const given = body({ jwksUri: undefined, [field]: url })
      for (const answer of [
        await tenant.post(`/apps/${tenant.appId}/issuers`, given),
        await tenant.patch(path, { [field]: url }),
      ]) {
        expectError(answer, 400, 'issuer_url_blocked', url)
        expect(answer.body.details[0].field).toBe(field)
      }
    }
})

test('PATCH changes the given fields, merges claims, and one source of keys replaces the other', async () => {
  const { issuer, path } = await made()
  const changed = await tenant.patch(path, { claims: { email: null }, jit: 'match', audiences: ['a', 'b'] })
  expect(changed.body.data).toMatchObject({
    issuer: issuer.issuer,
    claims: { sub: 'sub', email: null, emailVerified: 'email_verified' },
    jit: 'match',
    audiences: ['a', 'b'],
  })
  const discovery = 'https://login.example.com/.well-known/openid-configuration'
  expect((await tenant.patch(path, { discovery })).body.data).toMatchObject({ jwksUri: null, discovery })
  expectError(await tenant.patch(path, { discovery: null }), 400, 'validation_failed')
  const { jwksUri } = issuer
  expect((await tenant.patch(path, { jwksUri })).body.data).toMatchObject({ jwksUri, discovery: null })
  const mfaClaim = { claim: 'amr', values: ['mfa'] }
  expect((await tenant.patch(path, { mfaClaim })).body.data.mfaClaim).toEqual(mfaClaim)
  expect((await tenant.patch(path, { mfaClaim: null })).body.data.mfaClaim).toBeNull()
  expectError(await tenant.patch(path, { issuer: 'https://other.example.com/' }), 400, 'validation_failed')
})

test('changes are events of the app and in the audit log; what changes nothing is neither', async () => {
  const { appId, issuer, path } = await made()
  expect((await tenant.patch(path, {})).body.data).toEqual(issuer)
  expect((await tenant.patch(path, { jit: 'create', audiences: ['shop-web'] })).body.data).toEqual(issuer)
  await tenant.patch(path, { jit: 'refuse' })
  const gone = await tenant.delete(path)
  expect(gone.body.data).toMatchObject({ id: issuer.id, jit: 'refuse' })
  expect((await tenant.delete(path)).status).toBe(404)
  const events = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and app_id = $2 and type = 'app.updated'`,
    [tenant.tenantId, appId],
  )
  const told = { appId, name: 'Shop', changed: ['issuers'] }
  expect(events.map((row) => JSON.parse(row.body).data)).toEqual([told, told, told])
  const entries = await service.sql<{ action: string }>(
    'select action from audit_entries where target = $1 union all select action from audit_only_entries where target = $1',
    [issuer.id],
  )
  expect(entries.map(({ action }) => action).toSorted()).toEqual(['issuer.created', 'issuer.deleted', 'issuer.updated'])
})

test('an app trusts an issuer once and ten at most, of parallel calls too', async () => {
  const appId = await newApp()
  const one = body()
  const twice = await Promise.all([1, 2, 3].map(() => tenant.post(`/apps/${appId}/issuers`, one)))
  expect(twice.map(({ status }) => status).toSorted()).toEqual([201, 409, 409])
  const many = await Promise.all(Array.from({ length: 12 }, () => tenant.post(`/apps/${appId}/issuers`, body())))
  expect(many.filter(({ status }) => status === 201).length).toBe(9)
  for (const answer of many.filter(({ status }) => status !== 201)) expectError(answer, 409, 'issuer_limit')
  // Another app is not concerned.
  expect((await tenant.post(`/apps/${await newApp()}/issuers`, one)).status).toBe(201)
})

describe('who may see and change issuers', () => {
  test('another tenant’s and another app’s are the same 404 as none, and nothing happens to them', async () => {
    const { appId, issuer, path } = await made()
    const stranger = await service.newTenant()
    const other = await newApp()
    const bound = await tenant.newKey({ scopes: ['apps:write'], appId: other })
    const none = await tenant.get(`/apps/${appId}/issuers/${newId('iss')}`)
    expectError(none, 404, 'not_found')
    for (const [method, more] of [
      ['GET', {}],
      ['PATCH', { body: { jit: 'match' } }],
      ['DELETE', {}],
    ] as const)
      for (const answer of [
        await stranger.call(method, path, more),
        await tenant.call(method, path, { ...more, key: bound }),
        await tenant.call(method, `/apps/${other}/issuers/${issuer.id}`, more),
        await tenant.call(method, `/apps/${appId}/issuers/nonsense`, more),
      ])
        expect([answer.status, answer.text]).toEqual([404, none.text])
    expect((await stranger.post(`/apps/${appId}/issuers`, body())).status).toBe(404)
    expect((await stranger.get(`/apps/${appId}/issuers`)).status).toBe(404)
    expect((await tenant.get(path)).body.data).toEqual(issuer)
  })

  test('apps:read reads and no more; a publishable key does neither', async () => {
    const { appId, path } = await made()
    const reader = await tenant.newKey({ scopes: ['apps:read'] })
    expect((await tenant.get(path, { key: reader })).status).toBe(200)
    expectError(await tenant.post(`/apps/${appId}/issuers`, body(), { key: reader }), 403, 'insufficient_scope')
    const publishable = await tenant.newKey({ publishable: true, appId })
    expectError(await tenant.get(path, { key: publishable }), 403, 'key_type_not_allowed')
  })

  test('an app takes its issuers along when it is deleted', async () => {
    const { appId, issuer } = await made()
    expect((await tenant.delete(`/apps/${appId}`)).status).toBe(200)
    expect(await service.sql('select 1 from app_issuers where id = $1', [issuer.id])).toEqual([])
  })
})
