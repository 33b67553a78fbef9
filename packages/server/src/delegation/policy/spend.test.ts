import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatAmount, parseAmount, UNITS_MAX } from '../../platform/ports/amount.ts'
import type { Flow } from '../../platform/ports/ledger.ts'
import { type CompiledPolicy, compile } from './policy.ts'
import type { Spend } from './policy-schema.ts'
import { addCharges, type Charge, charge as chargeCosts, costs, remainingOf, removeCharges } from './spend.ts'
import type { Spent } from './windows.ts'

const ALICE = 'alice::1220'
const BOB = 'bob::1220'
const ISSUER = 'issuer::1220'
const USD = { issuer: ISSUER, symbol: 'USD' }
const EUR = { issuer: ISSUER, symbol: 'EUR' }
const NOW = new Date('2026-11-21T08:37:11.123Z')
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const WINDOWS = ['lifetime', 'rolling_24h', 'day_utc'] as const

const policy = (...spend: Spend[]) => compile({ allow: [{ templateId: 'Token:Holding' }], spend })
const units = (amount: string) => parseAmount(amount) as bigint
const charge = (compiled: CompiledPolicy, spent: Spent, flows: readonly Flow[], party: string, now: Date) =>
  chargeCosts(
    compiled,
    spent,
    costs(flows, party).filter((cost) => cost.units > 0n),
    now,
  )
const later = (ms: number) => new Date(NOW.getTime() + ms)

const flow = (owner: string | null, consumed: string, created: string, asset = USD): Flow => ({
  command: 0,
  asset,
  owner,
  consumed: units(consumed),
  created: units(created),
})

/** Alice hands over `amount` of a holding of 100. */
const transfer = (amount: string, asset = USD): Flow[] => [
  flow(ALICE, '100', formatAmount(units('100') - units(amount)), asset),
  flow(BOB, '0', amount, asset),
]

function charged(compiled: ReturnType<typeof policy>, spent: Spent, flows: Flow[], now = NOW, party = ALICE): Charge[] {
  const outcome = charge(compiled, spent, flows, party, now)
  if ('denied' in outcome) throw new Error(outcome.denied.message)
  return outcome.charges
}

function denial(compiled: ReturnType<typeof policy>, spent: Spent, flows: Flow[], now = NOW, party = ALICE) {
  const outcome = charge(compiled, spent, flows, party, now)
  return 'denied' in outcome ? outcome.denied : null
}

/** What an unlimited look at the same flows would be charged. */
const costOf = (flows: Flow[], party = ALICE): string => {
  const [one] = charged(policy({ asset: USD, amount: formatAmount(UNITS_MAX) }), {}, flows, NOW, party)
  return formatAmount(BigInt(one?.units ?? 0))
}

test.each<[name: string, flows: Flow[], cost: string]>([
  ['a transfer costs what is given away, not what is consumed', transfer('3'), '3'],
  ['a transfer of all', transfer('100'), '100'],
  ['an offer costs when it is made', [flow(ALICE, '100', '60'), flow(null, '0', '40')], '40'],
  ['withdrawing an offer costs nothing', [flow(null, '40', '0'), flow(ALICE, '0', '40')], '0'],
  ['accepting an offer costs nothing', [flow(null, '40', '0'), flow(ALICE, '0', '40')], '0'],
  ['a split costs nothing', [flow(ALICE, '100', '30'), flow(ALICE, '0', '70')], '0'],
  ['a merge costs nothing', [flow(ALICE, '30', '0'), flow(ALICE, '70', '100')], '0'],
  ['a transfer to oneself costs nothing', [flow(ALICE, '100', '100')], '0'],
  ['receiving costs nothing', [flow(BOB, '100', '50'), flow(ALICE, '0', '50')], '0'],
  [
    'what goes out and comes back in one transaction costs the difference',
    [flow(ALICE, '10', '0'), flow(ALICE, '0', '4'), flow(BOB, '0', '6')],
    '6',
  ],
  ['destroying costs', [flow(ALICE, '5', '0')], '5'],
  ['a base unit costs', [flow(ALICE, '0.0000000001', '0')], '0.0000000001'],
  ['issuing to another costs', [flow(BOB, '0', '9')], '9'],
  ['issuing to oneself costs', [flow(ALICE, '0', '9')], '9'],
  ['issuing into an offer costs', [flow(null, '0', '9')], '9'],
  ['issuing and giving away cost together', [flow(ALICE, '5', '0'), flow(BOB, '0', '9')], '9'],
  ['issuing and giving away of what one had cost together', [flow(ALICE, '50', '0'), flow(BOB, '0', '100')], '100'],
  ['nothing at all costs nothing', [], '0'],
])('%s', (_, flows, cost) => {
  expect(costOf(flows)).toBe(cost)
})

test('an asset that is not named is not spent, and one that stays may be anything', () => {
  const compiled = policy({ asset: USD, amount: '100' })
  expect(denial(compiled, {}, transfer('1', EUR))).toEqual({
    code: 'policy_denied',
    rule: 'spend',
    message: expect.stringContaining('EUR'),
    asset: EUR,
    asked: '1',
  })
  const lookalikes = [
    { ...USD, issuer: BOB },
    { ...USD, symbol: 'usd' },
    { ...USD, symbol: 'USD ' },
  ]
  for (const asset of lookalikes) expect(denial(compiled, {}, transfer('1', asset))).toMatchObject({ rule: 'spend' })
  expect(denial(policy(), {}, transfer('1'))).toMatchObject({ rule: 'spend' })
  expect(denial(policy(), {}, [flow(ALICE, '100', '100')])).toBeNull()
  // Whose issuer and symbol only read alike when put together.
  expect(denial(compiled, {}, transfer('1', { issuer: '', symbol: `${ISSUER}USD` }))).toMatchObject({ rule: 'spend' })
})

test('one transaction that spends several assets needs all of them named', () => {
  const both = [...transfer('1'), ...transfer('2', EUR)]
  expect(denial(policy({ asset: USD, amount: '1' }), {}, both)).toMatchObject({ rule: 'spend', asset: EUR })
  const compiled = policy({ asset: USD, amount: '1' }, { asset: EUR, amount: '2' })
  expect(charged(compiled, {}, both)).toEqual([
    { entry: 0, bucket: 'all', units: units('1').toString() },
    { entry: 1, bucket: 'all', units: units('2').toString() },
  ])
})

test('a cap holds to the last base unit, and the denial says what is left', () => {
  const compiled = policy({ asset: EUR, unlimited: true }, { asset: USD, amount: '10.00' })
  const spent = addCharges({}, charged(compiled, {}, transfer('3')))
  expect(denial(compiled, spent, transfer('8'))).toEqual({
    code: 'spend_limit_exceeded',
    rule: 'spend[1]',
    message: "This would spend 8 USD; 7 are left of the policy's spend[1].",
    asset: USD,
    window: 'lifetime',
    limit: '10',
    spent: '3',
    asked: '8',
    remaining: '7',
  })
  expect(denial(compiled, spent, transfer('7.0000000001'))).toMatchObject({ asked: '7.0000000001' })
  const full = addCharges(spent, charged(compiled, spent, transfer('7')))
  expect(denial(compiled, full, transfer('0.0000000001'))).toMatchObject({ remaining: '0' })
  expect(denial(compiled, full, transfer('0'))).toBeNull()
})

test('a cap of 0 lets nothing move, and no limit is never charged', () => {
  expect(denial(policy({ asset: USD, amount: '0' }), {}, transfer('0.0000000001'))).toMatchObject({ limit: '0' })
  const unlimited = policy({ asset: USD, unlimited: true })
  expect(charged(unlimited, {}, transfer('100'))).toEqual([])
  expect(remainingOf(unlimited, {}, NOW)).toEqual([
    { asset: USD, window: null, limit: null, spent: null, remaining: null },
  ])
})

test('the largest amounts there are stay exact', () => {
  const max = formatAmount(UNITS_MAX)
  const compiled = policy({ asset: USD, amount: max })
  const spent = addCharges({}, charged(compiled, {}, [flow(ALICE, max, '0.0000000001')]))
  expect(remainingOf(compiled, spent, NOW)).toMatchObject([{ remaining: '0.0000000001' }])
  expect(denial(compiled, spent, [flow(ALICE, '0.0000000002', '0')])).not.toBeNull()
  const twice = [flow(ALICE, max, '0'), flow(ALICE, max, '0')]
  expect(denial(compiled, {}, twice)).toMatchObject({ code: 'spend_limit_exceeded' })
})

test('each of several caps of one asset holds', () => {
  const compiled = policy(
    { asset: USD, amount: '10' },
    { asset: USD, amount: '5', window: 'rolling_24h' },
    { asset: USD, amount: '4', window: 'day_utc' },
  )
  let spent: Spent = {}
  const spend = (amount: string, now: Date) => {
    spent = addCharges(spent, charged(compiled, spent, transfer(amount), now))
  }
  spend('4', NOW)
  expect(spent).toEqual({
    0: { all: '40000000000' },
    1: { '2026-11-21T08:30Z': '40000000000' },
    2: { '2026-11-21': '40000000000' },
  })
  expect(denial(compiled, spent, transfer('1'))).toMatchObject({ rule: 'spend[2]' })
  spend('1', later(20 * HOUR))
  expect(denial(compiled, spent, transfer('1'), later(20 * HOUR))).toMatchObject({ rule: 'spend[1]' })
  spend('3', later(25 * HOUR))
  expect(denial(compiled, spent, transfer('3'), later(70 * HOUR))).toMatchObject({ rule: 'spend[0]', remaining: '2' })
  expect(remainingOf(compiled, spent, later(25 * HOUR)).map(({ remaining }) => remaining)).toEqual(['2', '1', '0'])
})

test('a day is one of UTC, and ends at its midnight', () => {
  const compiled = policy({ asset: USD, amount: '5', window: 'day_utc' })
  const spent = addCharges({}, charged(compiled, {}, transfer('5')))
  expect(denial(compiled, spent, transfer('1'), new Date('2026-11-21T23:59:59.999Z'))).not.toBeNull()
  expect(denial(compiled, spent, transfer('5'), new Date('2026-11-22T00:00:00.000Z'))).toBeNull()
})

test('a rolling window lets go of a charge 24 hours later at the earliest, a quarter of an hour more at the latest', () => {
  const compiled = policy({ asset: USD, amount: '5', window: 'rolling_24h' })
  for (const at of ['08:30:00.000', '08:37:11.123', '08:44:59.999']) {
    const made = new Date(`2026-11-21T${at}Z`)
    const spent = addCharges({}, charged(compiled, {}, transfer('5'), made))
    const held = new Date('2026-11-22T08:44:59.999Z')
    expect(denial(compiled, spent, transfer('0.1'), held)).toMatchObject({ remaining: '0' })
    expect(denial(compiled, spent, transfer('5'), new Date('2026-11-22T08:45:00.000Z'))).toBeNull()
  }
})

test('buckets that no longer count are dropped, so that what is stored stays small', () => {
  const compiled = policy(
    { asset: USD, amount: '1000', window: 'rolling_24h' },
    { asset: USD, amount: '1000', window: 'day_utc' },
  )
  let spent: Spent = {}
  for (let slice = 0; slice < 400; slice += 1)
    spent = addCharges(spent, charged(compiled, spent, transfer('1'), later(slice * 15 * MINUTE)))
  expect(Object.keys(spent[0] ?? {})).toHaveLength(97)
  expect(Object.keys(spent[1] ?? {})).toHaveLength(1)
})

test.each(WINDOWS)(
  'a clock that was set back frees nothing, not even past what was pruned or released: %s',
  (window) => {
    const compiled = policy({ asset: USD, amount: '5', window })
    const full = addCharges({}, charged(compiled, {}, transfer('5')))
    for (const backMs of [1, 20 * MINUTE, 9 * HOUR, 25 * HOUR, 365 * 24 * HOUR])
      expect(denial(compiled, full, transfer('0.1'), later(-backMs))).toMatchObject({ remaining: '0' })
    if (window === 'lifetime') return
    // Two days later all is free again; part of it is charged, and the first day's buckets are dropped.
    const next = charged(compiled, full, transfer('4'), later(48 * HOUR))
    const pruned = addCharges(full, next)
    expect(remainingOf(compiled, pruned, NOW)).toMatchObject([{ spent: '4', remaining: '1' }])
    // Charged in the past, it counts in the present.
    const more = addCharges(pruned, charged(compiled, pruned, transfer('1')))
    expect(remainingOf(compiled, more, later(48 * HOUR))).toMatchObject([{ remaining: '0' }])
    // Released, the later bucket still says how far the clock was: the first day is not charged a second time.
    const released = removeCharges(pruned, next)
    const [again] = charged(compiled, released, transfer('5'))
    expect(again?.bucket).toBe(next[0]?.bucket)
  },
)

test('releasing never goes below zero and makes nothing up', () => {
  const compiled = policy({ asset: USD, amount: '5' })
  const charges = charged(compiled, {}, transfer('3'))
  expect(removeCharges({}, charges)).toEqual({})
  const twice = removeCharges(removeCharges(addCharges({}, charges), charges), charges)
  expect(remainingOf(compiled, twice, NOW)).toMatchObject([{ spent: '0', remaining: '5' }])
  const stale: Charge[] = [{ entry: 0, bucket: '2020-01-01', units: '1' }]
  expect(removeCharges({ 0: { '2026-11-21': '7' } }, stale)).toEqual({ 0: { '2026-11-21': '7' } })
})

test('what was stored is not changed in place', () => {
  const compiled = policy({ asset: USD, amount: '5' })
  const charges = charged(compiled, {}, transfer('3'))
  const spent = Object.freeze({ 0: Object.freeze({ all: '1' }) })
  expect(addCharges(spent, charges)).toEqual({ 0: { all: '30000000001' } })
  expect(removeCharges(spent, charges)).toEqual({ 0: { all: '0' } })
  expect(spent).toEqual({ 0: { all: '1' } })
})

test('what is stored and cannot be read stops everything', () => {
  const compiled = policy({ asset: USD, amount: '5', window: 'rolling_24h' })
  expect(() => charge(compiled, { 0: { '2026-11-21T08:30Z': '1.5' } }, transfer('1'), ALICE, NOW)).toThrow()
  expect(() => charge(compiled, { 0: { 'some-time-or-other': '1' } }, transfer('1'), ALICE, NOW)).toThrow()
})

const amounts = fc.bigInt({ min: 0n, max: 60n }).map((n) => n * 10n ** 9n + (n % 3n))
const owners = fc.constantFrom(ALICE, BOB, null)

interface Step {
  amount: bigint
  /** How far the clock goes; it may go backwards. */
  byMs: number
  /** Which charge made so far is released afterwards; none past the end. */
  release: number
}
const steps = (byMs: fc.Arbitrary<number>): fc.Arbitrary<Step[]> =>
  fc.array(fc.record({ amount: amounts, byMs, release: fc.nat(60) }), { maxLength: 40 })
const anyMs = fc.oneof(
  fc.constantFrom(0, 1, -1, 15 * MINUTE, 24 * HOUR, -24 * HOUR),
  fc.integer({ min: -3 * HOUR, max: 9 * HOUR }),
)

/** What happened: when, by a clock that is only read when it is past all that happened before. */
interface Happened {
  atMs: number
  units: bigint
  charges: Charge[]
}

/** Plays steps against a cap; answers what was accepted and not released, and checks `held` after each. */
function play(
  window: (typeof WINDOWS)[number],
  limit: bigint,
  taken: Step[],
  held: (standing: Happened[], spent: Spent, now: Date) => void,
) {
  const compiled = policy({ asset: USD, amount: formatAmount(limit), window })
  let spent: Spent = {}
  let clockMs = NOW.getTime()
  let latestMs = 0
  const standing: Happened[] = []
  for (const { amount, byMs, release } of taken) {
    clockMs += byMs
    const now = new Date(clockMs)
    const outcome = charge(
      compiled,
      spent,
      [{ command: 0, asset: USD, owner: ALICE, consumed: amount, created: 0n }],
      ALICE,
      now,
    )
    if (!('denied' in outcome) && outcome.charges.length > 0) {
      spent = addCharges(spent, outcome.charges)
      latestMs = Math.max(latestMs, clockMs)
      standing.push({ atMs: latestMs, units: amount, charges: outcome.charges })
    }
    const [gone] = standing.splice(release, 1)
    if (gone !== undefined) spent = removeCharges(spent, gone.charges)
    held(standing, spent, now)
  }
}

const sum = (standing: Happened[]) => standing.reduce((total, one) => total + one.units, 0n)

test('no sequence of charges, releases and clock changes is ever above a cap', () => {
  fc.assert(
    fc.property(fc.constantFrom(...WINDOWS), amounts, steps(anyMs), (window, limit, taken) => {
      play(window, limit, taken, (standing) => {
        for (const { atMs } of standing) {
          const day = (ms: number) => Math.floor(ms / (24 * HOUR))
          const within = {
            lifetime: () => true,
            rolling_24h: (other: Happened) => other.atMs <= atMs && other.atMs > atMs - 24 * HOUR,
            day_utc: (other: Happened) => day(other.atMs) === day(atMs),
          }[window]
          expect(sum(standing.filter(within)) <= limit).toBe(true)
        }
      })
    }),
    { numRuns: 2_000 },
  )
})

test('what a cap does not need to refuse it does not: a lifetime cap takes all up to its limit', () => {
  fc.assert(
    fc.property(amounts, steps(anyMs), amounts, (limit, taken, next) => {
      const compiled = policy({ asset: USD, amount: formatAmount(limit) })
      play('lifetime', limit, taken, (standing, spent, now) => {
        const outcome = charge(
          compiled,
          spent,
          [{ command: 0, asset: USD, owner: ALICE, consumed: next, created: 0n }],
          ALICE,
          now,
        )
        expect('denied' in outcome).toBe(sum(standing) + next > limit)
      })
    }),
  )
})

test('the earlier the clock, the less is left', () => {
  fc.assert(
    fc.property(fc.constantFrom(...WINDOWS), steps(anyMs), fc.nat(72 * HOUR), (window, taken, backMs) => {
      const compiled = policy({ asset: USD, amount: '100', window })
      const left = (spent: Spent, at: number) => units(remainingOf(compiled, spent, new Date(at))[0]?.remaining ?? '')
      play(window, units('100'), taken, (_, spent, now) => {
        expect(left(spent, now.getTime() - backMs) <= left(spent, now.getTime())).toBe(true)
      })
    }),
  )
})

test('releasing restores exactly what was left, and charging again exactly what was stored', () => {
  fc.assert(
    fc.property(fc.constantFrom(...WINDOWS), steps(anyMs), amounts, (window, taken, amount) => {
      const compiled = policy({ asset: USD, amount: '1000', window })
      play(window, units('1000'), taken, (_, spent, now) => {
        const charges = charged(
          compiled,
          spent,
          [{ command: 0, asset: USD, owner: ALICE, consumed: amount, created: 0n }],
          now,
        )
        const after = addCharges(spent, charges)
        const released = removeCharges(after, charges)
        expect(remainingOf(compiled, released, now)).toEqual(remainingOf(compiled, spent, now))
        expect(addCharges(released, charges)).toEqual(after)
      })
    }),
  )
})

test('who moves only to oneself spends nothing, however the holdings are cut', () => {
  fc.assert(
    fc.property(fc.array(amounts), fc.array(amounts), owners, (consumed, others, other) => {
      const total = consumed.reduce((all, one) => all + one, 0n)
      const flows: Flow[] = [
        ...consumed.map((one) => ({ command: 0, asset: USD, owner: ALICE, consumed: one, created: 0n })),
        { command: 0, asset: USD, owner: ALICE, consumed: 0n, created: total },
        // What others do among themselves is no concern of the wallet's.
        ...others.map((one) => ({ command: 0, asset: USD, owner: other, consumed: one, created: one })),
      ]
      expect(charge(policy(), {}, flows, ALICE, NOW)).toEqual({ charges: [] })
    }),
  )
})

test('a charge is never less than what the others gained, and never less than what the party lost', () => {
  const flows = fc.array(
    fc.record({ command: fc.nat(2), asset: fc.constant(USD), owner: owners, consumed: amounts, created: amounts }),
    {
      maxLength: 8,
    },
  )
  fc.assert(
    fc.property(flows, (all) => {
      const cost = units(costOf(all))
      const net = (fits: (one: Flow) => boolean) =>
        all.filter(fits).reduce((total, one) => total + one.created - one.consumed, 0n)
      expect(cost >= net(({ owner }) => owner !== ALICE)).toBe(true)
      expect(cost >= -net(({ owner }) => owner === ALICE)).toBe(true)
      expect(cost >= net(() => true)).toBe(true)
    }),
    { numRuns: 1_000 },
  )
})
