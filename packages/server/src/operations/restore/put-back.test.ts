import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service } from '../../../test/harness/harness.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import { halfkey, type Installation, marksIn, newInstallation } from './restore.fixture.ts'

// An attacker who puts single rows back as they once were, with their MACs, and restarts every process. The rest of the database has not
// gone back, so no mark of the floor is behind. But the floor holds the versions of these records.

let installation: Installation
let service: Service
beforeAll(async () => {
  installation = await newInstallation()
  service = await installation.start()
})
afterAll(async () => {
  await service.stop()
  await installation.remove()
})

async function restart() {
  await service.stop()
  service = await installation.start()
}

/** Keeps a row of a table, to put it back as it was. */
async function steal(table: string, id: string) {
  const [kept] = await service.sql<{ row: string }>(`select to_json(t)::text as row from ${table} t where id = $1`, [
    id,
  ])
  const names = Object.keys(JSON.parse(kept?.row as string)).map((name) => `"${name}"`)
  return () =>
    service.sql(
      `update ${table} t set (${names.join(', ')}) = (select ${names.join(', ')} from json_populate_record(null::${table}, $2::json))
       where id = $1`,
      [id, kept?.row],
    )
}

const inFloor = (place: string, version: number) =>
  eventually(`${place} in the floor`, async () => marksIn(installation.floor).versions[place] >= version)

const verify = async () => JSON.parse((await halfkey(service, 'records', 'verify', '--json')).out)

test('settings of an app, an API key, a member, an issuer and a signing key that are put back are refused after a restart', async () => {
  const tenant = await service.newTenant()
  const { tenantId, appId } = tenant
  const as = (key = tenant.key) => ({
    get: (path: string) => call(service.url, 'GET', `/v1${path}`, { key }),
    send: (method: string, path: string, body?: object) =>
      call(service.url, method, `/v1${path}`, { key, ...(body === undefined ? {} : { body }) }),
  })
  const made = (await as().send('POST', '/api-keys', { name: 'leaked', type: 'secret', scopes: ['users:read'] })).body
    .data
  const member = (await as().send('POST', '/members', { email: 'grace@example.com', role: 'admin' })).body.data
  const trusted = {
    issuer: 'https://id.example.com',
    jwksUri: 'https://id.example.com/jwks',
    audiences: ['shop', 'former'],
  }
  const issuer = (await as().send('POST', `/apps/${appId}/issuers`, trusted)).body.data
  const [signing] = await service.sql<{ id: string }>('select id from signing_keys where revoked_at is null')
  const putBack = [
    await steal('apps', appId),
    await steal('api_keys', made.id),
    await steal('members', member.id),
    await steal('app_issuers', issuer.id),
    await steal('signing_keys', signing?.id as string),
  ]
  for (const answer of [
    await as().send('PATCH', `/apps/${appId}`, { mfa: { policy: 'always' } }),
    await as().send('DELETE', `/api-keys/${made.id}`),
    await as().send('PATCH', `/members/${member.id}`, { role: 'viewer' }),
    await as().send('PATCH', `/apps/${appId}/issuers/${issuer.id}`, { audiences: ['shop'] }),
  ])
    expect(answer.status, answer.text).toBe(200)
  await rotateSigningKey(service.deps, { revoke: true })
  for (const place of [
    `app ${tenantId} ${appId}`,
    `api_key ${tenantId} ${made.id}`,
    `member ${tenantId} ${member.id}`,
    `issuer ${tenantId} ${issuer.id}`,
    `signing_key  ${signing?.id}`,
  ])
    await inFloor(place, 1)
  expect(await verify()).toMatchObject({ bad: [], returned: [], unread: null })
  for (const each of putBack) await each()
  await restart()
  expect(service.deps.floor.closed()).toBeNull()
  expectError(await as(made.key).get('/users'), 500, 'record_tampered')
  // An app's settings stand beside each key that is bound to it, so nothing of this app is believed.
  expectError(await as().get(`/apps/${appId}`), 500, 'record_tampered')
  expectError(await as().get('/members'), 500, 'record_tampered')
  expectError(await as().get(`/apps/${appId}/issuers`), 500, 'record_tampered')
  const { bad } = await verify()
  expect(bad.map(({ kind, id }: { kind: string; id: string }) => `${kind} ${id}`).sort()).toEqual(
    [
      `app ${appId}`,
      `api_key ${made.id}`,
      `member ${member.id}`,
      `issuer ${issuer.id}`,
      `signing_key ${signing?.id}`,
    ].sort(),
  )
  // An operator who takes the present state for the right one has it believed.
  expect(await halfkey(service, 'restore', 'accept', '--always', '--keep-api-keys')).toMatchObject({ exitCode: 0 })
  await eventually('the new epoch', async () => (await as().get(`/apps/${appId}`)).status === 200)
  // Without a floor, too: that is what refused them.
  await service.stop()
  rmSync(installation.floor)
  service = await installation.start()
  expect((await as(made.key).get('/users')).status).toBe(200)
})

test('a version that somebody else wrote raises no floor, so the genuine record still counts', async () => {
  const tenant = await service.newTenant()
  const { tenantId, appId } = tenant
  const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id as string
  const putBack = await steal('apps', appId)
  await service.sql('update apps set version = 1000 where id = $1', [appId])
  expect((await tenant.patch(`/apps/${other}`, { mfa: { policy: 'always' } })).status).toBe(200)
  await inFloor(`app ${tenantId} ${other}`, 1)
  expect(marksIn(installation.floor).versions).not.toHaveProperty([`app ${tenantId} ${appId}`])
  await putBack()
  await restart()
  expect((await call(service.url, 'GET', `/v1/apps/${appId}`, { key: tenant.key })).status).toBe(200)
})
