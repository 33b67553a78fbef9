// What wallets hold and receive on a participant: known from following it, once whatever is read again.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { eventsOf } from '../../../src/identity/sessions/sessions.fixture.ts'
import { checkTokenFollowers } from '../../../src/operations/doctor/installation.ts'
import { followTokens, type TokenLedger } from '../../../src/wallets/tokens/follow.ts'
import { expectError } from '../../harness/envelope.ts'
import { call, eventually, type Tenant } from '../../harness/harness.ts'
import { type CantonHolder, type CantonService, newCantonHolder, startCanton } from '../canton.fixture.ts'
import { FACTORY, FORGED, HIDDEN, HOLDING, INSTRUCTION, LOCKED, SimulatedRegistry, TOKEN } from '../tokens.ts'

let service: CantonService
let tenant: Tenant
let registry: SimulatedRegistry
beforeAll(async () => {
  service = await startCanton(async (participant) => {
    registry = await new SimulatedRegistry(participant).start()
    return {
      tokens: {
        holding: HOLDING,
        transferFactory: FACTORY,
        transferInstruction: INSTRUCTION,
        registries: [{ admin: registry.admin, url: registry.url }],
      },
    }
  })
  tenant = await service.newTenant()
})
afterEach(() => {
  service.participant.heal()
  service.steps['tokens read'] = undefined
})
afterAll(async () => {
  await service.stop()
  await registry.stop()
})

/** Follows as a worker would, until there is nothing more. */
async function follow(): Promise<void> {
  const ledger = service.deps.ledgers.get('canton') as TokenLedger
  for (let step = 0; step < 200; step += 1) if (!(await followTokens(service.deps, ledger))) return
  throw new Error('the follower does not come to an end')
}

async function newHolder(): Promise<CantonHolder> {
  const holder = await newCantonHolder(service, tenant)
  await follow()
  return holder
}

const list = async ({ walletId }: CantonHolder, query = '') =>
  expectStatus(await tenant.get(`/wallets/${walletId}/holdings${query}`), 200)
const sums = async (holder: CantonHolder) =>
  Object.fromEntries(
    (await list(holder)).instruments.map((each: { instrument: { id: string }; amount: string }) => [
      each.instrument.id,
      each.amount,
    ]),
  )
const received = async ({ walletId }: CantonHolder) =>
  (await eventsOf(service, tenant, 'token.received')).filter((each) => each.walletId === walletId)
const amounts = async (holder: CantonHolder) => (await received(holder)).map(({ amount }) => amount)
const token = (owner: string, amount: string, id = 'GOLD', admin = registry.admin) => ({
  instrument: { admin, id },
  owner,
  amount,
})

test('what a wallet receives is listed with its sum and lock, as of an offset, and told once', async () => {
  const ada = await newHolder()
  expect(await list(ada)).toMatchObject({ state: 'current', instruments: [], holdings: [], nextCursor: null })
  const first = registry.mint(ada.party, '10.5')
  const [locked] = service.participant.happen(
    [],
    [[LOCKED, { ...token(ada.party, '2'), holder: registry.admin, context: '<b>escrow</b>' }]],
  )
  await follow()
  await follow()
  const { instruments, holdings, asOf, complete } = await list(ada)
  expect(instruments).toEqual([
    { instrument: { admin: registry.admin, id: 'GOLD' }, amount: '12.5', locked: '2', holdings: 2 },
  ])
  expect(complete).toBe(true)
  expect(asOf.offset).toBeGreaterThan(0)
  expect(holdings.map((each: { contractId: string }) => each.contractId).sort()).toEqual([first, locked].sort())
  expect(holdings.find((each: { contractId: string }) => each.contractId === locked).lock).toEqual({
    holders: [registry.admin],
    expiresAt: '2027-01-01T00:00:00.000Z',
    context: '<b>escrow</b>',
  })
  expect(await received(ada)).toMatchObject([
    {
      userId: ada.userId,
      partyId: ada.party,
      ledger: 'canton',
      instrument: { admin: registry.admin, id: 'GOLD' },
      amount: '10.5',
      locked: '0',
      updateId: expect.stringMatching(/^1220/),
    },
    { amount: '2', locked: '2' },
  ])
})

test('what is locked is told as locked, what is locked later is not free, and unlocking tells nothing', async () => {
  const ada = await newHolder()
  const lock = (amount: string): [string, Record<string, unknown>] => [
    LOCKED,
    { ...token(ada.party, amount), holder: registry.admin, context: 'escrow' },
  ]
  const [free, locked] = service.participant.happen([], [[TOKEN, token(ada.party, '3')], lock('4')])
  await follow()
  // All that was free is locked, and two come with it.
  const [more] = service.participant.happen([free as string], [lock('5')])
  await follow()
  const unlocked = service.participant.happen([locked as string, more as string], [[TOKEN, token(ada.party, '9')]])
  await follow()
  // What was locked is free, and one is new.
  service.participant.happen(service.participant.happen(unlocked, [lock('9')]), [[TOKEN, token(ada.party, '10')]])
  await follow()
  expect((await received(ada)).map(({ amount, locked: part }) => [amount, part])).toEqual([
    ['7', '4'],
    ['2', '2'],
    ['1', '0'],
  ])
})

test('change, merging and payments are no receipts; more than went is one', async () => {
  const ada = await newHolder()
  const ten = registry.mint(ada.party, '10')
  await follow()
  const [rest] = service.participant.happen([ten], [[TOKEN, token(ada.party, '7')]])
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '7' }, ['10']])
  service.participant.happen([rest as string], [[TOKEN, token(ada.party, '9')]])
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '9' }, ['10', '2']])
})

test('pages have all holdings once, newest first', async () => {
  const ada = await newHolder()
  const ids = service.participant.happen(
    [],
    Array.from({ length: 7 }, (_, at) => [TOKEN, token(ada.party, '1', at < 5 ? 'GOLD' : 'TIN')]),
  )
  await follow()
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: { holdings: { contractId: string }[]; nextCursor: string | null } = await list(
      ada,
      `?page_size=3${cursor === '' ? '' : `&cursor=${cursor}`}`,
    )
    seen.push(...page.holdings.map(({ contractId }) => contractId))
    cursor = page.nextCursor
  }
  expect(seen.sort()).toEqual(ids.sort())
  expect((await list(ada, '?instrument=TIN')).holdings).toHaveLength(2)
  expectError(await tenant.get(`/wallets/${ada.walletId}/holdings?cursor=x`), 400, 'validation_failed')
})

test('what a registry did not sign, nobody named or the owner cannot see is no holding, and stops nobody', async () => {
  const ada = await newHolder()
  const other = `other::1220${'0f'.repeat(32)}`
  service.participant.happen(
    [],
    [
      [FORGED, { ...token(ada.party, '1000000'), forger: other }],
      [TOKEN, token(ada.party, '5', 'GOLD', other)],
      [HIDDEN, token(ada.party, '5')],
      [TOKEN, token(ada.party, '5', 'nul\0')],
      [TOKEN, token(ada.party, '5', 'half \ud800')],
      [TOKEN, token(ada.party, '5', 'x'.repeat(1_001))],
      [TOKEN, token(ada.party, '1', '<script>alert(1)</script>')],
    ],
  )
  await follow()
  expect(await sums(ada)).toEqual({ '<script>alert(1)</script>': '1' })
  expect(await amounts(ada)).toEqual(['1'])
})

test('amounts that are none are passed over', async () => {
  const ada = await newHolder()
  const wrong = ['-5', '1e9', '0.00000000001', `1${'0'.repeat(40)}`, 'NaN', '']
  registry.mint(ada.party, '3')
  service.participant.lieAboutUpdates = (updates) => {
    const text = JSON.stringify(updates)
    return JSON.parse(text.replaceAll('3.0000000000', wrong.shift() ?? '3.0000000000'))
  }
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{}, []])
})

test('a wallet of another tenant at the same participant is not found, and gets its own', async () => {
  const ada = await newHolder()
  const elsewhere = await service.newTenant()
  const bob = await newCantonHolder(service, elsewhere)
  registry.mint(bob.party, '4')
  registry.mint(ada.party, '6')
  await follow()
  expectError(await tenant.get(`/wallets/${bob.walletId}/holdings`), 404, 'not_found')
  expectError(await elsewhere.get(`/wallets/${ada.walletId}/holdings`), 404, 'not_found')
  expect(await sums(ada)).toEqual({ GOLD: '6' })
  const theirs = expectStatus(await elsewhere.get(`/wallets/${bob.walletId}/holdings`), 200)
  expect(theirs.instruments[0].amount).toBe('4')
  expect((await eventsOf(service, elsewhere, 'token.received')).map(({ walletId }) => walletId)).toEqual([bob.walletId])
})

test('after pruning all is read again, and what came meanwhile is told as one difference', async () => {
  const ada = await newHolder()
  const ten = registry.mint(ada.party, '10')
  await follow()
  registry.mint(ada.party, '3')
  const gone = registry.mint(ada.party, '4')
  service.participant.happen([ten, gone], [[TOKEN, token(ada.party, '12')]])
  service.participant.prunedUpTo = service.participant.log.end
  await follow()
  await follow()
  service.participant.prunedUpTo = 0
  expect(await sums(ada)).toEqual({ GOLD: '15' })
  expect(await received(ada)).toMatchObject([{ amount: '10' }, { amount: '5', updateId: null, offset: null }])
})

test('a participant restored to an older state tells nothing twice, and loses nothing', async () => {
  const ada = await newHolder()
  registry.mint(ada.party, '1')
  await follow()
  const before = service.participant.log.end
  registry.mint(ada.party, '2')
  await follow()
  service.participant.restoreTo(before)
  await follow()
  await follow()
  expect(await sums(ada)).toEqual({ GOLD: '1' })
  service.participant.replay()
  registry.mint(ada.party, '4')
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '7' }, ['1', '2', '4']])
})

test('a participant that was restored and is past the cursor again is noticed', async () => {
  const ada = await newHolder()
  registry.mint(ada.party, '1')
  await follow()
  const before = service.participant.log.end
  registry.mint(ada.party, '2')
  await follow()
  service.participant.restoreTo(before)
  // Where the last update was, there is another one.
  registry.mint(ada.party, '4')
  registry.mint(ada.party, '8')
  await follow()
  await follow()
  expect(await sums(ada)).toEqual({ GOLD: '13' })
  service.participant.replay()
  await follow()
  expect(await sums(ada)).toEqual({ GOLD: '15' })
})

test('two that follow at once, and one that dies before it commits, take each update once', async () => {
  const ada = await newHolder()
  registry.mint(ada.party, '2')
  service.steps['tokens read'] = async () => {
    throw new Error('it died here')
  }
  await expect(follow()).rejects.toThrow('it died here')
  expect(await amounts(ada)).toEqual([])
  service.steps['tokens read'] = undefined
  await Promise.all([follow(), follow(), follow()])
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '2' }, ['2']])
})

test('updates out of order are refused, and read when they are right', async () => {
  const ada = await newHolder()
  registry.mint(ada.party, '2')
  registry.mint(ada.party, '3')
  service.participant.lieAboutUpdates = (updates) => [...updates].reverse()
  await expect(follow()).rejects.toThrow('out of order')
  service.participant.heal()
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '5' }, ['2', '3']])
})

test('more than one answer holds is read in pages, or not at all; the others go on', async () => {
  const [ada, bob] = [await newHolder(), await newHolder()]
  registry.mint(bob.party, '1')
  for (let at = 0; at < 250; at += 1) registry.mint(ada.party, '1')
  const readAgain = async (version: string) => {
    service.participant.version = version
    registry.mint(bob.party, '1')
    service.participant.prunedUpTo = service.participant.log.end
    await follow()
    await follow()
  }
  await readAgain('3.6.0')
  expect(await sums(ada)).toEqual({ GOLD: '250' })
  // Before 3.6 there are no pages.
  await readAgain('3.5.1')
  expectError(await tenant.get(`/wallets/${ada.walletId}/holdings`), 409, 'holdings_unavailable')
  registry.mint(bob.party, '1')
  await follow()
  service.participant.prunedUpTo = 0
  expect(await sums(bob)).toEqual({ GOLD: '4' })
})

test('what a party held before it was followed is listed, and told only if it is younger than its wallet', async () => {
  const ada = await newHolder()
  registry.mint(ada.party, '5')
  await service.sql('update wallets set created_at = $2 where id = $1', [ada.walletId, new Date(Date.now() + 60_000)])
  await service.sql("update token_views set generation = 0, scopes = '{}' where wallet_id = $1", [ada.walletId])
  const cursor = service.participant.log.end
  await service.sql('update token_cursors set ledger_offset = $1', [cursor])
  await follow()
  expect([await sums(ada), await amounts(ada)]).toEqual([{ GOLD: '5' }, []])
})

test('how far the follower is behind is in the metrics, and the doctor says it', async () => {
  await newHolder()
  const lag = async () => {
    const { text } = await call(service.url, 'GET', '/metrics')
    const figure = (name: string) => Number(text.match(new RegExp(`^${name}\\{ledger="canton"\\} (.+)$`, 'm'))?.[1])
    return [figure('halfkey_token_follower_age_seconds'), figure('halfkey_token_wallets_unread')] as const
  }
  await eventually('figures', async () => (await lag())[0] < 300)
  expect(await checkTokenFollowers(service.deps.db)).toMatchObject([{ check: 'tokens.canton', level: 'ok' }])
  const [, unread] = await lag()
  await newCantonHolder(service, tenant)
  await service.sql(`update token_cursors set read_at = read_at - interval '10 minutes'`)
  await eventually('a lag', async () => (await lag())[0] >= 600)
  // Its holdings, and its offers.
  expect((await lag())[1]).toBe(unread + 2)
  expect(await checkTokenFollowers(service.deps.db)).toMatchObject([
    {
      check: 'tokens.canton',
      level: 'problem',
      seen: expect.stringContaining(`${unread + 2} wallets are still to be read`),
    },
  ])
})
