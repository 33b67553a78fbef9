import { afterAll, beforeAll, expect, test } from 'vitest'
import { newAuthenticator, register, signUp } from '../../../../../test/harness/authenticator.ts'
import { eventually, type Service, startService, type Tenant } from '../../../../../test/harness/harness.ts'
import { newHolder, newSession, transfers } from '../../../../delegation/delegated.fixture.ts'
import { signInAs } from '../../../../identity/sessions/sessions.fixture.ts'
import { runCli } from '../../cli.ts'

// An attacker who puts whole rows back as they once were, with their MACs, and has every process restarted: nothing that is read for a
// call shows it, but the audit log does.

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_FLOOR: 'off' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

async function verify() {
  const out: string[] = []
  const exitCode = await runCli(['records', 'verify', '--json'], {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: () => {},
  })
  return { exitCode, ...JSON.parse(out.join('')) }
}

/** Keeps rows by their id, to put them back as they were. */
async function steal(table: string, id: string) {
  const rows = await service.sql<{ row: string }>(`select to_json(t)::text as row from ${table} t where id = $1`, [id])
  expect(rows).toHaveLength(1)
  return async () => {
    const names = Object.keys(JSON.parse(rows[0]?.row as string)).map((name) => `"${name}"`)
    await service.sql(
      `update ${table} t set (${names.join(', ')}) = (select ${names.join(', ')} from json_populate_record(null::${table}, $2::json))
       where id = $1`,
      [id, rows[0]?.row],
    )
    service.deps.db.records.forgetVersions()
  }
}

const inLog = (action: string, target: string) =>
  eventually(`${action} in the log`, async () => {
    return (await tenant.get(`/audit-log?action=${action}&target=${target}`)).body.total > 0
  })

test('what was revoked or frozen, and was put back as it was before, is named by its audit log', async () => {
  const holder = await newHolder(tenant)
  const session = await newSession(service, tenant, holder, { policy: transfers(holder, '10') })
  const person = await signInAs(service, tenant)
  const asPerson = { key: person.key, headers: person.bearer }
  const mine = (await tenant.get('/auth/sessions', asPerson)).body.data[0].id as string
  const made = await tenant.post('/api-keys', { name: 'short', type: 'secret', scopes: ['users:read'] })
  const keyId = made.body.data.id as string
  const [wallet] = await service.sql<{ id: string }>('select id from wallets where tenant_id = $1', [tenant.tenantId])
  const walletId = wallet?.id as string
  const putBack = [
    await steal('api_keys', keyId),
    await steal('delegated_sessions', session.id),
    await steal('sessions', mine),
    await steal('wallets', walletId),
  ]
  expect((await tenant.delete(`/api-keys/${keyId}`)).status).toBe(200)
  expect((await tenant.delete(`/delegated-sessions/${session.id}`)).status).toBe(200)
  expect((await tenant.delete(`/auth/sessions/${mine}`, asPerson)).status).toBe(200)
  const frozen = await tenant.post(`/wallets/${walletId}/freeze`)
  expect(frozen.status, frozen.text).toBe(200)
  await inLog('api_key.revoked', keyId)
  await inLog('delegated_session.revoked', session.id)
  await inLog('session.revoked', mine)
  await inLog('wallet.frozen', walletId)
  const before = await verify()
  expect(before).toMatchObject({ exitCode: 0, bad: [], returned: [] })
  for (const each of putBack) await each()
  // The key works again, and no MAC says that it should not.
  expect((await tenant.get('/users', { key: made.body.data.key })).status).toBe(200)
  const after = await verify()
  expect(after.exitCode).toBe(1)
  expect(after.bad).toEqual([])
  const { tenantId } = tenant
  expect(after.returned).toEqual([
    { kind: 'api_key', tenantId, id: keyId },
    { kind: 'delegated_session', tenantId, id: session.id },
    { kind: 'session', tenantId, id: mine },
    { kind: 'wallet', tenantId, id: walletId },
  ])
})

test('a suspended user and a removed member who were put back as they were before are named', async () => {
  const { userId } = await signInAs(service, tenant)
  const { data } = (await tenant.post('/members', { email: 'grace@example.com', role: 'support' })).body
  const putBack = [await steal('members', data.id), await steal('users', userId)]
  expect((await tenant.patch(`/users/${userId}`, { status: 'suspended' })).status).toBe(200)
  expect((await tenant.delete(`/members/${data.id}`)).status).toBe(200)
  await inLog('user.suspended', userId)
  await inLog('member.removed', data.id)
  const mine = async () => {
    const { exitCode, bad, returned } = await verify()
    return { exitCode, bad, returned: returned.filter(({ id }: { id: string }) => [userId, data.id].includes(id)) }
  }
  expect((await mine()).returned).toEqual([])
  for (const each of putBack) await each()
  // No MAC says that they are not what they were.
  expect((await tenant.get(`/users/${userId}`)).body.data.status).toBe('active')
  const { tenantId } = tenant
  expect(await mine()).toEqual({
    exitCode: 1,
    bad: [],
    returned: [
      { kind: 'member', tenantId, id: data.id },
      { kind: 'user', tenantId, id: userId },
    ],
  })
})

test('a user who is active again is not taken for one who was put back', async () => {
  const userId = await tenant.userId()
  for (const status of ['suspended', 'active', 'suspended', 'active'])
    expect((await tenant.patch(`/users/${userId}`, { status })).status).toBe(200)
  await inLog('user.suspended', userId)
  const { returned } = await verify()
  expect(returned.map(({ id }: { id: string }) => id)).not.toContain(userId)
})

test('a user who was active again just before the last suspension is named when that row is put back', async () => {
  const userId = (await tenant.post('/users', {})).body.data.id as string
  const change = async (status: string) =>
    expect((await tenant.patch(`/users/${userId}`, { status })).status, status).toBe(200)
  await change('suspended')
  await change('active')
  await inLog('user.unsuspended', userId)
  const putBack = await steal('users', userId)
  await change('suspended')
  await eventually('both in the log', async () => {
    return (await tenant.get(`/audit-log?action=user.suspended&target=${userId}`)).body.total === 2
  })
  await putBack()
  const { returned } = await verify()
  expect(returned).toContainEqual({ kind: 'user', tenantId: tenant.tenantId, id: userId })
})

test('a wallet that was unfrozen is not taken for one that was put back', async () => {
  await newHolder(tenant)
  const [wallet] = await service.sql<{ id: string }>(
    'select id from wallets where tenant_id = $1 order by created_at desc, id desc limit 1',
    [tenant.tenantId],
  )
  const walletId = wallet?.id as string
  for (let round = 0; round < 2; round += 1) {
    expect((await tenant.post(`/wallets/${walletId}/freeze`)).status).toBe(200)
    expect((await tenant.post(`/wallets/${walletId}/unfreeze`)).status).toBe(200)
  }
  await inLog('wallet.frozen', walletId)
  const { returned } = await verify()
  expect(returned.map(({ id }: { id: string }) => id)).not.toContain(walletId)
})

test('an app, an issuer, a provider and a passkey that were put back after they were removed are named', async () => {
  const issuer = { issuer: 'https://id.example.com', jwksUri: 'https://id.example.com/jwks', audiences: ['shop'] }
  const provider = { preset: 'google', clientId: 'shop', clientSecret: 'a secret of the client' }
  const returned: object[] = []
  async function deleteAndReturn(kind: string, action: string, table: string, id: string, path: string, by = {}) {
    await service.sql(`create table kept as select * from ${table} where id = $1`, [id])
    const deleted = await tenant.delete(`${path}/${id}`, by)
    expect(deleted.status, deleted.text).toBe(200)
    await inLog(action, id)
    await service.sql(`insert into ${table} select * from kept`)
    await service.sql('drop table kept')
    returned.push({ kind, tenantId: tenant.tenantId, id })
  }
  for (const [kind, path, table, body] of [
    ['issuer', `/apps/${tenant.appId}/issuers`, 'app_issuers', issuer],
    ['provider', `/apps/${tenant.appId}/providers`, 'app_providers', provider],
    ['app', '/apps', 'apps', { name: 'Another' }],
  ] as const) {
    const made = await tenant.post(path, body)
    expect(made.status, made.text).toBe(201)
    await deleteAndReturn(kind, `${kind}.deleted`, table, made.body.data.id, path)
  }
  const { user, accessToken } = await signUp(tenant, { email: 'ada@example.com' })
  const [passkey] = await service.sql<{ id: string }>('select id from passkeys where user_id = $1', [user.id])
  const headers = { authorization: `Bearer ${accessToken}` }
  // With its user's row, which lists it.
  const putUserBack = await steal('users', user.id)
  await register(tenant, {}, { authenticator: newAuthenticator(), headers })
  await deleteAndReturn('passkey', 'passkey.removed', 'passkeys', passkey?.id as string, '/auth/passkeys', { headers })
  await service.sql('delete from passkeys where user_id = $1 and id <> $2', [user.id, passkey?.id])
  await putUserBack()
  const found = await verify()
  expect([found.exitCode, found.bad]).toEqual([1, []])
  expect(found.returned).toEqual(expect.arrayContaining(returned))
})
