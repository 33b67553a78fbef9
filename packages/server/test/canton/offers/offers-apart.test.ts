// Offers that cannot be read, or of which the participant does not say how they ended, keep nothing else waiting.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { expectError } from '../../harness/envelope.ts'
import { answered, type OffersScene, OTHER, STRANGER, startOffers } from './offers.fixture.ts'

const MINUTE = 60_000
const BY_ID = '/v2/updates/update-by-id'

let scene: OffersScene
beforeAll(async () => {
  scene = await startOffers()
})
afterEach(() => {
  scene.service.participant.heal()
  scene.service.steps['tokens read'] = undefined
})
afterAll(() => scene.stop())

const accept = (contract: string) => {
  scene.service.participant.happen([contract], [], [answered(contract, 'Accept', 'Completed')])
}

test('a stranger with more offers than can be read makes the offers unavailable, and never the holdings', async () => {
  const { follow, newHolder, offered, offersOf, registry, service, sums, amounts, tenant } = scene
  const [ada, bob] = [await newHolder(), await newHolder()]
  registry.mint(ada.party, '5')
  offered(STRANGER, bob.party, '7')
  const dust = Array.from({ length: 250 }, () => registry.offer(STRANGER, ada.party, '0.1'))
  const made = service.participant.happen([], dust)
  await follow()
  await service.sql('update token_cursors set generation = generation + 1')
  await follow()
  const path = `/wallets/${ada.walletId}/transfer-offers`
  expectError(await tenant.get(path), 409, 'offers_unavailable')
  expect((await offersOf(bob)).map(({ amount }) => amount)).toEqual(['7'])
  registry.mint(ada.party, '2')
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '7' }, ['5', '2']])
  expect(expectStatus(await tenant.get(`/wallets/${ada.walletId}/holdings`), 200).state).toBe('current')
  service.participant.happen(made, [])
  offered(STRANGER, ada.party, '9')
  await follow()
  service.advance(2 * MINUTE)
  await follow()
  expect((await offersOf(ada, '?status=open')).map(({ amount }) => amount)).toEqual(['9'])
})

test('of a wallet with more offers than are kept, those of who sent the most are dropped, and counted', async () => {
  const { follow, newHolder, offered, registry, service, told } = scene
  const ada = await newHolder()
  const [genuine, over] = [offered(OTHER, ada.party, '7'), offered(OTHER, ada.party, '8')]
  await follow()
  accept(over)
  await follow()
  const metric = service.deps.metrics.registry.getSingleMetric('halfkey_token_offers_dropped_total')
  const dropped = async () => (await metric?.get())?.values[0]?.value ?? 0
  const before = await dropped()
  service.participant.happen(
    [],
    Array.from({ length: 1_001 }, (_, at) => registry.offer(STRANGER, ada.party, String(at + 1))),
  )
  await follow()
  const kept = await service.sql<{ contract_id: string; sender: string }>(
    'select contract_id, sender from token_offers where wallet_id = $1',
    [ada.walletId],
  )
  expect([kept.length, await dropped()]).toEqual([1_000, before + 3])
  expect(kept.filter(({ sender }) => sender === OTHER).map((row) => row.contract_id)).toEqual([genuine])
  accept(genuine)
  await follow()
  expect((await told(ada)).outcomes).toEqual(['accepted', 'accepted'])
})

test('the end of an offer that another process came to know meanwhile is asked for, too', async () => {
  const { follow, newHolder, offered, offersOf, service, told } = scene
  const ada = await newHolder()
  const dueAt = (ms: number) =>
    service.sql("update token_views set generation = 0, due_at = $2 where wallet_id = $1 and kind = 'offers'", [
      ada.walletId,
      new Date(service.deps.now().getTime() + ms),
    ])
  await dueAt(60 * MINUTE)
  const contract = offered(STRANGER, ada.party, '1')
  await follow()
  expect(await offersOf(ada)).toEqual([])
  accept(contract)
  let steps = 0
  service.steps['tokens read'] = async () => {
    steps += 1
    if (steps === 3) throw new Error('it died here')
    if (steps > 1) return
    // Another process reads the wallet as it was before, and no further.
    await dueAt(0)
    await expect(follow()).rejects.toThrow('it died here')
  }
  await follow()
  expect((await told(ada)).outcomes).toEqual(['accepted'])
})

test('an update that the participant always refuses to tell ends its offers after three tries', async () => {
  const { follow, newHolder, offered, service, told, registry, sums } = scene
  const ada = await newHolder()
  const [one, two] = [offered(STRANGER, ada.party, '1'), offered(STRANGER, ada.party, '2')]
  await follow()
  accept(one)
  service.participant.always = { [BY_ID]: { status: 500, body: 'no' } }
  registry.mint(ada.party, '3')
  for (const _ of [1, 2]) await expect(follow()).rejects.toThrow()
  expect((await told(ada)).outcomes).toEqual([])
  await follow()
  expect([(await told(ada)).outcomes, await sums(ada)]).toEqual([['ended'], { GOLD: '3' }])
  // An outage is not one of the tries.
  accept(two)
  service.participant.always = { [BY_ID]: 'lose_before' }
  for (const _ of [1, 2, 3, 4]) await expect(follow()).rejects.toThrow()
  service.participant.heal()
  await follow()
  expect((await told(ada)).outcomes).toEqual(['ended', 'accepted'])
})

test('where the participant is slow to say how offers ended, those that it said are told before the next ones', async () => {
  const { follow, newHolder, offered, service, told } = scene
  const ada = await newHolder()
  const contracts = ['1', '2', '3'].map((amount) => offered(STRANGER, ada.party, amount))
  await follow()
  for (const contract of contracts) accept(contract)
  service.participant.onAsked = (path) => {
    if (path === BY_ID) service.advance(6_000)
  }
  const seen: number[] = []
  service.steps['tokens read'] = async () => void seen.push((await told(ada)).outcomes.length)
  await follow()
  expect(seen.slice(0, 3)).toEqual([0, 1, 2])
  expect((await told(ada)).outcomes).toEqual(['accepted', 'accepted', 'accepted'])
})
