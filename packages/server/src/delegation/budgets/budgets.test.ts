import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf, statusCounts } from '../../identity/guests/guests.fixture.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  newHolder,
  newSession,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'
import { amply, budget, budgeted, budgetsOf, expectOver, leftIn, putBudgets, spend } from './budgets.fixture.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const HOLDING = 'Token:Holding'
const OFFER = 'Token:TransferOffer'
const CAROL = `carol::1220${'0c'.repeat(32)}`

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** The clock at this time of a day after today. */
function moveTo(utc: string): void {
  const now = service.deps.now().getTime()
  const midnight = now - (now % DAY_MS) + 2 * DAY_MS
  service.advance(midnight + Date.parse(`1970-01-01T${utc}Z`) - now)
}

const leftAfter = (answer: Answer) =>
  expectStatus(answer, 200).remaining.budgets.map(({ remaining }: { remaining: string }) => remaining)

describe('a budget', () => {
  test('is what all sessions of a wallet spend together, to the last unit', async () => {
    const { tenant, ada, sessions } = await budgeted(service, (ada) => [budget(ada, '10')], 3)
    const [one, two, three] = sessions as [(typeof sessions)[0], (typeof sessions)[0], (typeof sessions)[0]]
    expect(leftAfter(await spend(one, ada, '4'))).toEqual(['6'])
    expect(leftAfter(await spend(two, ada, '5.9999999999'))).toEqual(['0.0000000001'])
    for (const session of sessions) expectOver(await spend(session, ada, '0.0000000002'), '0.0000000001')
    expect(leftAfter(await spend(three, ada, '0.0000000001'))).toEqual(['0'])
    for (const session of sessions) expectOver(await spend(session, ada, '0.0000000001'), '0')
    const later = await newSession(service, tenant, ada, { policy: everything(amply(ada)) })
    expectOver(await spend(later, ada, '1'), '0')
    expect((await budgetsOf(tenant, ada)).budgets).toEqual([
      {
        ...budget(ada, '10'),
        window: 'lifetime',
        recipient: null,
        templateId: null,
        setBy: 'server',
        spent: '10',
        remaining: '0',
        resetsAt: null,
      },
    ])
  })

  test('beside a cap: both hold, and a refusal by one counts in none', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
    const capped = await newSession(service, tenant, ada, { policy: everything([budget(ada, '3')]) })
    expectError(await spend(capped, ada, '4'), 403, 'spend_limit_exceeded')
    expect(await leftIn(tenant, ada)).toEqual(['10'])
    expectStatus(await spend(session, ada, '9'), 200)
    expectOver(await spend(capped, ada, '2'), '1')
    const { spend: caps } = expectStatus(await tenant.get(`/delegated-sessions/${capped.id}`), 200).remaining
    expect(caps[0].remaining).toBe('3')
    expectStatus(await spend(capped, ada, '1'), 200)
  })

  test('counts from when it is set, and keeps its count when its amount changes', async () => {
    const { tenant, ada, session } = await budgeted(service, () => [])
    expectStatus(await spend(session, ada, '5'), 200)
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '10')]), 200)
    expect(leftAfter(await spend(session, ada, '7'))).toEqual(['3'])
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '5')]), 200)
    expectOver(await spend(session, ada, '0.1'), '0')
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '8')]), 200)
    expect(leftAfter(await spend(session, ada, '1'))).toEqual(['0'])
    expectStatus(await putBudgets(service, tenant, ada, []), 200)
    expectStatus(await spend(session, ada, '50'), 200)
    expectStatus(await putBudgets(service, tenant, ada, [budget(ada, '1')]), 200)
    expect(await leftIn(tenant, ada)).toEqual(['1'])
  })

  test("is its asset's, and leaves other assets alone", async () => {
    const { tenant, ada } = await budgeted(service, (ada) => [budget(ada, '1')])
    const policy = everything([unlimited(ada.issuer), unlimited(ada.issuer, 'EURX')])
    const session = await newSession(service, tenant, ada, { policy })
    const euros = await ada.receive('500', 'EURX')
    expectStatus(await session.execute({ commands: [transfer(euros)] }), 200)
    expectOver(await spend(session, ada, '2'), '1')
  })

  test('over 24 hours, 30 days and a day in UTC opens again, and says when', async () => {
    moveTo('08:00:00.000')
    const windows = ['rolling_24h', 'rolling_30d', 'day_utc']
    const { tenant, ada, session } = await budgeted(service, (ada) =>
      windows.map((window, n) => budget(ada, String((n + 1) * 10), { window })),
    )
    const at = (ms: number) => new Date(start + ms).toISOString()
    const start = service.deps.now().getTime() - (service.deps.now().getTime() % HOUR_MS)
    expect(leftAfter(await spend(session, ada, '10'))).toEqual(['0', '10', '20'])
    const { budgets } = await budgetsOf(tenant, ada)
    expect(budgets.map(({ resetsAt }: { resetsAt: string }) => resetsAt)).toEqual([
      at(24 * HOUR_MS + 15 * 60_000),
      at(-2 * HOUR_MS + 30 * DAY_MS + 6 * HOUR_MS),
      at(16 * HOUR_MS),
    ])
    const refused = await spend(session, ada, '1')
    expectOver(refused, '0')
    expect(refused.body.details[0].resetsAt).toBe(at(24 * HOUR_MS + 15 * 60_000))
    service.advance(24 * HOUR_MS)
    expectOver(await spend(session, ada, '1'), '0')
    service.advance(16 * 60_000)
    expect(leftAfter(await spend(session, ada, '10'))).toEqual(['0', '0', '20'])
    service.advance(25 * HOUR_MS)
    expectOver(await spend(session, ada, '1'), '0', 'budgets[1]')
    service.advance(28 * DAY_MS + 4 * HOUR_MS)
    const fresh = await newSession(service, tenant, ada, { policy: everything(amply(ada)) })
    expectOver(await spend(fresh, ada, '11'), '10')
    expect(leftAfter(await spend(fresh, ada, '10'))).toEqual(['0', '0', '20'])
  })

  test('of a day begins anew at midnight UTC, and is not opened again by a clock that goes back', async () => {
    moveTo('23:59:00.000')
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10', { window: 'day_utc' })])
    expectStatus(await spend(session, ada, '10'), 200)
    expectOver(await spend(session, ada, '1'), '0')
    service.advance(60_000)
    expect(await leftIn(tenant, ada)).toEqual(['10'])
    expectStatus(await spend(session, ada, '10'), 200)
    service.advance(-60_000)
    expectOver(await spend(session, ada, '1'), '0')
    service.advance(60_000)
    expectOver(await spend(session, ada, '1'), '0')
  })

  test('of a recipient counts what that party receives or is offered', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10', { recipient: BOB })])
    expect(leftAfter(await spend(session, ada, '400', CAROL))).toEqual(['10'])
    const [a, b] = [await ada.receive('50'), await ada.receive('50')]
    expectOver(await session.execute({ commands: [transfer(a, '6'), transfer(b, '5')] }), '10')
    expect(leftAfter(await session.execute({ commands: [transfer(a, '6'), transfer(b, '40', CAROL)] }))).toEqual(['4'])
    const offer = (holding: string, receiver: string) => exercise(HOLDING, holding, 'Offer', { receiver })
    expectOver(await session.execute({ commands: [offer(await ada.receive('5'), BOB)] }), '4')
    expect(leftAfter(await session.execute({ commands: [offer(await ada.receive('5'), CAROL)] }))).toEqual(['4'])
    expect(leftAfter(await session.execute({ commands: [offer(await ada.receive('4'), BOB)] }))).toEqual(['0'])
    expect(await leftIn(tenant, ada)).toEqual(['0'])
  })

  test('of who issues the asset counts what is offered to them, and no offer to others, which they sign', async () => {
    const { ada, session } = await budgeted(service, (ada) => [budget(ada, '10', { recipient: ada.issuer })])
    const offer = async (amount: string, receiver: string) => ({
      commands: [exercise(HOLDING, await ada.receive(amount), 'Offer', { receiver })],
    })
    expect(leftAfter(await session.execute(await offer('11', CAROL)))).toEqual(['10'])
    expectOver(await session.execute(await offer('11', ada.issuer)), '10')
    expect(leftAfter(await session.execute(await offer('4', ada.issuer)))).toEqual(['6'])
    const [one, other] = [await offer('7', ada.issuer), await offer('1', CAROL)]
    expectOver(await session.execute({ commands: [...one.commands, ...other.commands] }), '6')
  })

  test('of a template counts what commands on its contracts cost', async () => {
    const { ada, session } = await budgeted(service, (ada) => [
      budget(ada, '10', { templateId: HOLDING }),
      budget(ada, '0', { templateId: 'Note:Note' }),
    ])
    expect(leftAfter(await spend(session, ada, '7'))).toEqual(['3', '0'])
    expectOver(await spend(session, ada, '4'), '3')
    expectStatus(await session.execute({ commands: [create('Note:Note', { author: ada.party, text: 'x' })] }), 200)
  })
})

describe('what a transaction takes of a budget', () => {
  test('is nothing for splits, merges and transfers to itself', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '0.5')])
    const holding = await ada.receive('100')
    const split = await session.execute({ commands: [exercise(HOLDING, holding, 'Split', { amount: '40' })] })
    const made = expectStatus(split, 200).effects.filter(({ type }: { type: string }) => type === 'created')
    const merge = exercise(HOLDING, made[0].contractId, 'Merge', { contractIds: [made[1].contractId] })
    const merged = expectStatus(await session.execute({ commands: [merge] }), 200)
    const whole = merged.effects.at(-1).contractId
    expect(leftAfter(await session.execute({ commands: [transfer(whole, '60', ada.party)] }))).toEqual(['0.5'])
    expect(await leftIn(tenant, ada)).toEqual(['0.5'])
  })

  test('is due when an offer is made; what is withdrawn restores nothing', async () => {
    const { ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
    const offer = exercise(HOLDING, await ada.receive('6'), 'Offer', { receiver: BOB })
    const made = await session.execute({ commands: [offer] })
    expect(leftAfter(made)).toEqual(['4'])
    const withdraw = exercise(OFFER, made.body.data.effects.at(-1).contractId, 'Withdraw')
    expect(leftAfter(await session.execute({ commands: [withdraw] }))).toEqual(['4'])
    expectOver(await spend(session, ada, '5'), '4')
  })

  test('is counted once for a command id, however often it is repeated', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
    const body = { commandId: 'once', commands: [transfer(await ada.receive('10'))] }
    const first = await session.execute(body)
    expectStatus(first, 200)
    expect((await session.execute(body)).text).toBe(first.text)
    expect(await leftIn(tenant, ada)).toEqual(['0'])
  })

  test('is told by a dry run, which counts nothing, and by the session to its delegate', async () => {
    const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
    const holding = await ada.receive('100')
    const dry = (amount: string) => session.execute({ commands: [transfer(holding, amount)], dryRun: true })
    expect(leftAfter(await dry('10'))).toEqual(['0'])
    const over = expectStatus(await dry('11'), 200)
    expect(over.decision).toMatchObject({ allowed: false, code: 'budget_exceeded', rule: 'budgets[0]', command: null })
    expect(over.remaining.budgets[0].remaining).toBe('10')
    const headers = { authorization: `Bearer ${session.token}` }
    const me = expectStatus(await call(service.url, 'GET', '/agent/api/delegated-sessions/me', { headers }), 200)
    expect(me.remaining.budgets).toEqual((await budgetsOf(tenant, ada)).budgets)
  })
})

describe("an app's budgets", () => {
  test('hold for each of its wallets, beside the own ones: the smaller decides', async () => {
    const tenant = await service.newTenant()
    const [ada, bob] = [await newHolder(tenant), await newHolder(tenant)]
    const app = `/apps/${tenant.appId}`
    expect(expectStatus(await tenant.get(app), 200).budgets).toEqual([])
    const set = (amount: string) => tenant.patch(app, { budgets: [budget(ada, amount)] })
    expect(expectStatus(await set('10'), 200).budgets).toEqual([
      { ...budget(ada, '10'), window: 'lifetime', recipient: null, templateId: null },
    ])
    for (const holder of [ada, bob]) {
      const sessions = [1, 2].map(() => newSession(service, tenant, holder, { policy: everything(amply(holder)) }))
      const [one, two] = await Promise.all(sessions)
      expectStatus(await spend(one as never, holder, '6'), 200)
      expectOver(await spend(two as never, holder, '5'), '4', 'appBudgets[0]')
    }
    const session = await newSession(service, tenant, ada, { policy: everything(amply(ada)) })
    expectStatus(
      await putBudgets(service, tenant, ada, [budget(ada, '7'), budget(ada, '2', { window: 'day_utc' })]),
      200,
    )
    // The same is limited twice, and counted once: what was spent since the app's budget counts for both.
    expectOver(await spend(session, ada, '2'), '1')
    expectStatus(await spend(session, ada, '1'), 200)
    expect(await budgetsOf(tenant, ada)).toMatchObject({
      budgets: [{ spent: '7', remaining: '0' }, { spent: '1' }],
      appBudgets: [{ amount: '10', setBy: 'app', spent: '7', remaining: '3' }],
    })
    expectStatus(await set('6'), 200)
    expectStatus(await putBudgets(service, tenant, ada, []), 200)
    expectOver(await spend(session, ada, '0.1'), '0', 'appBudgets[0]')
    expectStatus(await tenant.patch(app, { budgets: [] }), 200)
    expectStatus(await spend(session, ada, '20'), 200)
  })
})

test('what exceeds a budget is told once a minute for each session, and is kept with the refused attempts', async () => {
  const { tenant, ada, session } = await budgeted(service, (ada) => [budget(ada, '10')])
  const [updated] = await eventsOf(service, tenant, 'budget.updated')
  const told = { ...budget(ada, '10'), window: 'lifetime', recipient: null, templateId: null }
  expect(updated).toMatchObject({ walletId: ada.walletId, userId: ada.userId, by: 'server', budgets: [told] })
  expectOver(await spend(session, ada, '11'), '10')
  expectOver(await spend(session, ada, '12'), '10')
  const exceeded = await eventsOf(service, tenant, 'budget.exceeded')
  expect(exceeded).toHaveLength(1)
  expect(exceeded[0]).toMatchObject({ walletId: ada.walletId, budget: 'budgets[0]', asked: '11', remaining: '10' })
  service.advance(61_000)
  expectOver(await spend(session, ada, '11'), '10')
  expect(await eventsOf(service, tenant, 'budget.exceeded')).toHaveLength(2)
  const { body } = await tenant.get(`/delegated-sessions/${session.id}/denials`)
  expect(body.data[0]).toMatchObject({ code: 'budget_exceeded', rule: 'budgets[0]', asked: '11', window: 'lifetime' })
})

test('fifty sessions at once spend to the budget and not a unit above it', async () => {
  const { tenant, ada, sessions } = await budgeted(service, (ada) => [budget(ada, '30.5')], 50)
  const calls = sessions.flatMap((session) => [session, session])
  const holdings = await Promise.all(calls.map(() => ada.receive('1')))
  const answers = await Promise.all(
    calls.map((session, n) => session.execute({ commands: [transfer(holdings[n] as string)] })),
  )
  expect(statusCounts(answers)).toEqual({ 200: 30, '403 budget_exceeded': 70 })
  expect(await leftIn(tenant, ada)).toEqual(['0.5'])
  const told = answers.filter(({ status }) => status === 200).map((answer) => leftAfter(answer)[0])
  expect(new Set(told).size).toBe(30)
})
