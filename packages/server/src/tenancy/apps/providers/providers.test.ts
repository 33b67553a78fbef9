import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { dump, eventsOf } from '../../../identity/sessions/sessions.fixture.ts'

let service: Service
let tenant: Tenant
let path: string
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const GOOGLE = { preset: 'google', clientId: 'shop.apps.googleusercontent.com', clientSecret: 'GOCSPX-a-secret' }

async function newTenant() {
  tenant = await service.newTenant()
  path = `/apps/${tenant.appId}/providers`
}

describe('a provider of an app', () => {
  beforeAll(newTenant)

  test('has the settings of its preset, and never shows its secret', async () => {
    const made = await tenant.post(path, GOOGLE)
    expect(made.status, made.text).toBe(201)
    const { data } = made.body
    expect(data).toEqual({
      id: expect.stringMatching(/^prv_[0-9a-z]{26}$/),
      appId: tenant.appId,
      preset: 'google',
      name: 'Google',
      issuer: 'https://accounts.google.com',
      clientId: GOOGLE.clientId,
      clientSecretSet: true,
      teamId: null,
      keyId: null,
      nativeClientIds: [],
      jit: 'create',
      callbackUrl: `http://localhost:${new URL(service.url).port}/signin/providers/${data.id}/callback`,
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    })
    expect((await tenant.get(`${path}/${data.id}`)).body.data).toEqual(data)
    expect((await tenant.get(path)).body.data).toEqual([data])
    expect(await dump(service)).not.toContain(GOOGLE.clientSecret)
    const changes = { name: ' Google Workspace ', jit: 'match', nativeClientIds: ['com.example.shop'] }
    const changed = await tenant.patch(`${path}/${data.id}`, changes)
    expect(changed.body.data).toEqual({
      ...data,
      ...changes,
      name: 'Google Workspace',
      updatedAt: expect.any(String),
    })
    expect((await tenant.patch(`${path}/${data.id}`, {})).body.data).toEqual(changed.body.data)
    expect((await tenant.delete(`${path}/${data.id}`)).body.data).toEqual(changed.body.data)
    expectError(await tenant.get(`${path}/${data.id}`), 404, 'not_found')
    expectError(await tenant.delete(`${path}/${data.id}`), 404, 'not_found')
    const events = await eventsOf(service, tenant, 'app.updated')
    expect(events.map(({ changed }) => changed)).toEqual([['providers'], ['providers'], ['providers']])
    await eventually('the acts in the audit log', async () => {
      const entries: { action: string }[] = (await tenant.get('/audit-log?action=provider.*')).body.data
      return entries.map(({ action }) => action).join() === 'provider.deleted,provider.updated,provider.created'
    })
  })

  const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
  const apple = { preset: 'apple', clientId: 'com.example.shop.web', teamId: 'A1B2C3D4E5', keyId: 'F6G7H8J9K0' }
  const oidc = { preset: 'oidc', issuer: 'https://login.example.com', clientId: 'shop' }
  const microsoft = { preset: 'microsoft', clientId: 'shop', clientSecret: 'x' }
  test.each<[string, object]>([
    ['clientSecret', { ...GOOGLE, clientSecret: undefined }],
    ['clientSecret', { ...GOOGLE, clientSecret: null }],
    ['clientSecret', { ...apple, clientSecret: 'no key' }],
    ['clientSecret', { ...apple, clientSecret: p384 }],
    ['teamId', { ...apple, clientSecret: p256, teamId: null }],
    ['keyId', { ...apple, clientSecret: p256, keyId: undefined }],
    ['keyId', { ...apple, clientSecret: p256, keyId: '../../../..' }],
    ['teamId', { ...GOOGLE, teamId: 'A1B2C3D4E5' }],
    ['issuer', { ...oidc, issuer: undefined }],
    ['issuer', { ...oidc, issuer: 'https://login.example.com/?x' }],
    ['issuer', { ...oidc, issuer: 'https://user@login.example.com' }],
    ['issuer', { ...oidc, issuer: 'http://login.example.com' }],
    ['issuer', { ...oidc, issuer: 'javascript:alert(1)' }],
    ['issuer', microsoft],
    ['issuer', { ...microsoft, issuer: 'https://login.microsoftonline.com/common/v2.0' }],
    ['issuer', { ...microsoft, issuer: 'https://login.microsoftonline.com/organizations/v2.0' }],
    ['nativeClientIds', { ...GOOGLE, preset: 'github', nativeClientIds: ['x'] }],
    ['nativeClientIds', { ...oidc, nativeClientIds: ['x', 'x'] }],
    ['name', { ...oidc, name: 'a\u202eb' }],
    ['preset', { ...oidc, preset: 'facebook' }],
    ['scopes', { ...oidc, scopes: ['admin'] }],
  ])('is refused without a good %s: %j', async (field, body) => {
    const answer = await tenant.post(path, body)
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field.split('.')[0]).toBe(field)
    expect(answer.text).not.toContain('PRIVATE KEY')
  })

  test('at GitHub is the same server with and without a slash', async () => {
    const github = { preset: 'github', clientId: 'shop', clientSecret: 'x' }
    const made = await tenant.post(path, { ...github, issuer: 'https://github.com/' })
    expect(made.body.data.issuer).toBe('https://github.com')
    expectError(await tenant.post(path, github), 409, 'already_exists')
  })

  test('is refused at an internal address', async () => {
    for (const issuer of ['https://169.254.169.254', 'https://10.0.0.1', 'https://[::ffff:10.0.0.1]'])
      expectError(await tenant.post(path, { ...oidc, issuer }), 400, 'issuer_url_blocked')
  })

  test('takes Apple’s key, one tenant of Microsoft’s, and a client without a secret', async () => {
    expect((await tenant.post(path, { ...apple, clientSecret: p256 })).status).toBe(201)
    const issuer = 'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0'
    expect((await tenant.post(path, { ...microsoft, issuer })).status).toBe(201)
    const open = await tenant.post(path, oidc)
    expect(open.body.data).toMatchObject({ clientSecretSet: false, name: 'your account' })
    expectError(await tenant.post(path, oidc), 409, 'already_exists')
    expectError(
      await tenant.patch(`${path}/${open.body.data.id}`, { issuer: 'https://evil.example' }),
      400,
      'validation_failed',
    )
  })
})

test('an app has at most ten providers, also when they are added at once', async () => {
  await newTenant()
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, at) =>
      tenant.post(path, { preset: 'oidc', clientId: 'shop', issuer: `https://login${at}.example.com` }),
    ),
  )
  expect(answers.map(({ status }) => status).filter((status) => status === 201)).toHaveLength(10)
  expectError(answers.find(({ status }) => status !== 201) ?? (answers[0] as never), 409, 'provider_limit')
})

test('of another tenant or app is not there', async () => {
  await newTenant()
  const { id } = (await tenant.post(path, GOOGLE)).body.data
  const other = await service.newTenant()
  const otherApp = (await tenant.post('/apps', { name: 'Other' })).body.data.id
  for (const [who, at] of [
    [other, `${path}/${id}`],
    [other, `/apps/${other.appId}/providers/${id}`],
    [tenant, `/apps/${otherApp}/providers/${id}`],
  ] as const) {
    expectError(await who.get(at), 404, 'not_found')
    expectError(await who.patch(at, { jit: 'match' }), 404, 'not_found')
    expectError(await who.delete(at), 404, 'not_found')
  }
})

test('one that somebody changed in the database is refused, and can be removed', async () => {
  await newTenant()
  const { id } = (await tenant.post(path, GOOGLE)).body.data
  await service.sql(`update app_providers set client_id = 'eve' where id = $1`, [id])
  expectError(await tenant.get(`${path}/${id}`), 500, 'record_tampered')
  expect((await tenant.delete(`${path}/${id}`)).status).toBe(200)
})
