import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../src/delegation/delegated.fixture.ts'
import { eventsOf } from '../../src/identity/sessions/sessions.fixture.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { expectError } from '../harness/envelope.ts'
import type { Tenant } from '../harness/harness.ts'
import { BOB, type CantonService, newCantonHolder, newScene, pay, type Scene, startCanton } from './canton.fixture.ts'
import { COIN } from './daml.ts'
import type { Fault } from './participant.ts'
import { USER_ID } from './sequenced.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const [PREPARE, EXECUTE] = ['/v2/interactive-submission/prepare', '/v2/interactive-submission/execute']
const [COMPLETIONS, ALLOCATE] = ['/v2/commands/completions', '/v2/parties/external/allocate']

let service: CantonService
let tenant: Tenant
beforeAll(async () => {
  // An outcome that is held back, and a request that nobody answers, are waited for no longer than that.
  service = await startCanton({ timeoutMs: 3_000, outcomeMs: 300 })
  tenant = await service.newTenant()
})
afterEach(() => {
  service.participant.heal()
  for (const step of Object.keys(service.steps)) delete service.steps[step]
})
afterAll(() => service.stop())

const payment = ({ coin }: Scene, commandId = 'a') => ({ commandId, commands: [pay(coin, '3')] })
const sent = ({ ada }: Scene) =>
  service.participant.asked.filter(({ path, body }) => path === EXECUTE && JSON.stringify(body).includes(ada.party))
    .length

/** Lets a worker look again and again, as time passes. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10 * SECOND_MS) {
    service.advance(10 * SECOND_MS)
    await service.reconcile()
  }
}

const statusOf = async (transactionId: string) =>
  expectStatus(await tenant.get(`/transactions/${transactionId}`), 200).status

/** That a payment happened exactly once, on both sides. */
async function expectPaid(scene: Scene, transactionId: string): Promise<void> {
  expect(await statusOf(transactionId)).toBe('completed')
  expect([scene.paid(), await scene.spent()]).toEqual([3, '3'])
  const completed = await eventsOf(service, tenant, 'tx.completed')
  expect(completed.filter((each) => each.transactionId === transactionId)).toHaveLength(1)
}

test.each<[string, Fault]>([
  ['its question was lost', 'lose_before'],
  ['its answer was lost', 'lose_after'],
  ['nobody answered', 'hang'],
  ['the participant was busy', { status: 503, body: 'busy' }],
  ['the answer was no JSON', { status: 200, body: '<html>' }],
])('a submission of which %s is found or sent again, and pays once', async (_, fault) => {
  const scene = await newScene(service, tenant)
  service.participant.next[EXECUTE] = [fault]
  const { transactionId, status } = expectStatus(await scene.session.execute(payment(scene)), 200)
  expect(status).toBe('submitted')
  expect(await scene.spent()).toBe('3')
  await pass(20 * SECOND_MS)
  await expectPaid(scene, transactionId)
})

test('a completion that comes late completes the payment then; until then the cap holds it', async () => {
  const scene = await newScene(service, tenant)
  service.participant.isHeld = true
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  await pass(30 * SECOND_MS)
  expect([await statusOf(transactionId), await scene.spent(), scene.paid()]).toEqual(['submitted', '3', 0])
  expectError(
    await scene.session.execute({ commandId: 'b', commands: [pay(scene.ada.receive('9'), '3')] }),
    403,
    'spend_limit_exceeded',
  )
  service.participant.sequence()
  await pass(MINUTE_MS)
  expect(await statusOf(transactionId)).toBe('completed')
  expect(await scene.spent()).toBe('3')
})

test('what was lost for good is released once the participant has seen the end of its time, and not before', async () => {
  const scene = await newScene(service, tenant)
  service.participant.isHeld = true
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  // The participant answers, and has not heard from its synchronizer since.
  await pass(3 * MINUTE_MS)
  expect([await statusOf(transactionId), await scene.spent()]).toEqual(['submitted', '3'])
  service.participant.loseHeld()
  service.participant.isHeld = false
  await pass(2 * MINUTE_MS)
  expect([await statusOf(transactionId), await scene.spent(), scene.paid()]).toEqual(['failed', '0', 0])
})

test('a participant that never tells the time holds a reservation for ten minutes more, and no longer', async () => {
  const scene = await newScene(service, tenant)
  Object.assign(service.participant, { isHeld: true, tellsTime: false })
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  await pass(9 * MINUTE_MS)
  expect(await scene.spent()).toBe('3')
  await pass(5 * MINUTE_MS)
  expect([await statusOf(transactionId), await scene.spent()]).toEqual(['failed', '0'])
})

test('contention passes: the same signed transaction is sent again', async () => {
  const scene = await newScene(service, tenant)
  service.participant.locked = 2
  const { transactionId, status } = expectStatus(await scene.session.execute(payment(scene)), 200)
  expect(status).toBe('submitted')
  await pass(MINUTE_MS / 2)
  await expectPaid(scene, transactionId)
  expect(sent(scene)).toBe(3)
})

test.each(['signed', 'submitted', 'settled'])(
  'a call that ends after the step "%s" is continued, and pays once',
  async (step) => {
    const scene = await newScene(service, tenant)
    service.steps[step] = async () => {
      delete service.steps[step]
      throw new Error('the process died')
    }
    expect((await scene.session.execute(payment(scene))).status).toBe(500)
    await pass(MINUTE_MS / 2)
    const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
    await pass(20 * SECOND_MS)
    await expectPaid(scene, transactionId)
  },
)

test('a repeat that the participant takes for one is looked up, for as long as its completion takes', async () => {
  const scene = await newScene(service, tenant)
  service.participant.always[COMPLETIONS] = { status: 503, body: 'busy' }
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  expect(scene.paid()).toBe(3)
  service.participant.next[EXECUTE] = ['lose_before', 'lose_before']
  service.participant.always = {}
  await pass(20 * SECOND_MS)
  await expectPaid(scene, transactionId)
})

test('a participant that refuses to tell the outcome releases nothing', async () => {
  const scene = await newScene(service, tenant)
  const body = { code: 'INVALID_ARGUMENT', cause: 'no', context: {}, errorCategory: 8, definiteAnswer: true }
  service.participant.always[COMPLETIONS] = { status: 400, body }
  const { transactionId, status } = expectStatus(await scene.session.execute(payment(scene)), 200)
  expect([status, await scene.spent(), scene.paid()]).toEqual(['submitted', '3', 3])
  await pass(20 * SECOND_MS)
  expect([await statusOf(transactionId), await scene.spent()]).toEqual(['submitted', '3'])
  service.participant.always = {}
  await pass(MINUTE_MS / 2)
  await expectPaid(scene, transactionId)
})

test('a participant that was restored gives offsets anew: the completion is found all the same', async () => {
  const scene = await newScene(service, tenant)
  for (let n = 0; n < 5; n += 1) scene.ada.receive('1')
  service.participant.next[EXECUTE] = ['lose_after']
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  service.participant.restore()
  await pass(20 * SECOND_MS)
  expect(await statusOf(transactionId)).toBe('completed')
  expect(await scene.spent()).toBe('3')
})

test('a completion that has another offset since a restoration is found before anything is released', async () => {
  const scene = await newScene(service, tenant)
  service.participant.next[EXECUTE] = ['lose_after']
  for (let n = 0; n < 5; n += 1) scene.ada.receive('1')
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  service.participant.restore()
  // The ledger has grown again, past the offset at which the payment was prepared.
  for (let n = 0; n < 200; n += 1)
    service.participant.mint(COIN, { issuer: BOB, owner: BOB, symbol: 'CC', amount: '1' })
  await pass(10 * SECOND_MS)
  expect([await statusOf(transactionId), await scene.spent()]).toEqual(['submitted', '3'])
  await pass(3 * MINUTE_MS)
  expect([await statusOf(transactionId), await scene.spent()]).toEqual(['completed', '3'])
})

test('completions are read in smaller pages from a participant that refuses large ones', async () => {
  const scene = await newScene(service, tenant)
  service.participant.completionsMax = 3
  service.participant.next[EXECUTE] = ['lose_after']
  service.steps.signed = async () => {
    for (let n = 0; n < 10; n += 1)
      service.participant.complete({ party: scene.ada.party, commandId: `other-${n}`, submissionId: '', why: null })
  }
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  await pass(20 * SECOND_MS)
  await expectPaid(scene, transactionId)
})

test('completions of other users, commands and parties say nothing about a payment', async () => {
  const scene = await newScene(service, tenant)
  service.participant.isHeld = true
  service.steps.signed = async () => {
    const { commandId } = { commandId: 'hk-other' }
    service.participant.complete({ party: scene.ada.party, commandId, submissionId: USER_ID, why: null })
  }
  const { transactionId, status } = expectStatus(await scene.session.execute(payment(scene)), 200)
  expect(status).toBe('submitted')
  service.participant.sequence()
  await pass(20 * SECOND_MS)
  expect(await statusOf(transactionId)).toBe('completed')
})

test('a participant that is down refuses nothing for good: the same call pays later', async () => {
  const scene = await newScene(service, tenant)
  service.participant.next[PREPARE] = ['lose_before']
  expectError(await scene.session.execute(payment(scene)), 500, 'ledger_unavailable')
  const { transactionId } = expectStatus(await scene.session.execute(payment(scene)), 200)
  await pass(20 * SECOND_MS)
  await expectPaid(scene, transactionId)
})

test.each<[string, Fault]>([
  ['lost', 'lose_before'],
  ['answered by nobody', 'lose_after'],
  ['refused for now', { status: 503, body: 'busy' }],
])('an allocation that is %s is repeated, and the wallet is ready once', async (_, fault) => {
  service.participant.next[ALLOCATE] = [fault]
  const userId = expectStatus(await tenant.post('/users', {}), 201).id as string
  const asUser = { headers: { 'x-user-id': userId } }
  expectStatus(await tenant.post('/users/me/wallet', { ledger: 'canton' }, asUser), 201)
  await onboardWallets(service.deps)
  service.advance(10 * SECOND_MS)
  await onboardWallets(service.deps)
  expect(expectStatus(await tenant.get('/users/me/wallet', asUser), 200).status).toBe('ready')
  const ready = await eventsOf(service, tenant, 'wallet.ready')
  expect(ready.filter((each) => each.userId === userId)).toHaveLength(1)
})

test('a party that was allocated before its wallet was told is not allocated twice', async () => {
  service.steps['wallet onboarded'] = async () => {
    delete service.steps['wallet onboarded']
    throw new Error('the process died')
  }
  const userId = expectStatus(await tenant.post('/users', {}), 201).id as string
  const asUser = { headers: { 'x-user-id': userId } }
  expectStatus(await tenant.post('/users/me/wallet', { ledger: 'canton' }, asUser), 201)
  await onboardWallets(service.deps).catch(() => undefined)
  service.advance(5 * MINUTE_MS)
  await onboardWallets(service.deps)
  expect(expectStatus(await tenant.get('/users/me/wallet', asUser), 200).status).toBe('ready')
  const party = expectStatus(await tenant.get(`/users/${userId}`), 200).partyId
  const allocated = service.participant.asked.filter(
    ({ path, body }) => path === '/v2/parties/external/generate-topology' && party.startsWith(body.partyHint as string),
  )
  expect(allocated).toHaveLength(1)
})

test('fifty payments at once from ten coins pay each coin once, and never beyond the cap', async () => {
  const scene = await newScene(service, tenant, '20')
  const all = [scene.coin, ...Array.from({ length: 9 }, () => scene.ada.receive('10'))]
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      scene.session.execute({ commandId: `many-${n}`, commands: [pay(all[n % 10] as string, '3')] }),
    ),
  )
  await pass(3 * MINUTE_MS)
  const completed = answers.filter(({ status, body }) => status === 200 && body.data.status === 'completed').length
  expect(completed).toBeLessThanOrEqual(6)
  const paid = Number(await scene.spent())
  expect(paid).toBeLessThanOrEqual(20)
  expect(100 - 10 + scene.paid()).toBe(paid)
})

test('a second user of the same installation gets a party in the same namespace', async () => {
  const [one, two] = [await newCantonHolder(service, tenant), await newCantonHolder(service, tenant)]
  expect(one.party.split('::')[1]).toBe(two.party.split('::')[1])
})
