import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import {
  BOB,
  create,
  everything,
  exercise,
  expectStatus,
  type Holder,
  holdingsOf,
  newHolder,
  newSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const HOLDING = 'Token:Holding'
const OFFER = 'Token:TransferOffer'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const cap = (holder: Holder, amount: string, window?: string, symbol = 'USDX') => ({
  asset: { issuer: holder.issuer, symbol },
  amount,
  ...(window === undefined ? {} : { window }),
})

async function capped(amount: string, window?: string) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const body = { policy: everything([cap(ada, amount, window)]), expiresInSeconds: 30 * 86_400 }
  return { tenant, ada, session: await newSession(service, tenant, ada, body) }
}

const remainingOf = (done: { remaining: { spend: { remaining: string }[] } }) => done.remaining.spend[0]?.remaining
const left = async (tenant: Tenant, session: Session) =>
  remainingOf(expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200))

/** Transfers a new holding of this much. */
async function spend(session: Session, holder: Holder, amount: string, symbol?: string): Promise<Answer> {
  return session.execute({ commands: [transfer(await holder.receive(amount, symbol))] })
}

function expectExceeded(answer: Answer, remaining: string, rule = 'spend[0]'): void {
  expectError(answer, 403, 'spend_limit_exceeded')
  expect(answer.body.details[0]).toMatchObject({ rule, remaining })
}

/** The clock at this time of a day after today. */
function moveTo(utc: string): void {
  const now = service.deps.now().getTime()
  const midnight = now - (now % DAY_MS) + 2 * DAY_MS
  service.advance(midnight + Date.parse(`1970-01-01T${utc}Z`) - now)
}

describe('a cap', () => {
  test('for life is spent to the last unit, and time gives nothing back', async () => {
    const { tenant, ada, session } = await capped('10')
    expect(remainingOf(expectStatus(await spend(session, ada, '9.9999999999'), 200))).toBe('0.0000000001')
    expectExceeded(await spend(session, ada, '0.0000000002'), '0.0000000001')
    expect(remainingOf(expectStatus(await spend(session, ada, '0.0000000001'), 200))).toBe('0')
    service.advance(20 * DAY_MS)
    expectExceeded(await spend(session, ada, '0.0000000001'), '0')
    expect(await left(tenant, session)).toBe('0')
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('active')
  })

  test('of 0 lets nothing go, and what costs nothing still happens', async () => {
    const { ada, session } = await capped('0')
    expectExceeded(await spend(session, ada, '0.0000000001'), '0')
    expectStatus(await session.execute({ commands: [create('Note:Note', { author: ada.party, text: 'x' })] }), 200)
  })

  test('holds amounts beyond what a double can tell apart', async () => {
    const { ada, session } = await capped('9007199254740993.0000000001')
    expect(remainingOf(expectStatus(await spend(session, ada, '9007199254740992'), 200))).toBe('1.0000000001')
    expectExceeded(await spend(session, ada, '1.0000000002'), '1.0000000001')
    expectStatus(await spend(session, ada, '1.0000000001'), 200)
  })

  test('over 24 hours frees what was spent more than 24 hours ago, and never before', async () => {
    moveTo('08:00:00.000')
    const { tenant, ada, session } = await capped('10', 'rolling_24h')
    expectStatus(await spend(session, ada, '6'), 200)
    service.advance(12 * HOUR_MS)
    expectStatus(await spend(session, ada, '4'), 200)
    expectExceeded(await spend(session, ada, '1'), '0')
    service.advance(12 * HOUR_MS - 60_000)
    expectExceeded(await spend(session, ada, '1'), '0')
    service.advance(20 * 60_000)
    expect(await left(tenant, session)).toBe('6')
    expectExceeded(await spend(session, ada, '6.1'), '6')
    expectStatus(await spend(session, ada, '6'), 200)
    service.advance(12 * HOUR_MS)
    expect(await left(tenant, session)).toBe('4')
  })

  test('a day begins anew at midnight UTC, not a minute before', async () => {
    moveTo('23:55:00.000')
    const { tenant, ada, session } = await capped('10', 'day_utc')
    expectStatus(await spend(session, ada, '10'), 200)
    moveTo('23:59:00.000')
    service.advance(-2 * DAY_MS)
    expectExceeded(await spend(session, ada, '1'), '0')
    service.advance(60_000)
    expect(await left(tenant, session)).toBe('10')
    expectStatus(await spend(session, ada, '10'), 200)
    expectExceeded(await spend(session, ada, '0.1'), '0')
  })

  test('is not opened again by a clock that goes back over midnight', async () => {
    moveTo('00:01:00.000')
    const { ada, session } = await capped('10', 'day_utc')
    expectStatus(await spend(session, ada, '10'), 200)
    service.advance(-120_000)
    expectExceeded(await spend(session, ada, '1'), '0')
    service.advance(120_000)
    expectExceeded(await spend(session, ada, '1'), '0')
  })

  test('holds beside others on the same asset: the tightest decides, and a refusal counts in none', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const entries = [cap(ada, '20'), cap(ada, '10', 'day_utc')]
    const body = { policy: everything(entries), expiresInSeconds: 7 * 86_400 }
    const session = await newSession(service, tenant, ada, body)
    expectExceeded(await spend(session, ada, '11'), '10', 'spend[1]')
    expectStatus(await spend(session, ada, '10'), 200)
    expectExceeded(await spend(session, ada, '1'), '0', 'spend[1]')
    service.advance(DAY_MS)
    expectStatus(await spend(session, ada, '10'), 200)
    service.advance(DAY_MS)
    expectExceeded(await spend(session, ada, '1'), '0', 'spend[0]')
  })

  test("is its asset's: the same symbol of another issuer, and another symbol of the same, are denied unless named", async () => {
    const tenant = await service.newTenant()
    const [ada, bank] = [await newHolder(tenant), await newHolder(tenant)]
    const issuing = await newSession(service, tenant, bank, { policy: everything([unlimited(bank.party)]) })
    const asset = { issuer: bank.party, owner: ada.party, symbol: 'USDX', amount: '5' }
    const { effects } = expectStatus(await issuing.execute({ commands: [create(HOLDING, asset)] }), 200)
    const session = await newSession(service, tenant, ada, {
      policy: everything([cap(ada, '10'), unlimited(ada.issuer, 'EURX')]),
    })
    const denied = await session.execute({ commands: [transfer(effects[0].contractId)] })
    expectError(denied, 403, 'policy_denied')
    expect(denied.body.details[0].rule).toBe('spend')
    for (const symbol of ['usdx', 'USDX2', 'GBPX'])
      expectError(await spend(session, ada, '1', symbol), 403, 'policy_denied')
    for (const amount of ['1', '1000000', '9'.repeat(28)]) expectStatus(await spend(session, ada, amount, 'EURX'), 200)
    expect(remainingOf(expectStatus(await spend(session, ada, '1'), 200))).toBe('9')
  })
})

describe('what a transaction costs', () => {
  test('is nothing for what stays with the wallet: splits, merges, transfers to itself', async () => {
    const { ada, session } = await capped('0.5')
    const holding = await ada.receive('100')
    const split = expectStatus(
      await session.execute({ commands: [exercise(HOLDING, holding, 'Split', { amount: '40' })] }),
      200,
    )
    const [a, b] = split.effects.filter((one: { type: string }) => one.type === 'created')
    const merge = exercise(HOLDING, a.contractId, 'Merge', { contractIds: [b.contractId] })
    const merged = expectStatus(await session.execute({ commands: [merge] }), 200)
    const whole = merged.effects.at(-1).contractId
    const done = expectStatus(await session.execute({ commands: [transfer(whole, '60', ada.party)] }), 200)
    expect(remainingOf(done)).toBe('0.5')
    expect((await holdingsOf(session)).map(({ amount }) => amount).sort()).toEqual(['40', '60'])
  })

  test('is the sum over its commands, which are refused together', async () => {
    const { tenant, ada, session } = await capped('10')
    const ids = [await ada.receive('6'), await ada.receive('5')] as const
    expectExceeded(await session.execute({ commands: ids.map((id) => transfer(id)) }), '10')
    expect(await left(tenant, session)).toBe('10')
    expectStatus(await session.execute({ commands: [transfer(ids[0]), transfer(ids[1], '4')] }), 200)
    expect(await left(tenant, session)).toBe('0')
  })

  test('is due when an offer is made; what is withdrawn or rejected restores nothing', async () => {
    const { tenant, ada, session } = await capped('10')
    const bob = await newHolder(tenant)
    const his = await newSession(service, tenant, bob, { policy: everything() })
    const offer = async (amount: string) => {
      const given = { receiver: bob.party }
      const made = await session.execute({ commands: [exercise(HOLDING, await ada.receive(amount), 'Offer', given)] })
      return expectStatus(made, 200).effects.find((one: { type: string }) => one.type === 'created')
        .contractId as string
    }
    const first = await offer('6')
    expect(await left(tenant, session)).toBe('4')
    expectStatus(await session.execute({ commands: [exercise(OFFER, first, 'Withdraw')] }), 200)
    expect(await left(tenant, session)).toBe('4')
    const second = await offer('4')
    expectStatus(await his.execute({ commands: [exercise(OFFER, second, 'Reject')] }), 200)
    expect(await left(tenant, session)).toBe('0')
    expectExceeded(await spend(session, ada, '1'), '0')
    // To accept costs nothing: the receiver's session has no cap at all.
    const giving = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
    const given = { receiver: bob.party }
    const third = expectStatus(
      await giving.execute({ commands: [exercise(HOLDING, await ada.receive('3'), 'Offer', given)] }),
      200,
    )
    expectStatus(await his.execute({ commands: [exercise(OFFER, third.effects.at(-1).contractId, 'Accept')] }), 200)
    expect((await holdingsOf(his)).map(({ amount }) => amount)).toEqual(['3'])
  })

  test('is not paid for by an offer that is withdrawn beside it', async () => {
    const { tenant, ada, session } = await capped('10')
    const free = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
    const offers = exercise(HOLDING, await ada.receive('1000'), 'Offer', { receiver: BOB })
    const made = expectStatus(await free.execute({ commands: [offers] }), 200)
    const withdraw = exercise(OFFER, made.effects.at(-1).contractId, 'Withdraw')
    const holding = await ada.receive('1000')
    expectExceeded(await session.execute({ commands: [withdraw, transfer(holding)] }), '10')
    expectExceeded(await session.execute({ commands: [transfer(holding), withdraw] }), '10')
    expectStatus(await session.execute({ commands: [withdraw, transfer(holding, '4')] }), 200)
    expect(await left(tenant, session)).toBe('6')
  })

  test('is what goes out, whatever comes in from others beside it', async () => {
    const { tenant, ada, session } = await capped('10')
    const bob = await newHolder(tenant)
    const his = await newSession(service, tenant, bob, { policy: everything([unlimited(ada.issuer)]) })
    const offers = exercise(HOLDING, await bob.receive('50'), 'Offer', { receiver: ada.party })
    const made = expectStatus(await his.execute({ commands: [offers] }), 200)
    const accept = exercise(OFFER, made.effects.at(-1).contractId, 'Accept')
    const holding = await ada.receive('100')
    expectExceeded(await session.execute({ commands: [accept, transfer(holding, '11')] }), '10')
    expect(remainingOf(expectStatus(await session.execute({ commands: [accept, transfer(holding, '7')] }), 200))).toBe(
      '3',
    )
  })

  test('counts what the wallet issues, to others and to itself', async () => {
    const tenant = await service.newTenant()
    const bank = await newHolder(tenant)
    const bob = await newHolder(tenant)
    const entry = { asset: { issuer: bank.party, symbol: 'BANK' }, amount: '10' }
    const session = await newSession(service, tenant, bank, { policy: everything([entry]) })
    const issue = (owner: string, amount: string) =>
      session.execute({ commands: [create(HOLDING, { issuer: bank.party, owner, symbol: 'BANK', amount })] })
    expect(remainingOf(expectStatus(await issue(bob.party, '4'), 200))).toBe('6')
    expect(remainingOf(expectStatus(await issue(bank.party, '5'), 200))).toBe('1')
    expectExceeded(await issue(bank.party, '1.5'), '1')
    const unnamed = create(HOLDING, { issuer: bank.party, owner: bank.party, symbol: 'OTHER', amount: '1' })
    expectError(await session.execute({ commands: [unnamed] }), 403, 'policy_denied')
  })
})

describe('a hundred executes at once spend to the cap and not above it', () => {
  test.each(['lifetime', 'rolling_24h', 'day_utc'])('with the window %s', async (window) => {
    // Far from the window's edge.
    moveTo('12:00:30.000')
    const { tenant, ada, session } = await capped('10.5', window)
    const holdings = await Promise.all(Array.from({ length: 100 }, () => ada.receive('1')))
    const answers = await Promise.all(holdings.map((id) => session.execute({ commands: [transfer(id)] })))
    expect(statusCounts(answers)).toEqual({ 200: 10, '403 spend_limit_exceeded': 90 })
    expect(await left(tenant, session)).toBe('0.5')
    expect(await holdingsOf(session)).toHaveLength(90)
    const told = answers.filter(({ status }) => status === 200).map((answer) => remainingOf(answer.body.data))
    expect(told.sort()).toEqual(['0.5', '1.5', '2.5', '3.5', '4.5', '5.5', '6.5', '7.5', '8.5', '9.5'])
  })
})

test("one session's spending is none of another's on the same wallet", async () => {
  const { tenant, ada, session } = await capped('10')
  const other = await newSession(service, tenant, ada, { policy: everything([cap(ada, '10')]) })
  expectStatus(await spend(session, ada, '10'), 200)
  expectStatus(await spend(other, ada, '10'), 200)
  for (const one of [session, other]) expectExceeded(await spend(one, ada, '1'), '0')
})
