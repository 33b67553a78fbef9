import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import {
  BOB,
  digestOf,
  everything,
  executeBeside,
  expectStatus,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
} from '../delegated.fixture.ts'
import { newRemoteHolder, type RemoteService, runOut, startRemote } from '../remote/remote.fixture.ts'
import { amply, budget, budgetsOf, expectOver, leftIn, putBudgets } from './budgets.fixture.ts'

let service: RemoteService
beforeAll(async () => {
  service = await startRemote()
})
afterAll(() => service.stop())

/** A wallet on the remote ledger with a budget of 10 and holdings of 1, and sessions of it. */
async function remote(holdings: number, sessions = 2) {
  const tenant = await service.newTenant()
  const ada = await newRemoteHolder(service, tenant)
  expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '10')]), 200)
  const body = { policy: everything(amply(ada)), expiresInSeconds: 86_400 }
  const made = await Promise.all(Array.from({ length: sessions }, () => newSession(service, tenant, ada, body)))
  return { tenant, ada, sessions: made, ids: await ada.receiveAll(Array.from({ length: holdings }, () => '1')) }
}

const order = (id: string, n = 0) => ({ commandId: `c${n}`, commands: [transfer(id)] })

describe('on a ledger that is not transactional, a budget', () => {
  test('is reserved, kept by what happened, and given back by what certainly did not', async () => {
    const { tenant, ada, sessions, ids } = await remote(4)
    const [one, two] = sessions as [Session, Session]
    expectStatus(await one.execute(order(ids[0] as string)), 200)
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    service.remote.next.submit = ['refuse']
    expect((await two.execute(order(ids[1] as string))).status).toBe(409)
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    service.remote.next.submit = ['forget']
    expect(expectStatus(await two.execute(order(ids[2] as string, 2)), 200).status).toBe('submitted')
    expect(await leftIn(tenant, ada)).toEqual(['8'])
    await runOut(service)
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    expect(await ada.has(BOB)).toBe('1')
    service.remote.heal()
  })

  test('is charged again with what was given back and happened after all', async () => {
    const { tenant, ada, sessions, ids } = await remote(2)
    const [one] = sessions as [Session]
    service.remote.next.submit = ['forget']
    service.remote.always.submit = () => 'lose_before'
    const sentAt = service.deps.now()
    expectStatus(await one.execute(order(ids[0] as string)), 200)
    service.advance(3 * 60_000)
    await service.reconcile()
    service.remote.heal()
    expect(await leftIn(tenant, ada)).toEqual(['10'])
    await service.remote.remember(sentAt)
    service.advance(60_000)
    await service.reconcile()
    expect(await ada.has(BOB)).toBe('1')
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    expectStatus(await one.execute(order(ids[1] as string, 1)), 200)
    expect(await leftIn(tenant, ada)).toEqual(['8'])
  })

  test('that is removed and set again while a transaction is open keeps its count', async () => {
    const { tenant, ada, sessions, ids } = await remote(3)
    const [one, two] = sessions as [Session, Session]
    service.remote.next.submit = ['forget']
    expect(expectStatus(await one.execute(order(ids[0] as string)), 200).status).toBe('submitted')
    expectStatus(await putBudgets(service, tenant, ada, []), 200)
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '10')]), 200)
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    expectStatus(await two.execute(order(ids[1] as string, 1)), 200)
    await runOut(service)
    expect(await leftIn(tenant, ada)).toEqual(['9'])
    service.remote.heal()
  })

  test('is spent to the last unit by a hundred calls of three sessions at once, and no more', async () => {
    const { tenant, ada, sessions, ids } = await remote(100, 3)
    const answers = await Promise.all(
      ids.map((id, n) => executeBeside(sessions[n % 3] as Session, order(id, n), n % 2)),
    )
    expect(statusCounts(answers)).toEqual({ 200: 10, '403 budget_exceeded': 90 })
    expect(await ada.has(BOB)).toBe('10')
    expect((await budgetsOf(tenant, ada)).budgets).toMatchObject([{ spent: '10', remaining: '0' }])
  })

  test("of the app begins to count with a wallet's first transaction", async () => {
    const { tenant, ada, sessions, ids } = await remote(3)
    const own = await newRemoteHolder(service, tenant)
    expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { budgets: [budget(own, '1')] }), 200)
    const session = await newSession(service, tenant, own, { policy: everything(amply(own)) })
    const [first, second] = await own.receiveAll(['1', '1'])
    expectStatus(await session.execute(order(first as string)), 200)
    expectOver(await session.execute(order(second as string, 1)), '0', 'appBudgets[0]')
    expectOver(
      await (sessions[0] as Session).execute({ commands: ids.map((id) => transfer(id)) }),
      '1',
      'appBudgets[0]',
    )
    expect(await leftIn(tenant, ada)).toEqual(['10'])
  })
})

describe('what waits for a signature of the owner', () => {
  test('holds its part of the budget, and gives it back when it expires', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '10')]), 200)
    const session = await ownSession(service, ada, { policy: everything(amply(ada)) })
    const other = await ownSession(service, ada, { policy: everything(amply(ada)) })
    const asked = async (amount: string) =>
      expectStatus(await session.execute({ commands: [transfer(await ada.receive(amount))] }), 200)
    const signed = await asked('4')
    expect([signed.status, signed.remaining.budgets[0].remaining]).toEqual(['signature_required', '6'])
    await asked('6')
    expectOver(await other.execute({ commands: [transfer(await ada.receive('1'))] }), '0')
    const { id: signingRequestId, preparedTransaction } = signed.signingRequest
    const signature = ada.sign(digestOf(preparedTransaction))
    expectStatus(await session.execute({ signingRequestId, signature }), 200)
    expect(await leftIn(tenant, ada)).toEqual(['0'])
    service.advance(11 * 60_000)
    await service.reconcile()
    await eventually('it is given back', async () => (await leftIn(tenant, ada))[0] === '6')
  })
})
