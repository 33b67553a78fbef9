// Transfers in two steps: who was offered what, and what became of it, is known from following the participant, and told once.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { FORGED_OFFER, HIDDEN_OFFER, INSTRUCTION, TOKEN } from '../tokens.ts'
import { answered, type OffersScene, OTHER, STRANGER, startOffers } from './offers.fixture.ts'

const MINUTE = 60_000
const REASON = 'splice.lfdecentralizedtrust.org/reason'
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

const micros = (ms: number) => new Date(ms).toISOString().replace('Z', '000Z')

test('a stranger’s offer is listed and told once, with what it says', async () => {
  const { follow, newHolder, offered, offersOf, told, registry, tenant } = scene
  const ada = await newHolder()
  const contractId = offered(STRANGER, ada.party, '5.5', { meta: { values: { [REASON]: '<b>Invoice</b>' } } })
  await follow()
  await follow()
  const [offer, ...others] = await offersOf(ada)
  expect(others).toEqual([])
  expect(offer).toMatchObject({
    id: expect.stringMatching(/^ofr_/),
    walletId: ada.walletId,
    direction: 'incoming',
    status: 'open',
    awaits: 'receiver',
    sender: STRANGER,
    receiver: ada.party,
    instrument: { admin: registry.admin, id: 'GOLD' },
    amount: '5.5',
    meta: { [REASON]: '<b>Invoice</b>' },
    templateId: INSTRUCTION,
    contractId,
    updateId: null,
    endedAt: null,
  })
  expect(expectStatus(await tenant.get(`/wallets/${ada.walletId}/transfer-offers/${offer?.id}`), 200)).toEqual(offer)
  const { offered: events, settled } = await told(ada)
  expect(settled).toEqual([])
  expect(events).toEqual([
    {
      offerId: offer?.id,
      walletId: ada.walletId,
      userId: ada.userId,
      partyId: ada.party,
      ledger: 'canton',
      direction: 'incoming',
      contractId,
      sender: STRANGER,
      receiver: ada.party,
      instrument: { admin: registry.admin, id: 'GOLD' },
      amount: '5.5',
      executeBefore: offer?.executeBefore,
      updateId: expect.stringMatching(/^1220/),
      offset: expect.any(Number),
      recordedAt: expect.any(String),
    },
  ])
})

test('an offer between two wallets is told to both, and its end, too', async () => {
  const { follow, newHolder, offered, offersOf, told, service } = scene
  const [ada, bob] = [await newHolder(), await newHolder()]
  const contract = offered(ada.party, bob.party, '2')
  await follow()
  service.participant.happen([contract], [], [answered(contract, 'Accept', 'Completed')])
  await follow()
  for (const [wallet, direction] of [
    [ada, 'outgoing'],
    [bob, 'incoming'],
  ] as const) {
    const [offer] = await offersOf(wallet, '?status=accepted')
    expect(offer).toMatchObject({ direction, status: 'accepted', updateId: expect.stringMatching(/^1220/) })
    const { offered: made, settled } = await told(wallet)
    expect([made, settled]).toMatchObject([[{ direction }], [{ direction, outcome: 'accepted', offerId: offer?.id }]])
    expect(settled[0]?.updateId).toBe(offer?.updateId)
  }
})

test.each([
  ['Accept', 'Completed', 'accepted'],
  ['Reject', 'Failed', 'rejected'],
  ['Withdraw', 'Failed', 'withdrawn'],
  ['Update', 'Completed', 'accepted'],
  ['Update', 'Failed', 'ended'],
] as const)(
  '%s that is %s ends an offer as %s, also one that was made in the same page of updates',
  async (choice, tag, outcome) => {
    const { follow, newHolder, offered, offersOf, told, service } = scene
    const ada = await newHolder()
    const end = (contract: string) => service.participant.happen([contract], [], [answered(contract, choice, tag)])
    end(offered(STRANGER, ada.party, '1'))
    await follow()
    const before = offered(STRANGER, ada.party, '2')
    await follow()
    end(before)
    await follow()
    expect((await offersOf(ada)).map(({ status }) => status)).toEqual([outcome, outcome])
    expect((await told(ada)).outcomes).toEqual([outcome, outcome])
  },
)

test('what a template does by a choice of its own, whatever its name, is no answer of the standard', async () => {
  const { follow, newHolder, offered, told, service } = scene
  const ada = await newHolder()
  const contract = offered(STRANGER, ada.party, '1')
  await follow()
  service.participant.happen([contract], [], [{ ...answered(contract, 'Accept', 'Completed'), interfaceId: null }])
  await follow()
  expect((await told(ada)).outcomes).toEqual(['ended'])
})

test('a transfer in several steps stays one offer until its last one', async () => {
  const { follow, newHolder, offered, offersOf, told, registry, service } = scene
  const ada = await newHolder()
  const first = offered(STRANGER, ada.party, '3')
  await follow()
  const [before] = await offersOf(ada)
  const next = registry.offer(STRANGER, ada.party, '3', { original: first, awaits: 'TransferPendingInternalWorkflow' })
  const [second] = service.participant.happen([first], [next], [answered(first, 'Accept', 'Pending')])
  await follow()
  expect(await offersOf(ada)).toMatchObject([{ id: before?.id, status: 'open', awaits: 'others', contractId: second }])
  expect(await told(ada)).toMatchObject({ offered: [{}], settled: [] })
  service.participant.happen([second as string], [], [answered(second as string, 'Update', 'Completed')])
  await follow()
  expect([(await told(ada)).offered.length, (await told(ada)).outcomes]).toEqual([1, ['accepted']])
})

test('an offer expires by the ledger’s clock, is told once, and its withdrawal after that, too', async () => {
  const { follow, newHolder, offered, offersOf, told, service } = scene
  const ada = await newHolder()
  const executeBefore = micros(service.deps.now().getTime() + MINUTE)
  const contract = offered(ada.party, STRANGER, '1', { executeBefore })
  await follow()
  service.advance(2 * MINUTE)
  await follow()
  // What was accepted in time may be recorded a little later.
  expect(await offersOf(ada)).toMatchObject([{ status: 'open' }])
  service.advance(2 * MINUTE)
  await follow()
  await follow()
  expect(await offersOf(ada)).toMatchObject([{ status: 'expired' }])
  expect((await told(ada)).outcomes).toEqual(['expired'])
  service.participant.happen([contract], [], [answered(contract, 'Withdraw', 'Failed')])
  await follow()
  expect((await told(ada)).outcomes).toEqual(['expired', 'withdrawn'])
  const again = offered(ada.party, STRANGER, '1', { executeBefore })
  await follow()
  service.participant.happen([again], [])
  await follow()
  // Nobody says how: it stays what it was called.
  expect((await told(ada)).outcomes).toEqual(['expired', 'withdrawn', 'expired'])
  expect((await offersOf(ada)).map(({ status }) => status)).toEqual(['expired', 'withdrawn'])
})

test('what a registry did not sign, nobody named, or its parties do not see is no offer, and stops nobody', async () => {
  const { follow, newHolder, offersOf, told, registry, service } = scene
  const ada = await newHolder()
  const made = (more: object) => registry.offer(STRANGER, ada.party, '1', more)
  const [, fields] = made({})
  const wrong: [string, Record<string, unknown>][] = [
    [FORGED_OFFER, { ...fields, forger: OTHER }],
    [HIDDEN_OFFER, fields as Record<string, unknown>],
    made({ instrument: { admin: OTHER, id: 'GOLD' } }),
    made({ instrument: { admin: registry.admin, id: 'nul\0' } }),
    made({ instrument: { admin: registry.admin, id: 'x'.repeat(1_001) } }),
    made({ executeBefore: '0000-01-01T00:00:00.000000Z' }),
    made({ requestedAt: '0000-12-31T00:00:00.000000Z' }),
  ]
  const text = 'x'.repeat(4_001)
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`k${at}`, 'v']))
  const metas = [{ a: text }, many, { a: 'nul\0' }, { 'half \ud800': 'b' }, { a: '<script>' }]
  service.participant.happen([], [...wrong, ...metas.map((values) => made({ meta: { values } }))])
  await follow()
  expect((await offersOf(ada)).map(({ meta }) => meta)).toEqual([{ a: '<script>' }, null, null, null, null])
  expect((await told(ada)).offered).toHaveLength(5)
})

test('views that lie are passed over', async () => {
  const { follow, newHolder, offered, offersOf, service } = scene
  const ada = await newHolder()
  const lies: [string, string][] = [
    [`"interfaceId":"${INSTRUCTION}"`, '"interfaceId":"another"'],
    ['"viewStatus":{"code":0', '"viewStatus":{"code":13'],
    ['"amount":"7.0000000000"', '"amount":"-7"'],
    ['"amount":"7.0000000000"', '"amount":"1e3"'],
    ['"originalInstructionCid":null', '"originalInstructionCid":"<x>"'],
    ['"status":{"tag":"TransferPendingReceiverAcceptance"', '"status":{"tag":7'],
    [`"sender":"${STRANGER}"`, '"sender":""'],
    ['"transfer":{', '"transfers":{'],
  ]
  for (const [text, lie] of lies) {
    offered(STRANGER, ada.party, '7')
    service.participant.lieAboutUpdates = (updates) => {
      const said = JSON.stringify(updates)
      expect(said).toContain(text)
      return JSON.parse(said.replaceAll(text, lie))
    }
    await follow()
    expect(await offersOf(ada), lie).toEqual([])
  }
})

test('contracts that say that they are the same transfer are one offer, and those with other terms are others', async () => {
  const { follow, newHolder, offersOf, registry, told, service } = scene
  const ada = await newHolder()
  const original = `00${'aa'.repeat(32)}`
  const tin = { original, instrument: { admin: registry.admin, id: `TIN\\ä${'ü'.repeat(990)}` } }
  const same = () => registry.offer(STRANGER, ada.party, '1', { original })
  const others = [
    registry.offer(STRANGER, ada.party, '2', { original }),
    registry.offer(OTHER, ada.party, '1', { original }),
    registry.offer(ada.party, STRANGER, '1', { original }),
    registry.offer(STRANGER, ada.party, '1', tin),
  ]
  const [, last = ''] = service.participant.happen([], [same(), same(), ...others])
  await follow()
  const listed = await offersOf(ada)
  expect(listed.map(({ amount, sender, direction }) => [amount, sender, direction]).sort()).toEqual(
    [
      ['1', STRANGER, 'incoming'],
      ['2', STRANGER, 'incoming'],
      ['1', OTHER, 'incoming'],
      ['1', ada.party, 'outgoing'],
      ['1', STRANGER, 'incoming'],
    ].sort(),
  )
  expect((await told(ada)).offered).toHaveLength(5)
  const first = listed.find(({ contractId }) => contractId === last)
  service.participant.happen([last], [], [answered(last, 'Reject', 'Failed')])
  await follow()
  // Its end is the end of these terms: the same first contract with other ones is a new offer, and says so.
  service.participant.happen([], [registry.offer(STRANGER, ada.party, '900', { original })])
  await follow()
  const [newest, ...before] = await offersOf(ada)
  expect(newest).toMatchObject({ amount: '900', status: 'open' })
  expect(before.find(({ id }) => id === first?.id)).toEqual({
    ...(first as object),
    status: 'rejected',
    updateId: expect.any(String),
    endedAt: expect.any(String),
  })
  expect((await told(ada)).offered).toHaveLength(6)
})

test('after pruning all is read again: what came is told, and what is gone has ended, nobody knows how', async () => {
  const { follow, newHolder, offered, offersOf, told, service } = scene
  const ada = await newHolder()
  const first = offered(STRANGER, ada.party, '1')
  await follow()
  service.participant.happen([first], [], [answered(first, 'Accept', 'Completed')])
  offered(STRANGER, ada.party, '2')
  service.participant.prunedUpTo = service.participant.log.end
  await follow()
  await follow()
  service.participant.prunedUpTo = 0
  expect(await offersOf(ada)).toMatchObject([
    { amount: '2', status: 'open' },
    { amount: '1', status: 'ended', updateId: null, endedAt: null },
  ])
  const { offered: made, settled } = await told(ada)
  expect(made.map(({ amount, offset }) => [amount, offset === null])).toEqual([
    ['1', false],
    ['2', true],
  ])
  expect(settled).toMatchObject([{ amount: '1', outcome: 'ended', updateId: null, offset: null, recordedAt: null }])
})

test('a participant restored to an older state tells nothing twice, and loses nothing', async () => {
  const { follow, newHolder, offered, offersOf, told, service } = scene
  const ada = await newHolder()
  const first = offered(STRANGER, ada.party, '1')
  const before = service.participant.log.end
  service.participant.happen([first], [], [answered(first, 'Accept', 'Completed')])
  const second = offered(STRANGER, ada.party, '2')
  await follow()
  service.participant.restoreTo(before)
  await follow()
  await follow()
  expect((await offersOf(ada)).map(({ amount, status }) => [amount, status])).toEqual([
    ['2', 'ended'],
    ['1', 'open'],
  ])
  service.participant.replay()
  await follow()
  expect((await offersOf(ada)).map(({ amount, status }) => [amount, status])).toEqual([
    ['2', 'open'],
    ['1', 'accepted'],
  ])
  service.participant.happen([second], [], [answered(second, 'Reject', 'Failed')])
  await follow()
  const { offered: made, settled } = await told(ada)
  expect(made.map(({ amount }) => amount)).toEqual(['1', '2'])
  // What the participant did not know counted as gone for a while.
  expect(settled.map(({ amount, outcome }) => [amount, outcome])).toEqual([
    ['1', 'accepted'],
    ['2', 'ended'],
    ['2', 'rejected'],
  ])
})

test('two that follow at once, and one that dies before it commits, tell each offer and each end once', async () => {
  const { follow, newHolder, offered, told, service } = scene
  const ada = await newHolder()
  const contract = offered(STRANGER, ada.party, '2')
  service.steps['tokens read'] = async () => {
    throw new Error('it died here')
  }
  await expect(follow()).rejects.toThrow('it died here')
  service.steps['tokens read'] = undefined
  await Promise.all([follow(), follow(), follow()])
  service.participant.happen([contract], [], [answered(contract, 'Reject', 'Failed')])
  await Promise.all([follow(), follow(), follow()])
  await follow()
  const { offered: made, outcomes } = await told(ada)
  expect([made.length, outcomes]).toEqual([1, ['rejected']])
})

test('how an offer ended is asked again while the participant does not answer, and unknown once it says so', async () => {
  const { follow, newHolder, offered, told, service } = scene
  const ada = await newHolder()
  const [one, two] = [offered(STRANGER, ada.party, '1'), offered(STRANGER, ada.party, '2')]
  await follow()
  service.participant.happen([one], [], [answered(one, 'Accept', 'Completed')])
  service.participant.next[BY_ID] = [{ status: 503, body: 'no' }]
  await expect(follow()).rejects.toThrow()
  expect((await told(ada)).outcomes).toEqual([])
  await follow()
  service.participant.happen([two], [], [answered(two, 'Accept', 'Completed')])
  service.participant.next[BY_ID] = [{ status: 200, body: { update: { Reassignment: { value: {} } } } }]
  await follow()
  expect((await told(ada)).outcomes).toEqual(['accepted', 'ended'])
})

test('the ledger is asked how something ended only where it was an offer to or of a wallet', async () => {
  const { follow, newHolder, offered, registry, service } = scene
  const ada = await newHolder()
  const foreign = offered(STRANGER, OTHER, '2')
  const held = registry.mint(ada.party, '1')
  await follow()
  const asked = () => service.participant.asked.filter(({ path }) => path === BY_ID).length
  const before = asked()
  service.participant.happen(
    [foreign, held],
    [[TOKEN, { instrument: { admin: registry.admin, id: 'GOLD' }, owner: ada.party, amount: '1' }]],
  )
  await follow()
  expect(asked()).toBe(before)
})

test('what was offered before somebody looked is listed and not told; holdings of before offers were followed are', async () => {
  const { follow, newHolder, offered, offersOf, told, amounts, registry, service } = scene
  const ada = await newHolder()
  const scopes = [...(service.deps.ledgers.get('canton')?.tokens?.scopes.values() ?? [])]
  await service.sql('update token_views set scopes = $1::text[] where wallet_id = $2', [scopes, ada.walletId])
  offered(STRANGER, ada.party, '1')
  const over = offered(STRANGER, ada.party, '2', { executeBefore: micros(service.deps.now().getTime() - MINUTE) })
  registry.mint(ada.party, '3')
  service.advance(1_000)
  await service.sql("update token_cursors set scope = 'of before', scope_at = $1", [
    new Date(service.deps.now().getTime() - 11 * MINUTE),
  ])
  await follow()
  await follow()
  expect((await offersOf(ada)).map(({ amount, status }) => [amount, status]).sort()).toEqual([
    ['1', 'open'],
    ['2', 'expired'],
  ])
  expect(await told(ada)).toEqual({ offered: [], settled: [], outcomes: [] })
  expect(await amounts(ada)).toEqual(['3'])
  service.participant.happen([over], [], [answered(over, 'Withdraw', 'Failed')])
  await follow()
  expect((await told(ada)).outcomes).toEqual(['withdrawn'])
})
