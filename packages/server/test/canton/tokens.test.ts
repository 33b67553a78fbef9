// Tokens of the token standard: an agent transfers them within a cap, with what their registry says and nothing else.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { executeOnCanton } from '../../../keys/src/canton/index.ts'
import type { LfExercise, Model } from '../../../keys/test/canton/model.ts'
import { expectStatus, newSession } from '../../src/delegation/delegated.fixture.ts'
import { expectError } from '../harness/envelope.ts'
import { call, type Tenant } from '../harness/harness.ts'
import {
  BOB,
  type CantonHolder,
  type CantonService,
  coins,
  ISSUER,
  newCantonHolder,
  pay,
  startCanton,
} from './canton.fixture.ts'
import { COIN } from './daml.ts'
import { nodeOf } from './forged.ts'
import { newShared, ready, refusal } from './owner.fixture.ts'
import { FACTORY, INSTRUCTION, OFFER, SimulatedRegistry, TOKEN } from './tokens.ts'

const FORBIDDEN = `other::1220${'0f'.repeat(32)}`

let service: CantonService
let tenant: Tenant
let registry: SimulatedRegistry
beforeAll(async () => {
  service = await startCanton(async (participant) => {
    registry = await new SimulatedRegistry(participant).start()
    return {
      assets: [
        { templateId: TOKEN, issuer: 'instrument.admin', owner: 'owner', symbol: 'instrument.id', amount: 'amount' },
        // What is offered belongs to nobody.
        { templateId: OFFER, issuer: 'instrument.admin', symbol: 'instrument.id', amount: 'amount' },
        // All contracts of a template may be of one asset, whatever they say.
        { templateId: COIN, issuer: 'issuer', owner: 'owner', symbol: { is: 'AMULET' }, amount: 'amount' },
      ],
      tokens: {
        transferFactory: FACTORY,
        transferInstruction: INSTRUCTION,
        registries: [
          // Where no service may reach: the guard refuses it.
          { admin: FORBIDDEN, url: 'https://169.254.169.254' },
          { admin: registry.admin, url: registry.url },
        ],
      },
    }
  })
  tenant = await service.newTenant()
})
afterEach(() => {
  service.participant.heal()
  Object.assign(registry, { lie: null, next: [], asked: [] })
})
afterAll(async () => {
  await service.stop()
  await registry.stop()
})

const STEPS = ['TransferInstruction_Accept', 'TransferInstruction_Reject', 'TransferInstruction_Withdraw']
const policy = (cap: string) => ({
  allow: [
    { templateId: FACTORY, actions: ['exercise'], choices: ['TransferFactory_Transfer'] },
    { templateId: INSTRUCTION, actions: ['exercise'], choices: STEPS },
    { templateId: TOKEN, actions: ['exercise'], choices: ['Archive'] },
    { templateId: OFFER, actions: ['create'] },
  ],
  spend: [{ asset: { issuer: registry.admin, symbol: 'GOLD' }, amount: cap }],
})

async function newHolder(cap = '5') {
  const holder = await newCantonHolder(service, tenant)
  const session = await newSession(service, tenant, holder, { policy: policy(cap), expiresInSeconds: 86_400 })
  const spent = async () =>
    expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200).remaining.spend[0].spent as string
  return { holder, session, spent }
}

const transferOf = (sender: string, receiver: string, amount: string, holding: string, admin = registry.admin) => ({
  exercise: {
    templateId: FACTORY,
    contractId: registry.factory,
    choice: 'TransferFactory_Transfer',
    arguments: {
      expectedAdmin: admin,
      transfer: {
        sender,
        receiver,
        amount,
        instrumentId: { admin, id: 'GOLD' },
        requestedAt: '2026-11-23T00:00:00.000000Z',
        executeBefore: '2027-11-23T00:00:00.000000Z',
        inputHoldingCids: [holding],
        meta: { values: {} },
      },
    },
  },
})
const step = (contractId: string, choice: string) => ({
  exercise: { templateId: INSTRUCTION, contractId, choice: `TransferInstruction_${choice}`, arguments: {} },
})
const amounts = ({ party }: Pick<CantonHolder, 'party'>) =>
  service.participant
    .active(TOKEN, { owner: party })
    .map(({ fields }) => Number(fields.amount))
    .sort()
const offers = ({ party: sender }: CantonHolder) =>
  service.participant.active(OFFER, { sender }).map(({ contractId }) => contractId)

test('to somebody who takes them unasked, tokens go in one step, up to the cap of the instrument and not beyond', async () => {
  const [ada, bob] = [await newHolder(), await newHolder()]
  registry.preapprove(bob.holder.party)
  const holding = registry.mint(ada.holder.party, '10')
  const command = transferOf(ada.holder.party, bob.holder.party, '3', holding)
  const done = expectStatus(await ada.session.execute({ commandId: 'a', commands: [command] }), 200)
  expect(done.status).toBe('completed')
  expect([amounts(ada.holder), amounts(bob.holder), await ada.spent()]).toEqual([[7], [3], '3'])
  // The contract that shows the receiver's consent was not theirs to see: the registry gave it along.
  expect(registry.asked).toMatchObject([{ path: '/registry/transfer-instruction/v1/transfer-factory' }])
  const [rest] = service.participant.active(TOKEN, { owner: ada.holder.party })
  const beyond = transferOf(ada.holder.party, bob.holder.party, '3', rest?.contractId as string)
  expectError(await ada.session.execute({ commands: [beyond] }), 403, 'spend_limit_exceeded')
  // The same id is the same transfer.
  expect(expectStatus(await ada.session.execute({ commandId: 'a', commands: [command] }), 200).updateId).toBe(
    done.updateId,
  )
  expect(amounts(bob.holder)).toEqual([3])
})

test('to others they are offered: spent at once, accepted by the receiver, or rejected or withdrawn', async () => {
  const [ada, bob] = [await newHolder('9'), await newHolder()]
  const offer = async () => {
    const holding = registry.mint(ada.holder.party, '3')
    const command = transferOf(ada.holder.party, bob.holder.party, '3', holding)
    expectStatus(await ada.session.execute({ commands: [command] }), 200)
    return offers(ada.holder)[0] as string
  }
  const accepted = await offer()
  expect([amounts(ada.holder), amounts(bob.holder), await ada.spent()]).toEqual([[], [], '3'])
  // Only the receiver can.
  expectError(await ada.session.execute({ commands: [step(accepted, 'Accept')] }), 403, 'authorization_missing')
  expectStatus(await bob.session.execute({ commands: [step(accepted, 'Accept')] }), 200)
  // To receive is no payment.
  expect([amounts(bob.holder), await bob.spent()]).toEqual([[3], '0'])
  expectStatus(await bob.session.execute({ commands: [step(await offer(), 'Reject')] }), 200)
  expect(amounts(ada.holder)).toEqual([3])
  expectStatus(await ada.session.execute({ commands: [step(await offer(), 'Withdraw')] }), 200)
  expect(amounts(ada.holder)).toEqual([3, 3])
  // What comes back does not raise what may be spent: an offer was a payment.
  expect([offers(ada.holder), await ada.spent()]).toEqual([[], '9'])
})

test('a policy that does not name what a transfer causes allows no transfer', async () => {
  const ada = await newCantonHolder(service, tenant)
  const command = transferOf(ada.party, FORBIDDEN, '1', registry.mint(ada.party, '3'))
  const { allow, ...rest } = policy('5')
  for (const missing of [TOKEN, OFFER]) {
    const narrow = { ...rest, allow: allow.filter(({ templateId }) => templateId !== missing) }
    const session = await newSession(service, tenant, ada, { policy: narrow })
    expectError(await session.execute({ commands: [command] }), 403, 'policy_denied')
  }
  const other = { ...rest, allow, spend: [{ asset: { issuer: registry.admin, symbol: 'SILVER' }, amount: '5' }] }
  const session = await newSession(service, tenant, ada, { policy: other })
  expectError(await session.execute({ commands: [command] }), 403, 'policy_denied')
})

test('a registry that fails, lies or is not to be reached moves nothing and reserves nothing', async () => {
  const ada = await newHolder()
  const { party } = ada.holder
  const command = transferOf(party, FORBIDDEN, '1', registry.mint(party, '3'))
  const run = () => ada.session.execute({ commands: [command] })
  const wrong = { choiceContextData: { values: {} }, disclosedContracts: [] }
  const answers: [number, unknown, number][] = [
    [500, {}, 500],
    [404, {}, 500],
    [429, {}, 500],
    [200, 'text', 500],
    [200, { factoryId: registry.factory }, 500],
    [400, { error: 'no' }, 400],
    [200, { factoryId: `00${'ab'.repeat(32)}`, transferKind: 'offer', choiceContext: wrong }, 404],
    // Longer than any contract's id: it would be the text of an error.
    [200, { factoryId: 'ab'.repeat(128), transferKind: 'offer', choiceContext: wrong }, 500],
  ]
  for (const [status, body, expected] of answers) {
    registry.next = [{ status, body }]
    const answer = await run()
    expect([status, answer.status], answer.text).toEqual([status, expected])
    expect(answer.text).not.toContain('ab'.repeat(128))
  }
  registry.lie = ({ disclosedContracts }) => {
    for (const each of disclosedContracts) Object.assign(each, { synchronizerId: FORBIDDEN })
  }
  expectError(await run(), 409, 'transaction_failed')
  // Without what the party does not see, the participant finds no factory.
  registry.lie = ({ disclosedContracts }) => disclosedContracts.splice(0)
  expectError(await run(), 404, 'contract_not_found')
  registry.lie = null
  registry.asked = []
  // Its address is one that the guard lets nobody reach.
  const hidden = transferOf(party, FORBIDDEN, '1', registry.mint(party, '3'), FORBIDDEN)
  expectError(await ada.session.execute({ commands: [hidden] }), 500, 'ledger_unavailable')
  const unknown = transferOf(party, FORBIDDEN, '1', registry.mint(party, '3'), `no::1220${'00'.repeat(32)}`)
  expect((await ada.session.execute({ commands: [unknown] })).status).toBe(400)
  expect([registry.asked, await ada.spent(), amounts(ada.holder)]).toEqual([[], '0', [3, 3, 3]])
})

test('a participant that changes the registry’s context is refused', async () => {
  const ada = await newHolder()
  const command = transferOf(ada.holder.party, FORBIDDEN, '1', registry.mint(ada.holder.party, '3'))
  service.participant.lie = ({ transaction }: Model) => {
    const { exercise } = nodeOf<{ exercise: LfExercise }>(transaction, 0)
    const text = JSON.stringify(exercise.chosen_value)
    const other = '"entries":[{"key":"x","value":{"variant":{"constructor":"AV_Text","value":{"text":"y"}}}}]'
    // The second empty map is the context's: the first is that of the transfer's metadata.
    let met = 0
    exercise.chosen_value = JSON.parse(text.replaceAll('"entries":[]', (same) => (++met === 2 ? other : same)))
    expect(JSON.stringify(exercise.chosen_value)).toContain('AV_Text')
  }
  expectError(await ada.session.execute({ commands: [command] }), 409, 'transaction_failed')
  expect(await ada.spent()).toBe('0')
})

describe('an offer whose template the settings do not name', () => {
  const start = async () => {
    const own: SimulatedRegistry[] = []
    const other = await startCanton(async (participant) => {
      const its = await new SimulatedRegistry(participant).start()
      own.push(its)
      const assets = [
        { templateId: TOKEN, issuer: 'instrument.admin', owner: 'owner', symbol: 'instrument.id', amount: 'amount' },
      ]
      const registries = [{ admin: its.admin, url: its.url }]
      return { assets, tokens: { transferFactory: FACTORY, transferInstruction: INSTRUCTION, registries } }
    })
    const its = own[0] as SimulatedRegistry
    const there = await other.newTenant()
    const ada = await newCantonHolder(other, there)
    const offer = (amount: string, to: string) => {
      const { exercise } = transferOf(ada.party, to, amount, its.mint(ada.party, '5'), its.admin)
      return { commands: [{ exercise: { ...exercise, contractId: its.factory } }] }
    }
    const session = (more: object) =>
      newSession(other, there, ada, {
        policy: { ...policy('50'), spend: [{ asset: gold(its), amount: '50' }], ...more },
        expiresInSeconds: 86_400,
      })
    const stop = () => Promise.all([other.stop(), its.stop()])
    return { other, there, ada, its, offer, session, stop }
  }
  const gold = ({ admin }: SimulatedRegistry) => ({ issuer: admin, symbol: 'GOLD' })

  test('counts for the budget of its receiver, and goes to nobody whom the address book does not have', async () => {
    const { other, there, ada, its, offer, session, stop } = await start()
    try {
      const limit = { asset: gold(its), amount: '3', window: 'lifetime', recipient: BOB }
      const plain = await session({})
      const path = `/v1/wallets/${ada.walletId}/budgets`
      expectStatus(await call(other.url, 'PUT', path, { key: there.key, body: { budgets: [limit] } }), 200)
      expectStatus(await plain.execute(offer('2', BOB)), 200)
      expectError(await plain.execute(offer('2', BOB)), 403, 'budget_exceeded')
      // What goes to others, and what comes back of a holding, does not count.
      expectStatus(await plain.execute(offer('4', FORBIDDEN)), 200)
      expectStatus(await plain.execute(offer('1', BOB)), 200)
      // Who issues the tokens signs each offer, and is its receiver where nobody else is. It is none of an offer to others.
      const toIssuer = { ...limit, recipient: its.admin }
      expectStatus(await call(other.url, 'PUT', path, { key: there.key, body: { budgets: [limit, toIssuer] } }), 200)
      expectError(await plain.execute(offer('4', its.admin)), 403, 'budget_exceeded')
      expectStatus(await plain.execute(offer('4', FORBIDDEN)), 200)
      const known = await session({ conditions: [{ recipients: 'address_book' }] })
      for (const stranger of [its.admin, FORBIDDEN]) {
        const denied = await known.execute(offer('1', stranger))
        expectError(denied, 403, 'policy_denied')
        expect(denied.body.details[0]).toMatchObject({ rule: 'conditions[0]', recipient: stranger })
      }
    } finally {
      await stop()
    }
  })
})

test('the settings can name the asset of a template that has no field for it', async () => {
  const ada = await newCantonHolder(service, tenant)
  const coin = ada.receive('10')
  const capped = (symbol: string) => coins('5', { spend: [{ asset: { issuer: ISSUER, symbol }, amount: '5' }] })
  const byField = await newSession(service, tenant, ada, { policy: capped('CC') })
  expectError(await byField.execute({ commands: [pay(coin, '3')] }), 403, 'policy_denied')
  const session = await newSession(service, tenant, ada, { policy: capped('AMULET') })
  expectError(await session.execute({ commands: [pay(coin, '6', BOB)] }), 403, 'spend_limit_exceeded')
  expectStatus(await session.execute({ commands: [pay(coin, '3')] }), 200)
})

test('a shared key signs a transfer, where its caller lets the service fill in the context', async () => {
  const owner = await ready(await newShared({ service, tenant }))
  const { id: sessionId, token } = await owner.mine.delegatedSessions.create({ policy: policy('5') as never })
  const run = (also: object) =>
    executeOnCanton(owner.delegateOf(token), {
      sessionId,
      key: owner.key,
      commands: [transferOf(owner.party, FORBIDDEN, '1', registry.mint(owner.party, '3'))] as never[],
      also: { templates: [OFFER], choices: [{ templateId: TOKEN, choice: 'Archive' }], ...also },
    })
  expect(await refusal(run({}))).toMatchObject({ code: 'not_asked' })
  expect(await run({ filled: ['extraArgs'] })).toMatchObject({ status: 'completed' })
})
