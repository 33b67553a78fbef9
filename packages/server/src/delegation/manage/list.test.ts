import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newApp, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { expectStatus, newHolder, newSession } from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const policy = { allow: [{ templateId: 'Note:Note' }] }
const idsOf = (answer: { body: { data: { id: string }[] } }) => answer.body.data.map(({ id }) => id)
const listed = async (tenant: Tenant, query: string, key = tenant.key) =>
  idsOf(await tenant.get(`/delegated-sessions?${query}`, { key }))

test('the list is newest first, in pages, each session once', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const made: string[] = []
  for (let n = 0; n < 5; n += 1) made.unshift((await newSession(service, tenant, ada, { policy, name: `${n}` })).id)
  expect((await tenant.get('/delegated-sessions')).body).toMatchObject({
    total: 5,
    page: 1,
    pageSize: 20,
    hasMore: false,
  })
  expect(await listed(tenant, '')).toEqual(made)
  const pages = [
    await listed(tenant, 'page_size=2'),
    await listed(tenant, 'page_size=2&page=2'),
    await listed(tenant, 'page_size=2&page=3'),
  ]
  expect(pages.map(({ length }) => length)).toEqual([2, 2, 1])
  expect(pages.flat()).toEqual(made)
})

test('filters find by user, wallet, app and status, and by several at once', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const [ada, eve, bob] = [await newHolder(tenant), await newHolder(tenant), await newHolder(tenant, { appId })]
  const a1 = await newSession(service, tenant, ada, { policy })
  const a2 = await newSession(service, tenant, ada, { policy, expiresInSeconds: 60 })
  const a3 = await newSession(service, tenant, ada, { policy, maxUses: 1 })
  const e1 = await newSession(service, tenant, eve, { policy })
  const made = expectStatus(await tenant.post('/delegated-sessions', { policy }, bob.asUser), 201)
  expect(made.appId).toBe(appId)
  const create = { create: { templateId: 'Note:Note', arguments: { author: ada.party, text: 'x' } } }
  expectStatus(await a3.execute({ commands: [create] }), 200)
  await tenant.delete(`/delegated-sessions/${e1.id}`)
  service.advance(61_000)
  expect(await listed(tenant, `user_id=${ada.userId}`)).toEqual([a3.id, a2.id, a1.id])
  expect(await listed(tenant, `wallet_id=${eve.walletId}`)).toEqual([e1.id])
  expect(await listed(tenant, `app_id=${appId}`)).toEqual([made.id])
  expect(await listed(tenant, 'status=active')).toEqual([made.id, a1.id])
  // Nobody has swept it: it has ended all the same, and once it is swept nothing changes.
  const before = (await tenant.get('/delegated-sessions?status=expired')).body
  expect(before).toMatchObject({ total: 1, data: [{ id: a2.id, status: 'expired' }] })
  expect(await listed(tenant, 'status=exhausted')).toEqual([a3.id])
  expect(await listed(tenant, 'status=revoked')).toEqual([e1.id])
  expect(await listed(tenant, `user_id=${ada.userId}&status=active`)).toEqual([a1.id])
  expect(await listed(tenant, `user_id=${ada.userId}&wallet_id=${eve.walletId}`)).toEqual([])
  for (const query of ['user_id=none', 'wallet_id=', `user_id=${'x'.repeat(5_000)}`, "wallet_id=' OR 1=1"])
    expect(await listed(tenant, query)).toEqual([])
})

test('an app that is unknown or not reached is a 404 that names the parameter; a wrong status is a 400', async () => {
  const tenant = await service.newTenant()
  const theirs = (await service.newTenant()).appId
  const appId = await newApp(tenant)
  const bound = await tenant.newKey({ scopes: ['delegated_sessions:read'], appId })
  for (const [app, key] of [
    ['app_none', tenant.key],
    [theirs, tenant.key],
    [tenant.appId, bound],
  ] as const) {
    const answer = await tenant.get(`/delegated-sessions?app_id=${app}`, { key })
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('app_id')
  }
  for (const status of ['', 'ACTIVE', 'all', 'active,revoked'])
    expect(expectRefusal(await tenant.get(`/delegated-sessions?status=${status}`), 'validation_failed')[0].field).toBe(
      'status',
    )
})

test("a key sees its tenant's sessions only, and a bound one its app's", async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const [ada, bob] = [await newHolder(tenant), await newHolder(tenant, { appId })]
  const mine = await newSession(service, tenant, ada, { policy })
  const his = await newSession(service, tenant, bob, { policy })
  const bound = await tenant.newKey({ scopes: ['*'], appId })
  expect(await listed(tenant, '', bound)).toEqual([his.id])
  expect(await listed(tenant, `user_id=${ada.userId}`, bound)).toEqual([])
  expect(await listed(tenant, `wallet_id=${ada.walletId}`, bound)).toEqual([])
  expect(await listed(await service.newTenant(), `user_id=${ada.userId}`)).toEqual([])
  expectError(await tenant.get(`/delegated-sessions/${mine.id}`, { key: bound }), 404, 'not_found')
  expectError(await tenant.delete(`/delegated-sessions/${mine.id}`, { key: bound }), 404, 'not_found')
  const person = await signInAs(service, tenant, { userId: ada.userId })
  expectError(await person.get('/delegated-sessions'), 403, 'key_type_not_allowed')
  const blind = await tenant.newKey({ scopes: ['delegated_sessions:execute', 'users:act_as'] })
  expectError(await tenant.get('/delegated-sessions', { key: blind }), 403, 'insufficient_scope')
})

test("deleting a user takes the user's sessions away", async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy })
  await tenant.delete(`/users/${ada.userId}`)
  expectError(await tenant.get(`/delegated-sessions/${session.id}`), 404, 'not_found')
  expectError(await session.query(), 404, 'not_found')
  expect(await listed(tenant, '')).toEqual([])
})
