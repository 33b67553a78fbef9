import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/guests/guests.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import {
  everything,
  expectStatus,
  newHolder,
  newSession,
  ownSession,
  signedIn,
  transfer,
} from '../delegated.fixture.ts'
import { amply, budget, budgeted, budgetsOf, expectOver, leftIn, putBudgets, putOwn, spend } from './budgets.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** A signed-in owner, with a budget of 10 that they set. */
async function owned() {
  const tenant = await service.newTenant()
  const ada = await signedIn(service, tenant)
  const put = (budgets: object[]) => putOwn(service, ada.person, ada.walletId, budgets)
  expectStatus(await put([budget(ada, '10')]), 200)
  const session = await ownSession(service, ada, { policy: everything(amply(ada)) })
  return { tenant, ada, put, session }
}

const amounts = (data: { budgets: { amount: string; setBy: string }[] }) =>
  data.budgets.map(({ amount, setBy }) => [amount, setBy])

describe('the owner', () => {
  test('lowers a budget at any time, and raises or removes it with a recent sign-in alone', async () => {
    const { tenant, ada, put, session } = await owned()
    service.advance(6 * 60_000)
    expect(amounts(expectStatus(await put([budget(ada, '8')]), 200))).toEqual([['8', 'owner']])
    for (const more of [[budget(ada, '8.0000000001')], [], [budget(ada, '8', { window: 'day_utc' })]])
      expectError(await put(more), 403, 'reauthentication_required')
    expectOver(await spend(session, ada, '9'), '8')
    const again = await signInAs(service, tenant, { userId: ada.userId })
    expectStatus(await putOwn(service, again, ada.walletId, [budget(ada, '12')]), 200)
    expectStatus(await spend(session, ada, '12'), 200)
    expectStatus(await putOwn(service, again, ada.walletId, []), 200)
    expectStatus(await spend(session, ada, '50'), 200)
  })

  test('takes part of a budget of a server by raising it', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '10')]), 200)
    expect(amounts(await budgetsOf(tenant, ada))).toEqual([['10', 'server']])
    expectStatus(await putOwn(service, ada.person, ada.walletId, [budget(ada, '10')]), 200)
    expect(amounts(await budgetsOf(tenant, ada))).toEqual([['10', 'server']])
    expectStatus(await putOwn(service, ada.person, ada.walletId, [budget(ada, '20')]), 200)
    expect(amounts(await budgetsOf(tenant, ada))).toEqual([['20', 'owner']])
    expectError(await putBudgets(service, tenant, ada, []), 403, 'budget_of_owner')
  })
})

describe('a server', () => {
  test('lowers what the owner set and cannot raise it again, for the user either', async () => {
    const { tenant, ada } = await owned()
    const put = (budgets: object[]) => putBudgets(service, tenant, ada, budgets)
    expect(amounts(expectStatus(await put([budget(ada, '5')]), 200))).toEqual([['5', 'owner']])
    for (const budgets of [
      [budget(ada, '10')],
      [budget(ada, '5.0000000001')],
      [],
      [budget(ada, '5', { window: 'day_utc' })],
    ]) {
      expectError(await put(budgets), 403, 'budget_of_owner')
      const path = `/wallets/${ada.walletId}/budgets`
      expectError(await tenant.call('PUT', path, { body: { budgets }, ...ada.asUser }), 403, 'budget_of_owner')
    }
    expect(await leftIn(tenant, ada)).toEqual(['5'])
    const both = [budget(ada, '5'), budget(ada, '3', { window: 'day_utc' })]
    expect(amounts(expectStatus(await put(both), 200))).toEqual([
      ['5', 'owner'],
      ['3', 'server'],
    ])
    expectStatus(await put([budget(ada, '5'), budget(ada, '4', { window: 'day_utc' })]), 200)
    expectStatus(await put([budget(ada, '5')]), 200)
  })

  test('needs the scope, and a key of the app', async () => {
    const { tenant, ada } = await owned()
    const reader = await tenant.newKey({ scopes: ['wallets:read'] })
    expectError(await putBudgets(service, tenant, ada, [], reader), 403, 'insufficient_scope')
    expectStatus(await call(service.url, 'GET', `/v1/wallets/${ada.walletId}/budgets`, { key: reader }), 200)
    const writer = await tenant.newKey({ scopes: ['wallets:write'] })
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '9')], writer), 200)
    const appId = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
    const foreign = await tenant.newKey({ scopes: ['wallets:write'], appId })
    expectError(await putBudgets(service, tenant, ada, [], foreign), 404, 'not_found')
  })
})

test('other tenants, other users, delegates and publishable keys alone reach no budget', async () => {
  const { tenant, ada, session } = await owned()
  const path = `/wallets/${ada.walletId}/budgets`
  const stranger = await service.newTenant()
  const eve = await signInAs(service, tenant)
  const body = { budgets: [budget(ada, '1')] }
  const unknown = await tenant.get('/wallets/wal_01jb2m7x9kq4t8v6w0r3s5y1zc/budgets')
  expectError(unknown, 404, 'not_found')
  for (const method of ['GET', 'PUT']) {
    const sent = method === 'PUT' ? { body } : {}
    for (const answer of [
      await stranger.call(method, path, sent),
      await eve.call(method, path, sent),
      await call(service.url, method, `/v1${path}`, { key: eve.key, ...sent }),
    ])
      expect(answer.text).toBe(unknown.text)
    const headers = { authorization: `Bearer ${session.token}` }
    const byToken = await call(service.url, method, `/v1${path}`, { key: eve.key, headers, ...sent })
    expect([401, 404]).toContain(byToken.status)
    expectError(await call(service.url, method, `/agent/api${path}`, { headers, ...sent }), 404, 'not_found')
  }
  expect(amounts(await budgetsOf(tenant, ada))).toEqual([['10', 'owner']])
})

test('what is no budget is refused, and names what is wrong', async () => {
  const { tenant, ada, put } = await owned()
  const one = budget(ada, '5')
  const wrong: [unknown, string][] = [
    [[one, one], 'budgets.1'],
    [[one, { ...one, window: 'lifetime', recipient: null }], 'budgets.1'],
    [[{ ...one, recipient: ada.party, templateId: 'Token:Holding' }], 'budgets.0.templateId'],
    [[{ ...one, amount: '-1' }], 'budgets.0.amount'],
    [[{ ...one, amount: 5 }], 'budgets.0.amount'],
    [[{ ...one, amount: '1e3' }], 'budgets.0.amount'],
    [[{ ...one, amount: '0.00000000001' }], 'budgets.0.amount'],
    [[{ ...one, amount: '9'.repeat(29) }], 'budgets.0.amount'],
    [[{ ...one, window: 'week' }], 'budgets.0.window'],
    [[{ ...one, recipient: 'bob' }], 'budgets.0.recipient'],
    [[{ ...one, templateId: 'Holding' }], 'budgets.0.templateId'],
    [[{ ...one, setBy: 'server' }], 'budgets.0.setBy'],
    [[{ amount: '5' }], 'budgets.0.asset'],
    [Array.from({ length: 21 }, () => one), 'budgets'],
    [{ 0: one }, 'budgets'],
    [null, 'budgets'],
  ]
  for (const [budgets, field] of wrong) {
    const answer = await put(budgets as object[])
    expectRefusal(answer, 'validation_failed')
    expect(answer.body.details.map((detail: { field: string }) => detail.field)).toContain(field)
    const ofApp = await tenant.patch(`/apps/${tenant.appId}`, { budgets })
    expectRefusal(ofApp, 'validation_failed')
  }
  expect(await leftIn(tenant, ada)).toEqual(['10'])
})

test('a change is told once, and none is told where nothing changes', async () => {
  const { tenant, ada, put } = await owned()
  expectStatus(await put([budget(ada, '10', { window: 'lifetime', recipient: null })]), 200)
  expect(await eventsOf(service, tenant, 'budget.updated')).toHaveLength(1)
  expectStatus(await put([budget(ada, '9')]), 200)
  expect((await eventsOf(service, tenant, 'budget.updated')).at(-1)).toMatchObject({ by: 'owner', userId: ada.userId })
})

describe('what somebody else writes into the database', () => {
  const spent = '{"x": {"all": "0"}}'
  test.each([
    ['a raised budget', `update wallets set budgets = replace(budgets::text, '"10"', '"99"')::jsonb where id = $1`],
    ['a removed budget', `update wallets set budgets = '{"limits": []}' where id = $1`],
    ['no budgets at all', 'update wallets set budgets = null where id = $1'],
    ['a count set back', `update wallet_spending set spent = '${spent}' where wallet_id = $1`],
    ['a deleted count', 'delete from wallet_spending where wallet_id = $1'],
  ])('%s is noticed, and nothing is spent', async (_, statement) => {
    const { tenant, ada, sessions } = await budgeted(service, (ada) => [budget(ada, '10')], 2)
    const [one, two] = sessions as [(typeof sessions)[0], (typeof sessions)[0]]
    expectStatus(await spend(one, ada, '6'), 200)
    const holding = await ada.receive('9')
    await service.sql(statement, [ada.walletId])
    for (const session of [one, two]) {
      const commands = [transfer(holding, '4')]
      expectError(await session.execute({ commands }), 500, 'record_tampered')
      expectError(await session.execute({ commands, dryRun: true }), 500, 'record_tampered')
    }
    expectError(await tenant.get(`/wallets/${ada.walletId}/budgets`), 500, 'record_tampered')
    expectError(await putBudgets(service, tenant, ada, [budget(ada, '1')]), 500, 'record_tampered')
  })

  test('an earlier count, put back, is noticed, also by a process that knows no later one', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
    expectStatus(await spend(session, ada, '1'), 200)
    await service.sql('create table if not exists kept as select * from wallet_spending where false')
    await service.sql('insert into kept select * from wallet_spending where wallet_id = $1', [ada.walletId])
    expectStatus(await spend(session, ada, '9'), 200)
    await service.sql(
      'update wallet_spending w set spent = k.spent, version = k.version, mac = k.mac from kept k where k.wallet_id = w.wallet_id',
    )
    expectError(await spend(session, ada, '1'), 500, 'record_tampered')
    // As after a restart of every process: its transactions say that there was a later one.
    service.deps.db.records.forgetVersions()
    expectError(await spend(session, ada, '1'), 500, 'record_tampered')
    const one = await newSession(service, tenant, ada, { policy: everything(amply(ada)) })
    expectError(await spend(one, ada, '1'), 500, 'record_tampered')
    await service.sql('drop table kept')
  })

  test("an app's budgets, changed, are noticed", async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { budgets: [budget(ada, '1')] }), 200)
    const session = await newSession(service, tenant, ada, { policy: everything(amply(ada)) })
    await service.sql(`update apps set budgets = '{"limits": []}' where id = $1`, [tenant.appId])
    expectError(await spend(session, ada, '2'), 500, 'record_tampered')
  })
})
