import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import {
  deal,
  newSharedWallet,
  newSplitWallet,
  passwordProtected,
  protectedShare,
  type SplitWallet,
  sealedShare,
  storeShare,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

type Kind = 'sealed' | 'password' | 'passkey'

/** The body that stores a share in one of the three ways. */
async function bodyOf(of: SplitWallet, index: number, kind: Kind): Promise<object> {
  if (kind === 'sealed') return sealedShare(of, index)
  if (kind === 'passkey') return protectedShare(of, index)
  return protectedShare(of, index, { clientCiphertext: passwordProtected(of.share(index).scalar) })
}

/** How many shares of one generation the service could come to know. */
async function openable({ walletId }: SplitWallet): Promise<number> {
  const [row] = await service.sql<{ n: number }>(
    `select count(*)::int as n from key_shares where wallet_id = $1
     and (share_sealed is not null or client_ciphertext->>'alg' like 'argon2id%')`,
    [walletId],
  )
  return row?.n as number
}

const permutations = <T>(all: readonly T[]): T[][] =>
  all.length === 0
    ? [[]]
    : all.flatMap((one, at) => permutations([...all.slice(0, at), ...all.slice(at + 1)]).map((rest) => [one, ...rest]))

describe('what the service could open', () => {
  test('stays below the threshold, in whichever order and way shares come', async () => {
    const tenant = await service.newTenant()
    const plans: [number, Kind][][] = [
      [
        [1, 'sealed'],
        [2, 'sealed'],
        [3, 'passkey'],
      ],
      [
        [1, 'sealed'],
        [2, 'password'],
        [3, 'password'],
      ],
      [
        [1, 'password'],
        [2, 'password'],
        [3, 'sealed'],
      ],
    ]
    for (const order of plans.flatMap(permutations)) {
      const of = await newSplitWallet(service, tenant)
      const answers = []
      for (const [index, kind] of order)
        answers.push(await of.person.post('/mpc/shares', await bodyOf(of, index, kind)))
      const refused = answers.filter(({ status }) => status !== 201)
      for (const answer of refused) {
        expectError(answer, 409, 'custody_violation')
        expect(answer.body.details[0].message).toMatch(/\S/)
      }
      const guessable = order.filter(([, kind]) => kind !== 'passkey').length
      expect(refused, JSON.stringify(order)).toHaveLength(guessable - 1)
      expect(await openable(of)).toBe(1)
    }
  })

  test('stays below it when twenty shares come at once', async () => {
    const tenant = await service.newTenant()
    for (const threshold of [2, 3, 4]) {
      const of = await newSplitWallet(service, tenant, { dealt: deal({ threshold, total: 10 }) })
      const bodies = await Promise.all(
        Array.from({ length: 20 }, (_, n) => bodyOf(of, (n % 10) + 1, n % 3 === 0 ? 'password' : 'sealed')),
      )
      const answers = await Promise.all(bodies.map((body) => of.person.post('/mpc/shares', body)))
      const { 201: stored, ...refused } = statusCounts(answers)
      expect(stored).toBe(threshold - 1)
      expect(
        Object.keys(refused).filter((code) => !['409 custody_violation', '409 already_exists'].includes(code)),
      ).toEqual([])
      expect(await openable(of)).toBe(threshold - 1)
    }
  })

  test('may be as much again once it was deleted, of another share too', async () => {
    const of = await newSplitWallet(service, await service.newTenant())
    await storeShare(of.person, await sealedShare(of, 1))
    expectError(await of.person.post('/mpc/shares', await sealedShare(of, 2)), 409, 'custody_violation')
    expect((await of.person.delete(`/mpc/shares/${of.walletId}`)).status).toBe(200)
    await storeShare(of.person, await sealedShare(of, 2))
    expectError(await of.person.post('/mpc/shares', await sealedShare(of, 1)), 409, 'custody_violation')
    expect(await openable(of)).toBe(1)
  })
})

describe('shares of one polynomial', () => {
  test('are of one generation, whatever total is said: those few in each of two would make the key together', async () => {
    const of = await newSplitWallet(service, await service.newTenant())
    await storeShare(of.person, await sealedShare(of, 1))
    for (const total of [2, 3, 4, 15]) {
      const dealt = { sharing: { ...of.sharing, total }, shares: of.shares }
      const again = await sealedShare(of, 2, { generation: 2, dealt })
      expectError(await of.person.post('/mpc/shares', again), 400, 'share_invalid', 'commitments')
    }
    expect(await openable(of)).toBe(1)
  })
})

describe('of a shared wallet the service', () => {
  test('takes no share but its own: none that it could open, none that a password protects, deleted or not', async () => {
    const tenant = await service.newTenant()
    for (const proofs of [[2, 3], [2], []]) {
      const of = await newSharedWallet(service, tenant, { proofs })
      const wrong = [
        await bodyOf(of, 2, 'sealed'),
        await bodyOf(of, 3, 'sealed'),
        await bodyOf(of, 2, 'password'),
        await bodyOf(of, 3, 'password'),
      ]
      for (const body of wrong) expectError(await of.person.post('/mpc/shares', body), 409, 'custody_violation')
      const at = await Promise.all(Array.from({ length: 20 }, (_, n) => of.person.post('/mpc/shares', wrong[n % 4])))
      expect(statusCounts(at)).toEqual({ '409 custody_violation': 20 })
      expect(await openable(of)).toBe(1)
      expect((await of.person.delete(`/mpc/shares/${of.walletId}`)).status).toBe(200)
      for (const body of wrong) expectError(await of.person.post('/mpc/shares', body), 409, 'custody_violation')
      await storeShare(of.person, await bodyOf(of, 1, 'sealed'))
      expect(await openable(of)).toBe(1)
    }
  })
})
