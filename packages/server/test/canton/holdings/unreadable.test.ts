// What cannot be read of a participant stops nobody else, and is made good when it can be read; what is read again tells nothing twice.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { expectError } from '../../harness/envelope.ts'
import type { CantonHolder } from '../canton.fixture.ts'
import { TOKEN } from '../tokens.ts'
import { type HoldingsScene, startHoldings } from './holdings.fixture.ts'

const MINUTE = 60_000
const ALL = '/v2/state/active-contracts'
const PAGE = '/v2/state/active-contracts-page'
const TOO_MANY = { status: 413, body: '' }

let scene: HoldingsScene
beforeAll(async () => {
  scene = await startHoldings()
})
afterEach(() => scene.service.participant.heal())
afterAll(() => scene.stop())

const stateOf = async ({ walletId }: CantonHolder) =>
  expectStatus(await scene.tenant.get(`/wallets/${walletId}/holdings`), 200).state
const skipped = async () =>
  (
    await scene.service.deps.metrics.registry.getSingleMetric('halfkey_token_updates_skipped_total')?.get()
  )?.values.find(({ labels }) => labels.reason === 'oversize')?.value ?? 0
/** Has the wallets read again as of now. */
const readAgain = async () => {
  await scene.service.sql('update token_cursors set generation = generation + 1')
  await scene.follow()
}

test('an update that is too large to be read is passed over and counted, and all is read again', async () => {
  const { service, registry, follow, newHolder, sums, amounts } = scene
  const { participant } = service
  const [ada, bob] = [await newHolder(), await newHolder()]
  const before = await skipped()
  registry.mint(ada.party, '1')
  registry.mint(ada.party, '2')
  const large = participant.log.end
  registry.mint(bob.party, '4')
  participant.oversized.add(large)
  service.advance(-9 * MINUTE)
  await service.sql('update token_cursors set begun_at = $1', [service.deps.now()])
  await follow()
  expect([await sums(ada), await sums(bob)]).toEqual([{ GOLD: '1' }, { GOLD: '4' }])
  expect([await stateOf(ada), await skipped()]).toEqual(['reading', before + 1])
  // Once it was skipped, it is not asked for again.
  registry.mint(bob.party, '8')
  await follow()
  expect([await sums(bob), await skipped()]).toEqual([{ GOLD: '12' }, before + 1])
  participant.oversized.clear()
  service.advance(11 * MINUTE)
  await follow()
  expect([await sums(ada), await stateOf(ada)]).toEqual([{ GOLD: '3' }, 'current'])
  expect([await amounts(ada), await amounts(bob)]).toEqual([
    ['1', '2'],
    ['4', '8'],
  ])
})

test('a wallet that cannot be read is read later, and the others are followed meanwhile', async () => {
  const { service, registry, tenant, follow, newHolder, sums, amounts } = scene
  const { participant } = service
  const [ada, bob] = [await newHolder(), await newHolder()]
  registry.mint(ada.party, '5')
  const large = participant.log.end
  registry.mint(bob.party, '1')
  await follow()
  participant.version = '3.6.0'
  participant.oversized.add(large)
  await readAgain()
  registry.mint(bob.party, '2')
  await follow()
  expect(await sums(bob)).toEqual({ GOLD: '3' })
  expectError(await tenant.get(`/wallets/${ada.walletId}/holdings`), 409, 'holdings_unavailable')
  participant.oversized.clear()
  await follow()
  expectError(await tenant.get(`/wallets/${ada.walletId}/holdings`), 409, 'holdings_unavailable')
  service.advance(MINUTE)
  registry.mint(ada.party, '7')
  await follow()
  expect([await sums(ada), await amounts(ada), await amounts(bob)]).toEqual([{ GOLD: '12' }, ['5', '7'], ['1', '2']])
})

test.each([
  [
    'pages that never end',
    { [ALL]: TOO_MANY, [PAGE]: { status: 200, body: { activeContracts: [], nextPageToken: 'x' } } },
  ],
  ['answers that are lost', { [ALL]: { status: 500, body: '' } }],
  ['answers that are too large', { [ALL]: { status: 200, body: ' '.repeat(17 << 20) }, [PAGE]: TOO_MANY }],
])('wallets whose reading ends in %s do not keep the updates waiting', async (_, faults) => {
  const { service, registry, follow, newHolder, sums } = scene
  const ada = await newHolder()
  await service.sql('update token_views set due_at = $1', [new Date(service.deps.now().getTime() + 60 * MINUTE)])
  const { walletId } = await newHolder()
  await service.sql("update token_views set generation = 0, scopes = '{}' where wallet_id = $1", [walletId])
  service.participant.always = faults
  registry.mint(ada.party, '3')
  await follow()
  expect(await sums(ada)).toEqual({ GOLD: '3' })
  const [view] = await service.sql<{ failures: number }>('select failures from token_views where wallet_id = $1', [
    walletId,
  ])
  expect(view?.failures).toBe(1)
})

test('after a wallet that took long it is read on before the next one, and all are read in the end', async () => {
  const { service, registry, follow, newHolder, sums } = scene
  const [ada, bob, eve] = [await newHolder(), await newHolder(), await newHolder()]
  const slow = [bob.walletId, eve.walletId]
  await service.sql(
    "update token_views set generation = 0, scopes = '{}' where wallet_id = any($1) and kind = 'holdings'",
    [slow],
  )
  registry.mint(ada.party, '3')
  registry.mint(bob.party, '4')
  const seen: { unread: number; has: Record<string, string> }[] = []
  // Whatever is read takes six seconds.
  service.steps['tokens read'] = async () => {
    const [row] = await service.sql<{ unread: string }>(
      "select count(*) as unread from token_views where generation = 0 and wallet_id = any($1) and kind = 'holdings'",
      [slow],
    )
    seen.push({ unread: Number(row?.unread), has: await sums(ada) })
    service.advance(6_000)
  }
  await follow()
  service.steps['tokens read'] = undefined
  // Read are: a wallet, a page, the other wallet, which finds the page's tokens, and a page.
  expect(seen.slice(0, 3)).toEqual([
    { unread: 2, has: {} },
    { unread: 1, has: {} },
    { unread: 1, has: { GOLD: '3' } },
  ])
  expect([await sums(bob), await stateOf(bob), await stateOf(eve)]).toEqual([{ GOLD: '4' }, 'current', 'current'])
})

test('a wallet that could not be read has ten seconds for the next tries, and a minute for the first and the ninth', async () => {
  const { service, registry, follow, newHolder } = scene
  const { participant } = service
  const { walletId, party } = await newHolder()
  for (let at = 0; at < 250; at += 1) registry.mint(party, '1')
  await follow()
  const tryAfter = async (failures: number) => {
    await service.sql(
      "update token_views set generation = 0, scopes = '{}', failures = $2 where wallet_id = $1 and kind = 'holdings'",
      [walletId, failures],
    )
    participant.version = '3.6.0'
    // Each of the two pages takes eleven seconds.
    participant.onAsked = (path) => {
      if (path === PAGE) service.advance(11_000)
    }
    await follow()
    participant.heal()
    const [view] = await service.sql<{ failures: number }>(
      "update token_views set due_at = $2 where wallet_id = $1 and kind = 'holdings' returning failures",
      [walletId, service.deps.now()],
    )
    return view?.failures
  }
  expect([await tryAfter(0), await tryAfter(1), await tryAfter(7), await tryAfter(8)]).toEqual([0, 2, 8, 0])
})

test('an outage is no failure of a wallet', async () => {
  const { service, follow, newHolder } = scene
  const { walletId } = await newHolder()
  await service.sql("update token_views set generation = 0, scopes = '{}' where wallet_id = $1", [walletId])
  service.participant.always = { [ALL]: 'lose_before', '/v2/state/ledger-end': 'lose_before' }
  await expect(follow()).rejects.toThrow('did not answer')
  service.participant.heal()
  await follow()
  const [view] = await service.sql<object>('select failures, problem from token_views where wallet_id = $1', [walletId])
  expect(view).toEqual({ failures: 0, problem: null })
})

test('no more is told than came anew, though more is there again', async () => {
  const { service, registry, follow, newHolder, sums, amounts } = scene
  const ada = await newHolder()
  registry.mint(ada.party, '100')
  await follow()
  await service.sql('update token_holdings set archived_at = $2 where wallet_id = $1', [ada.walletId, new Date()])
  registry.mint(ada.party, '5')
  service.participant.prunedUpTo = service.participant.log.end
  await follow()
  await follow()
  service.participant.prunedUpTo = 0
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '105' }, ['100', '5']])
})

test('what a wallet held before its registry was followed is not told, and what comes then is', async () => {
  const { service, registry, follow, newHolder, sums, amounts } = scene
  const [ada, bob] = [await newHolder(), await newHolder()]
  await service.sql("update token_cursors set scope = 'other', scope_at = $1", [service.deps.now()])
  await service.sql("update token_views set scopes = '{other}' where wallet_id = $1", [ada.walletId])
  await service.sql("update token_views set generation = 0, scopes = '{}' where wallet_id = $1", [bob.walletId])
  registry.mint(ada.party, '50')
  registry.mint(bob.party, '60')
  service.advance(10 * MINUTE)
  await follow()
  expect([await sums(ada), await sums(bob)]).toEqual([{ GOLD: '50' }, { GOLD: '60' }])
  registry.mint(ada.party, '1')
  service.participant.happen(
    [],
    [[TOKEN, { instrument: { admin: registry.admin, id: 'TIN' }, owner: bob.party, amount: '2' }]],
  )
  await follow()
  expect([await amounts(ada), await amounts(bob)]).toEqual([['1'], ['2']])
})

test('settings that another process has just replaced wait ten minutes', async () => {
  const { service, registry, follow, newHolder, sums } = scene
  const ada = await newHolder()
  await service.sql("update token_cursors set scope = 'other', scope_at = $1", [service.deps.now()])
  const generation = async () => (await service.sql<{ generation: number }>('select generation from token_cursors'))[0]
  const before = await generation()
  registry.mint(ada.party, '2')
  await follow()
  await follow()
  expect([await generation(), await sums(ada)]).toEqual([before, {}])
  service.advance(10 * MINUTE)
  await follow()
  expect(await sums(ada)).toEqual({ GOLD: '2' })
})

test('pruning up to the last update of tokens does not have all read again', async () => {
  const { service, registry, follow, newHolder } = scene
  const ada = await newHolder()
  registry.mint(ada.party, '2')
  await follow()
  const generation = async () => (await service.sql<{ generation: number }>('select generation from token_cursors'))[0]
  const before = await generation()
  service.participant.prunedUpTo = service.participant.log.end
  await follow()
  service.participant.prunedUpTo = 0
  expect(await generation()).toEqual(before)
})
