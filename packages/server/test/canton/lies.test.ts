import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { LfCreate, Model } from '../../../keys/test/canton/model.ts'
import type { PartyToParticipantModel } from '../../../keys/test/canton/topology-model.ts'
import { expectStatus, newSession } from '../../src/delegation/delegated.fixture.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { expectError } from '../harness/envelope.ts'
import type { Tenant } from '../harness/harness.ts'
import { BOB, type CantonService, coins, newCantonHolder, newScene, pay, startCanton } from './canton.fixture.ts'
import { COIN, MEMO, RELAY } from './daml.ts'
import { addBelow, EVE, madeBy, NEW_ID, nodeOf, rootOf, set } from './forged.ts'

let service: CantonService
let tenant: Tenant
beforeAll(async () => {
  service = await startCanton()
  tenant = await service.newTenant()
})
afterEach(() => service.participant.heal())
afterAll(() => service.stop())

const LIES: [what: string, lie: (model: Model) => unknown, status: number][] = [
  ['for another party', ({ metadata }) => (metadata.submitter_info.act_as = [EVE]), 409],
  ['for another party too', ({ metadata }) => metadata.submitter_info.act_as.push(EVE), 409],
  ['exercised by another party', (model) => (rootOf(model).acting_parties = [EVE]), 409],
  ['another receiver', (model) => set(rootOf(model).chosen_value, 'receiver', { party: EVE }), 403],
  ['a greater amount', (model) => set(rootOf(model).chosen_value, 'amount', { numeric: '4.0000000000' }), 403],
  ['another choice', (model) => (rootOf(model).choice_id = 'Burn'), 403],
  ['another contract', (model) => (rootOf(model).contract_id = `00${'ab'.repeat(32)}`), 409],
  ['the code of another package', (model) => (rootOf(model).template_id.package_id = 'dd'.repeat(32)), 403],
  [
    'a choice of an interface',
    (model) => (rootOf(model).interface_id = { package_id: 'ee'.repeat(32), module_name: 'A', entity_name: 'B' }),
    403,
  ],
  ['a holding without an amount', (model) => set(madeBy(model).argument, 'amount', { text: 'all' }), 409],
  ['another command id', ({ metadata }) => (metadata.submitter_info.command_id = 'other'), 409],
  [
    'a later end',
    ({ metadata }) => (metadata.max_record_time = String(BigInt(metadata.max_record_time as string) + 1n)),
    403,
  ],
  ['no end', ({ metadata }) => delete metadata.max_record_time, 409],
  ['another synchronizer', ({ metadata }) => (metadata.synchronizer_id = `other::1220${'5c'.repeat(32)}`), 409],
  [
    'a further root',
    ({ transaction }) => {
      transaction.nodes.push({
        node_id: '9',
        v1: { create: { ...madeBy({ transaction } as Model), contract_id: NEW_ID } },
      })
      transaction.node_seeds.push({ node_id: 9, seed: '77'.repeat(32) })
      transaction.roots.push('9')
    },
    403,
  ],
  [
    'a contract of a template that no rule names',
    (model) => {
      const create = { ...madeBy(model), contract_id: NEW_ID }
      create.template_id = { ...create.template_id, entity_name: 'Debt' }
      addBelow(model, { create })
    },
    403,
  ],
  [
    'a choice that no rule allows',
    (model) => addBelow(model, { exercise: { ...structuredClone(rootOf(model)), choice_id: 'Burn', children: [] } }),
    403,
  ],
  ['a contract that is made twice', (model) => addBelow(model, { create: madeBy(model) }), 409],
  ['a part that is undone', (model) => addBelow(model, { rollback: { children: [] } }), 409],
]

test.each(LIES)('a prepared transaction with %s is neither signed nor sent', async (_, lie, status) => {
  const { coin, session, spent, paid } = await newScene(service, tenant)
  service.participant.lie = lie
  const answer = await session.execute({ commandId: 'a', commands: [pay(coin, '3')] })
  expectError(answer, status, status === 403 ? 'policy_denied' : 'transaction_failed')
  expect(service.participant.asked.filter(({ path }) => path.endsWith('/execute'))).toEqual([])
  expect([await spent(), paid()]).toEqual(['0', 0])
})

test('a rest that would go to somebody else counts as spent: the cap refuses it', async () => {
  const { coin, session, spent } = await newScene(service, tenant)
  service.participant.lie = ({ transaction }) => {
    const { create } = nodeOf<{ create: LfCreate }>(transaction, 2)
    set(create.argument, 'owner', { party: EVE })
  }
  expectError(await session.execute({ commands: [pay(coin, '3')] }), 403, 'spend_limit_exceeded')
  expect(await spent()).toBe('0')
})

test('a coin that is there twice, once as worth less, is refused', async () => {
  const { coin, session } = await newScene(service, tenant)
  service.participant.lie = ({ metadata }) => {
    const [input] = metadata.input_contracts
    const cheap = structuredClone(input as NonNullable<typeof input>)
    set(cheap.v1.argument, 'amount', { numeric: '0.0000000000' })
    metadata.input_contracts.push(cheap)
  }
  expectError(await session.execute({ commands: [pay(coin, '6')] }), 409, 'transaction_failed')
})

test('values that a prepared contract has for fields that nobody gave are refused', async () => {
  const { ada, session } = await newScene(service, tenant)
  const command = { create: { templateId: MEMO, arguments: { author: ada.party, text: 'a', tags: [] } } }
  service.participant.lie = ({ transaction }) => {
    const { create } = nodeOf<{ create: LfCreate }>(transaction, 0)
    set(create.argument, 'detail', { optional: { value: { text: 'more' } } })
  }
  expectError(await session.execute({ commands: [command] }), 409, 'transaction_failed')
  service.participant.lie = null
  expect(expectStatus(await session.execute({ commands: [command] }), 200).effects[0].arguments.detail).toBeNull()
})

test('a hash that does not fit the bytes, and another version of it, are refused', async () => {
  const { coin, session } = await newScene(service, tenant)
  service.participant.lieAboutHash = Buffer.alloc(32, 7)
  expectError(await session.execute({ commands: [pay(coin, '3')] }), 409, 'transaction_failed')
  service.participant.lieAboutHash = null
  service.participant.next['/v2/interactive-submission/prepare'] = [
    {
      status: 200,
      body: {
        preparedTransaction: 'AAAA',
        preparedTransactionHash: 'AAAA',
        hashingSchemeVersion: 'HASHING_SCHEME_VERSION_V2',
      },
    },
  ]
  expectError(await session.execute({ commands: [pay(coin, '3')] }), 409, 'transaction_failed')
})

test('a choice that exercises others is allowed only if the policy allows each of them', async () => {
  const ada = await newCantonHolder(service, tenant)
  const [coin, relay] = [ada.receive('10'), service.participant.mint(RELAY, { owner: ada.party })]
  const command = {
    exercise: {
      templateId: RELAY,
      contractId: relay,
      choice: 'Run',
      arguments: { coin, receiver: BOB, amount: '3' },
    },
  }
  const run = { templateId: RELAY, choices: ['Run'] }
  const sessionWith = (allow: object[], deny: object[] = []) =>
    newSession(service, tenant, ada, { policy: { ...coins('5'), allow, deny } })
  const transfer = { templateId: COIN, choices: ['Transfer'] }
  const toBob = { ...transfer, where: [{ path: 'receiver', op: 'eq', value: BOB }] }
  const toEve = { ...transfer, where: [{ path: 'receiver', op: 'eq', value: EVE }] }
  const others = [[run], [run, { templateId: COIN, choices: ['Other'] }], [run, toEve]]
  for (const allow of others)
    expectError(await (await sessionWith(allow)).execute({ commands: [command] }), 403, 'policy_denied')
  const made = { templateId: COIN, actions: ['create'], where: [{ path: 'owner', op: 'eq', value: BOB }] }
  expectError(await (await sessionWith([run, toBob], [made])).execute({ commands: [command] }), 403, 'policy_denied')
  const right = await sessionWith([run, toBob])
  expectStatus(await right.execute({ commands: [command] }), 200)
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${right.id}`), 200)
  expect(remaining.spend[0].spent).toBe('3')
})

test('two commands, numbers, and values nested too deeply are refused before the participant is asked', async () => {
  const { ada, coin, session } = await newScene(service, tenant)
  const asked = service.participant.asked.length
  const memo = (more: object) => ({
    create: { templateId: MEMO, arguments: { author: ada.party, text: 'a', tags: [], ...more } },
  })
  let deep: unknown = 'x'
  for (let level = 0; level < 20; level += 1) deep = { deep }
  const wrong: [object[], string][] = [
    [[pay(coin, '1'), pay(coin, '1')], 'commands'],
    [[memo({ detail: { count: 3 } })], 'commands.0.create.arguments.detail.count'],
    [[memo({ detail: deep })], `commands.0.create.arguments.detail${'.deep'.repeat(16)}`],
    [[memo({ tags: Array(101).fill('a') })], 'commands.0.create.arguments.tags'],
  ]
  for (const [commands, field] of wrong) {
    const answer = await session.execute({ commands })
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field).toBe(field)
  }
  expect(service.participant.asked.length).toBe(asked)
})

describe.each(['3.4', '3.5'] as const)('the topology of a new party, by release %s', (release) => {
  const lies: [string, (hosting: PartyToParticipantModel) => unknown][] = [
    ['a second host', ({ participants }) => participants.push({ participant_uid: EVE, permission: 2 })],
    ['another host', (hosting) => (hosting.participants = [{ participant_uid: EVE, permission: 2 }])],
    ['a host that may submit for it', (hosting) => (hosting.participants[0] = { participant_uid: EVE, permission: 1 })],
    ['another party', (hosting) => (hosting.party = hosting.party.replace('usr', 'usx'))],
    ['another threshold', (hosting) => (hosting.threshold = 2)],
  ]
  test.each(lies)('with %s is not signed', async (_, lie) => {
    Object.assign(service.participant, { release, lieAboutTopology: lie })
    const userId = expectStatus(await tenant.post('/users', {}), 201).id as string
    const asUser = { headers: { 'x-user-id': userId } }
    expectStatus(await tenant.post('/users/me/wallet', { ledger: 'canton' }, asUser), 201)
    const asked = service.participant.asked.filter(({ path }) => path.endsWith('/allocate')).length
    await onboardWallets(service.deps)
    expect(expectStatus(await tenant.get('/users/me/wallet', asUser), 200).status).toBe('failed')
    expect(service.participant.asked.filter(({ path }) => path.endsWith('/allocate'))).toHaveLength(asked)
  })

  test('is signed if it says what was asked for', async () => {
    Object.assign(service.participant, { release, lieAboutTopology: null })
    const { party } = await newCantonHolder(service, tenant)
    expect(service.participant.parties.has(party)).toBe(true)
  })
})
