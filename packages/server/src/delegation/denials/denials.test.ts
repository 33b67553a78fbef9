import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { sql } from '../../platform/db/db.ts'
import { create, newHolder, newSession, type Session, signedIn, transfer, transfers } from '../delegated.fixture.ts'
import { deleteOldDenials } from './denials.ts'

const DAY_MS = 86_400_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function withAgent(tenant: Tenant) {
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
  return { ada, session }
}

const overspend = async (ada: Awaited<ReturnType<typeof newHolder>>, session: Session) =>
  expectError(await session.execute({ commands: [transfer(await ada.receive('11'))] }), 403, 'spend_limit_exceeded')

const listed = async (tenant: Tenant, query: string, key = tenant.key) => {
  const answer = await tenant.get(`/denials?${query}`, { key })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

test('a refused attempt is found by session, wallet and user, with its rule and what would have been allowed', async () => {
  const tenant = await service.newTenant()
  const { ada, session } = await withAgent(tenant)
  await session.execute({ commands: [transfer(await ada.receive('9'))] })
  expectError(await session.execute({ commands: [transfer(await ada.receive('3'))] }), 403, 'spend_limit_exceeded')
  const denial = {
    sessionId: session.id,
    appId: tenant.appId,
    userId: ada.userId,
    walletId: ada.walletId,
    rule: 'spend[0]',
    code: 'spend_limit_exceeded',
    message: expect.stringContaining('3 USDX'),
    command: null,
    asset: { issuer: ada.issuer, symbol: 'USDX' },
    window: 'lifetime',
    limit: '10',
    spent: '9',
    asked: '3',
    remaining: '1',
    count: 1,
    firstAt: expect.any(String),
    lastAt: expect.any(String),
  }
  const { body } = await tenant.get(`/delegated-sessions/${session.id}/denials`)
  expect(body).toMatchObject({ data: [denial], total: 1, hasMore: false })
  for (const query of [`user_id=${ada.userId}`, `wallet_id=${ada.walletId}`, `session_id=${session.id}`, ''])
    expect(await listed(tenant, query)).toEqual([denial])
  for (const query of ['user_id=nobody', 'wallet_id=nothing', 'session_id=dse_none'])
    expect(await listed(tenant, query)).toEqual([])
})

test('repeats within a minute are counted in one record, and each rule has its own', async () => {
  const tenant = await service.newTenant()
  const { ada, session } = await withAgent(tenant)
  const minute = 60_000
  service.advance(minute - (service.deps.now().getTime() % minute))
  for (let attempt = 0; attempt < 5; attempt += 1) await overspend(ada, session)
  const note = create('Note:Note', { author: ada.party, text: 'x' })
  expectError(await session.execute({ commands: [note] }), 403, 'policy_denied')
  const records = await eventually('the counts', async () => {
    const data = await listed(tenant, `session_id=${session.id}`)
    return data.find(({ rule }: { rule: string }) => rule === 'spend[0]')?.count === 5 && data
  })
  expect(records).toHaveLength(2)
  expect(records.find(({ rule }: { rule: string }) => rule !== 'spend[0]')).toMatchObject({
    code: 'policy_denied',
    asset: null,
    remaining: null,
    count: 1,
  })
  service.advance(minute)
  await overspend(ada, session)
  expect((await listed(tenant, `session_id=${session.id}`))[0]).toMatchObject({ rule: 'spend[0]', count: 1 })
})

test("another tenant's and another app's denials are not shown; the delegate and the owner see their session's", async () => {
  const tenant = await service.newTenant()
  const { ada, session } = await withAgent(tenant)
  await overspend(ada, session)
  const other = await service.newTenant()
  expect(await listed(other, `user_id=${ada.userId}`)).toEqual([])
  expectError(await other.get(`/delegated-sessions/${session.id}/denials`), 404, 'not_found')
  const app = (await tenant.post('/apps', { name: 'Other' })).body.data
  const bound = await tenant.newKey({ scopes: ['*'], appId: app.id })
  expect(await listed(tenant, '', bound)).toEqual([])
  expectError(await tenant.get(`/delegated-sessions/${session.id}/denials`, { key: bound }), 404, 'not_found')
  const blind = await tenant.newKey({ scopes: ['users:read'] })
  expectError(await tenant.get('/denials', { key: blind }), 403, 'insufficient_scope')

  const path = `/delegated-sessions/${session.id}/denials`
  const key = await tenant.newKey({ publishable: true })
  const byToken = await tenant.get(path, { key, headers: { authorization: `Bearer ${session.token}` } })
  expect(byToken.body.data).toHaveLength(1)
  const owner = await signInAs(service, tenant, { userId: ada.userId })
  expect((await owner.get(path)).body.data).toHaveLength(1)
  expectError(await (await signedIn(service, tenant)).person.get(path), 404, 'not_found')
})

test('a session keeps its newest thousand records, and none longer than 30 days; they go with the user', async () => {
  const tenant = await service.newTenant()
  const { ada, session } = await withAgent(tenant)
  await overspend(ada, session)
  await service.deps.db.run(sql`
    insert into denials select tenant_id, session_id, minute - back * interval '1 minute', rule, app_id, user_id, wallet_id, code, message,
      command, facts, 1, first_at, last_at from denials, generate_series(1, 1100) back where session_id = ${session.id}`)
  service.advance(61_000)
  await overspend(ada, session)
  const total = async () => (await tenant.get(`/denials?user_id=${ada.userId}`)).body.total
  expect(await total()).toBe(1_000)
  const old = await service.deps.db.run(sql`
    update denials set minute = minute - interval '31 days' where session_id = ${session.id} and minute < ${new Date(service.deps.now().getTime() - 2 * 60_000)}`)
  while (await deleteOldDenials(service.deps, service.deps.db));
  expect(old).toBeGreaterThan(900)
  expect(await total()).toBe(1_000 - old)
  service.advance(31 * DAY_MS)
  while (await deleteOldDenials(service.deps, service.deps.db));
  expect(await total()).toBe(0)
  service.advance(-31 * DAY_MS)
  await overspend(ada, session)
  await tenant.delete(`/users/${ada.userId}`)
  expect(await total()).toBe(0)
})

test('a policy is validated as it would be for a session, and nothing is created', async () => {
  const tenant = await service.newTenant()
  const policy = { allow: [{ templateId: 'Token:Holding', choices: ['Transfer'] }] }
  const valid = await tenant.post('/delegated-sessions/validate', { policy })
  expect([valid.status, valid.body.data]).toEqual([200, { valid: true, policy }])
  const wrong = { ...policy, spend: [{ asset: { issuer: 'nobody', symbol: 'USDX' }, amount: '0' }] }
  const refused = await tenant.post('/delegated-sessions/validate', { policy: wrong })
  const ada = await newHolder(tenant)
  const asCreated = await tenant.post(
    '/delegated-sessions',
    { policy: wrong },
    { headers: { 'x-user-id': ada.userId } },
  )
  expect([refused.status, refused.body]).toEqual([asCreated.status, asCreated.body])
  expect((await tenant.get('/delegated-sessions')).body.total).toBe(0)
})
