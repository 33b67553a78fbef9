import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus, newSession } from '../../src/delegation/delegated.fixture.ts'
import { eventsOf, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { expectError } from '../harness/envelope.ts'
import { call, type Tenant } from '../harness/harness.ts'
import {
  BOB,
  type CantonHolder,
  type CantonService,
  coins,
  coinsOf,
  ISSUER,
  newCantonHolder,
  newScene,
  pay,
  startCanton,
} from './canton.fixture.ts'
import { COIN, ESCROW, MEMO, RECEIPT } from './daml.ts'

let service: CantonService
let tenant: Tenant
beforeAll(async () => {
  service = await startCanton()
  tenant = await service.newTenant()
})
afterEach(() => service.participant.heal())
afterAll(() => service.stop())

test('a user’s party is allocated, and an agent pays within its cap and is refused beyond it', async () => {
  const { ada, coin, session, spent } = await newScene(service, tenant)
  const { partyId } = expectStatus(await tenant.get(`/users/${ada.userId}`), 200)
  expect(partyId).toBe(ada.party)
  expect([...service.participant.parties.keys()]).toContain(ada.party)
  const done = expectStatus(await session.execute({ commandId: 'a', commands: [pay(coin, '3')] }), 200)
  expect(done).toMatchObject({ status: 'completed', updateId: expect.stringMatching(/^1220/) })
  expect(done.effects.map(({ type }: { type: string }) => type)).toEqual([
    'exercised',
    'archived',
    'created',
    'created',
  ])
  expect(coinsOf(service, BOB)).toContain('3')
  expect(await spent()).toBe('3')
  const [rest] = service.participant.active(COIN, { owner: ada.party })
  expectError(
    await session.execute({ commandId: 'b', commands: [pay(rest?.contractId as string, '3')] }),
    403,
    'spend_limit_exceeded',
  )
  expect(service.participant.outcomes().accepted).toBe(1)
  // The same command id is the same payment.
  expect(expectStatus(await session.execute({ commandId: 'a', commands: [pay(coin, '3')] }), 200).updateId).toBe(
    done.updateId,
  )
  expect((await eventsOf(service, tenant, 'tx.completed')).map(({ transactionId }) => transactionId)).toEqual([
    done.transactionId,
  ])
})

const KEEPER = `keeper::1220${'4e'.repeat(32)}`
/** What allows to divide coins. */
const DIVIDING = {
  allow: [
    { templateId: COIN, actions: ['exercise'], choices: ['Divide'] },
    { templateId: ESCROW, actions: ['create'] },
    { templateId: RECEIPT, actions: ['create'] },
  ],
}
const divided = (of: CantonHolder, parts: object) => {
  const given = { receiver: BOB, amount: '0', keepers: [], kept: '0', fee: '0', readers: [], ...parts }
  return {
    commands: [{ exercise: { templateId: COIN, contractId: of.receive('10'), choice: 'Divide', arguments: given } }],
  }
}

test('a burned fee is spent and paid to nobody, and what a contract that is not listed takes is paid to whoever sees that one', async () => {
  const { ada, session, spent } = await newScene(service, tenant, '20', DIVIDING)
  const divide = (parts: object) => session.execute(divided(ada, { keepers: [KEEPER], ...parts }))
  const asset = { issuer: ISSUER, symbol: 'CC' }
  const budgets = [BOB, KEEPER].map((recipient) => ({ asset, amount: '3', window: 'lifetime', recipient }))
  const path = `/v1/wallets/${ada.walletId}/budgets`
  expectStatus(await call(service.url, 'PUT', path, { key: tenant.key, body: { budgets } }), 200)
  const counts = async () => {
    const { budgets: found } = expectStatus(await tenant.get(`/wallets/${ada.walletId}/budgets`), 200)
    return [BOB, KEEPER].map((of) => found.find(({ recipient }: { recipient: string }) => recipient === of).spent)
  }
  expectStatus(await divide({ amount: '2', fee: '4' }), 200)
  expect([await spent(), await counts()]).toEqual(['6', ['2', '0']])
  expectStatus(await divide({ amount: '1', kept: '2' }), 200)
  expect([await spent(), await counts()]).toEqual(['9', ['3', '2']])
  expectError(await divide({ kept: '2' }), 403, 'budget_exceeded')
  // Who takes a part and sees the contract, too, may have got both.
  expectError(await divide({ amount: '1', receiver: KEEPER, kept: '1' }), 403, 'budget_exceeded')
  // What nobody else sees is the issuer's, and is for the issuer.
  const toIssuer = { asset, amount: '1', window: 'lifetime', recipient: ISSUER }
  expectStatus(
    await call(service.url, 'PUT', path, { key: tenant.key, body: { budgets: [...budgets, toIssuer] } }),
    200,
  )
  expectError(await divide({ kept: '2', keepers: [ISSUER] }), 403, 'budget_exceeded')
  expectError(await divide({ kept: '2', keepers: [ada.party] }), 403, 'budget_exceeded')
  // Nobody is paid by a fee.
  expectStatus(await divide({ fee: '5' }), 200)
  expect([await spent(), await counts()]).toEqual(['14', ['3', '2']])
})

test('a payment is not hidden by a contract beside it that others see, neither to the issuer nor to anybody else', async () => {
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 0 } }), 200)
  const person = await signInAs(service, tenant)
  const ada = await newCantonHolder(service, tenant, person.userId)
  const policy = coins('100', { ...DIVIDING, conditions: [{ recipients: 'address_book' }] })
  const session = await newSession(service, tenant, ada, { policy })
  const known = async (recipient: string) =>
    expectStatus(await person.post(`/wallets/${ada.walletId}/recipients`, { recipient, label: 'known' }), 201)
  await known(BOB)
  const budgets = [ISSUER, KEEPER].map((recipient) => ({
    asset: { issuer: ISSUER, symbol: 'CC' },
    amount: '1',
    window: 'lifetime',
    recipient,
  }))
  const path = `/v1/wallets/${ada.walletId}/budgets`
  expectStatus(await call(service.url, 'PUT', path, { key: tenant.key, body: { budgets } }), 200)
  expectStatus(await session.execute(divided(ada, { kept: '1', keepers: [BOB, BOB] })), 200)
  for (const recipient of [ISSUER, KEEPER]) {
    for (const beside of [{ keepers: [BOB, recipient] }, { keepers: [recipient, BOB] }]) {
      const refused = await session.execute(divided(ada, { amount: '1', kept: '1', ...beside }))
      expectError(refused, 403, 'policy_denied')
      expect(refused.body.details[0]).toMatchObject({ rule: 'conditions[0]', recipient })
    }
    await known(recipient)
    // What left together may all be theirs.
    const beside = { kept: '1', keepers: [BOB, recipient] }
    expectError(await session.execute(divided(ada, beside)), 403, 'budget_exceeded')
    expectStatus(await session.execute(divided(ada, { ...beside, kept: '0.5' })), 200)
  }
})

test('who takes an offer may be said in a contract beside it, and what leaves may be for whom an offer is', async () => {
  const coin = { templateId: COIN, issuer: 'issuer', owner: 'owner', symbol: 'symbol', amount: 'amount' }
  // What is kept belongs to nobody, and receipts are not listed.
  const kept = { templateId: ESCROW, issuer: 'issuer', symbol: { is: 'CC' }, amount: 'amount' }
  const other = await startCanton({ assets: [coin, kept] })
  try {
    const there = await other.newTenant()
    const { ada, session } = await newScene(other, there, '100', DIVIDING)
    const asset = { issuer: ISSUER, symbol: 'CC' }
    const budgets = [BOB, KEEPER].map((recipient) => ({ asset, amount: '1', window: 'lifetime', recipient }))
    const path = `/v1/wallets/${ada.walletId}/budgets`
    expectStatus(await call(other.url, 'PUT', path, { key: there.key, body: { budgets } }), 200)
    const divide = (parts: object) => session.execute(divided(ada, { keepers: [KEEPER], kept: '0.1', ...parts }))
    // A fee is paid to nobody, as long as nothing that is not listed can hold it.
    expectStatus(await divide({ fee: '2' }), 200)
    const over = async (parts: object, rule: string) => {
      const refused = await divide(parts)
      expectError(refused, 403, 'budget_exceeded')
      expect(refused.body.details[0]).toMatchObject({ rule })
    }
    await over({ keepers: [ISSUER], kept: '2', readers: [BOB] }, 'budgets[0]')
    await over({ fee: '2', readers: [ISSUER] }, 'budgets[1]')
  } finally {
    await other.stop()
  }
})

test('contracts with structured arguments are created as requested, and queried', async () => {
  const { ada, session } = await newScene(service, tenant)
  const detail = { count: '9007199254740993', done: true, next: null }
  const given = { author: ada.party, text: 'hello', tags: ['a', 'b'], detail }
  const done = expectStatus(
    await session.execute({ commands: [{ create: { templateId: MEMO, arguments: given } }] }),
    200,
  )
  expect(done.effects[0].arguments).toEqual(given)
  const { contracts } = expectStatus(await session.query({ templateIds: [MEMO] }), 200)
  expect(contracts).toMatchObject([{ templateId: MEMO, arguments: given, signatories: [ada.party] }])
  const { contracts: coinsSeen } = expectStatus(await session.query({ templateIds: [COIN] }), 200)
  expect(coinsSeen).toMatchObject([{ arguments: { owner: ada.party, issuer: ISSUER } }])
})

test('a payment whose coin somebody else used first fails at once, and is released', async () => {
  const scene = await newScene(service, tenant)
  service.steps.signed = async () => {
    delete service.steps.signed
    service.participant.archive(scene.coin)
  }
  expectError(await scene.session.execute({ commands: [pay(scene.coin, '3')] }), 409, 'contract_archived')
  expect(await scene.spent()).toBe('0')
})

test('refusals of the participant name what is wrong', async () => {
  const scene = await newScene(service, tenant)
  const { session, coin } = scene
  expectError(await session.execute({ commands: [pay(`00${'ab'.repeat(32)}`, '1')] }), 404, 'contract_not_found')
  const wrong = pay(coin, '1')
  Object.assign(wrong.exercise.arguments, { amount: 'much' })
  expectError(await session.execute({ commands: [wrong] }), 400, 'arguments_invalid')
  expectError(await session.execute({ commands: [pay(coin, '11')] }), 409, 'transaction_failed')
})
