import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Point, Scalars } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { lagrange } from '../src/sharing.ts'
import { flips, pick, refusal, SIGNERS } from './support.ts'

const { sharing, shares } = keys.dealShares(SIGNERS)
const other = keys.dealShares(SIGNERS)
const publicKey = sharing.commitments[0] as Uint8Array

/** A threshold, a total, and an order in which to take the shares. */
const dealing = fc.integer({ min: 2, max: keys.TOTAL_MAX }).chain((total) =>
  fc.record({
    total: fc.constant(total),
    threshold: fc.integer({ min: 2, max: total }),
    order: fc.shuffledSubarray(
      Array.from({ length: total }, (_, at) => at),
      { minLength: total },
    ),
  }),
)

describe('a dealt key', () => {
  test('can be combined from any threshold of its shares, and never from fewer', () => {
    fc.assert(
      fc.property(dealing, ({ threshold, total, order }) => {
        const secret = keys.scalarOfSeed(crypto.getRandomValues(new Uint8Array(32)))
        const dealt = keys.dealShares({ threshold, total }, secret)
        const mixed = order.map((at) => dealt.shares[at] as keys.Share)
        expect(keys.joinShares(dealt.sharing, mixed.slice(0, threshold))).toEqual(secret)
        const few = mixed.slice(0, threshold - 1)
        expect(refusal(() => keys.joinShares(dealt.sharing, few)).code).toBe('shares_insufficient')
        // Not by an accident of the check either: what fewer shares interpolate to is another key.
        const indices = few.map(({ index }) => index)
        const sum = few.reduce(
          (value, { index, scalar }) =>
            Scalars.add(value, Scalars.mul(lagrange(indices, index), Scalars.fromBytes(scalar))),
          0n,
        )
        expect(Scalars.toBytes(sum)).not.toEqual(secret)
      }),
      { numRuns: 40 },
    )
  })

  test('is the same key from all shares as from the threshold', () => {
    const dealt = keys.dealShares({ threshold: 3, total: 7 })
    const key = keys.joinShares(dealt.sharing, dealt.shares.slice(2, 5))
    expect(keys.joinShares(dealt.sharing, dealt.shares)).toEqual(key)
    expect(keys.publicKeyOf(key)).toEqual(dealt.sharing.commitments[0])
  })

  test('is new every time, and all its shares differ', () => {
    const seen = new Set([...shares, ...other.shares].map(({ scalar }) => keys.toHex(scalar)))
    expect(seen.size).toBe(6)
    expect(other.sharing.commitments[0]).not.toEqual(publicKey)
  })

  test('has the public keys of its shares as verifying shares', () => {
    for (const { index, scalar } of shares)
      expect(keys.verifyingShareOf(sharing, index)).toEqual(keys.publicKeyOf(scalar))
  })
})

describe('an invalid share', () => {
  test('with a single flipped bit is refused, and the holder is named', () => {
    for (const share of shares) {
      const [good] = shares.filter(({ index }) => index !== share.index) as [keys.Share]
      let refused = 0
      for (const scalar of flips(share.scalar)) {
        expect(keys.isShareOf(sharing, { index: share.index, scalar })).toBe(false)
        const { code, indices } = refusal(() => keys.joinShares(sharing, [{ index: share.index, scalar }, good]))
        expect([code, indices]).toEqual(['share_invalid', [share.index]])
        refused += 1
      }
      expect(refused).toBe(256)
    }
  })

  test('under another index, of another wallet or generation is refused, and the holder is named', () => {
    const [one, two] = pick(shares, 1, 2) as [keys.Share, keys.Share]
    const moved = { ...two, index: 3 }
    expect(refusal(() => keys.joinShares(sharing, [one, moved])).indices).toEqual([3])
    const [foreign] = pick(other.shares, 2) as [keys.Share]
    expect(refusal(() => keys.joinShares(sharing, [one, foreign])).indices).toEqual([2])
    const again = keys.dealShares(SIGNERS, keys.joinShares(sharing, [one, two]))
    expect(again.sharing.commitments[0]).toEqual(publicKey)
    const [newer] = pick(again.shares, 2) as [keys.Share]
    const { code, indices } = refusal(() => keys.joinShares(sharing, [one, newer]))
    expect([code, indices]).toEqual(['share_invalid', [2]])
    expect(keys.wrongShares(sharing, [one, newer, foreign, moved])).toEqual([2, 2, 3])
  })

  test('with the same index as another one is refused, even if both are the same', () => {
    const [one, two] = pick(shares, 1, 2) as [keys.Share, keys.Share]
    for (const twice of [
      [one, one],
      [one, two, one],
    ]) {
      const { code, indices } = refusal(() => keys.joinShares(sharing, twice))
      expect([code, indices]).toEqual(['share_invalid', [1]])
    }
  })

  test.each([0, -1, 4, 15, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2 ** 252, 2 ** 256])(
    'the index %s: refused',
    (index) => {
      const [one, two] = pick(shares, 1, 2) as [keys.Share, keys.Share]
      expect(refusal(() => keys.joinShares(sharing, [one, { ...two, index }])).code).toBe('share_invalid')
      expect(refusal(() => keys.isShareOf(sharing, { ...two, index })).code).toBe('sharing_invalid')
      expect(refusal(() => keys.verifyingShareOf(sharing, index)).code).toBe('sharing_invalid')
    },
  )

  test('with a scalar of 0, not below the order, or of the wrong length is refused', () => {
    const order = Point.CURVE().n.toString(16).padStart(64, '0')
    for (const scalar of [
      new Uint8Array(32),
      new Uint8Array(32).fill(255),
      keys.fromHex(order).reverse(),
      new Uint8Array(31).fill(1),
      new Uint8Array(33).fill(1),
      new Uint8Array(0),
    ]) {
      const [good] = pick(shares, 2) as [keys.Share]
      expect(keys.isShareOf(sharing, { index: 1, scalar })).toBe(false)
      expect(refusal(() => keys.joinShares(sharing, [{ index: 1, scalar }, good])).indices).toEqual([1])
    }
  })

  test('missing: fewer shares than the threshold are insufficient', () => {
    expect(refusal(() => keys.joinShares(sharing, [])).code).toBe('shares_insufficient')
    for (const share of shares)
      expect(refusal(() => keys.joinShares(sharing, [share])).code).toBe('shares_insufficient')
  })
})

describe('an invalid sharing', () => {
  const everywhere = (wrong: keys.Sharing) => [
    refusal(() => keys.joinShares(wrong, shares)),
    refusal(() => keys.verifyingShareOf(wrong, 1)),
    refusal(() => keys.isShareOf(wrong, shares[0] as keys.Share)),
    refusal(() => keys.wrongShares(wrong, shares)),
  ]

  test.each([
    [0, 3],
    [1, 3],
    [3, 2],
    [2, 16],
    [16, 16],
    [2, 1],
    [2.5, 3],
    [2, 3.5],
    [Number.NaN, 3],
    [2, Number.POSITIVE_INFINITY],
    [-2, 3],
  ])('%s of %s: refused', (threshold, total) => {
    for (const { code } of everywhere({ threshold, total, commitments: sharing.commitments }))
      expect(code).toBe('sharing_invalid')
    expect(refusal(() => keys.dealShares({ threshold, total })).code).toBe('sharing_invalid')
  })

  test('with missing, too few or too many commitments is refused', () => {
    const [first, second] = sharing.commitments as [Uint8Array, Uint8Array]
    for (const commitments of [[], [first], [first, second, second], Array.from({ length: 1000 }, () => first)])
      for (const { code } of everywhere({ ...sharing, commitments })) expect(code).toBe('sharing_invalid')
  })

  test('with a commitment that is the identity, of small or mixed order, or not canonical is refused', () => {
    const [first, second] = sharing.commitments as [Uint8Array, Uint8Array]
    const torsion = ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex))
    const wrong = [
      ...torsion.map((point) => point.toBytes()),
      ...torsion.filter((point) => !point.is0()).map((point) => Point.fromBytes(second).add(point).toBytes()),
      keys.fromHex(`ee${'ff'.repeat(30)}7f`),
      keys.fromHex(`01${'00'.repeat(30)}80`),
      new Uint8Array(0),
      second.subarray(1),
      new Uint8Array([...second, 0]),
    ]
    for (const bytes of wrong) {
      for (const { code } of everywhere({ ...sharing, commitments: [first, bytes] }))
        expect(code).toBe('sharing_invalid')
      for (const { code } of everywhere({ ...sharing, commitments: [bytes, second] }))
        expect(code).toBe('sharing_invalid')
    }
  })

  test('with a single flipped bit of a commitment leads to no key', () => {
    sharing.commitments.forEach((commitment, at) => {
      let refused = 0
      for (const wrong of flips(commitment)) {
        const commitments = sharing.commitments.map((each, n) => (n === at ? wrong : each))
        const { code } = refusal(() => keys.joinShares({ ...sharing, commitments }, shares.slice(0, 2)))
        expect(['sharing_invalid', 'share_invalid']).toContain(code)
        refused += 1
      }
      expect(refused).toBe(256)
    })
  })

  test('with commitments in another order has no valid share', () => {
    const commitments = [...sharing.commitments].reverse()
    expect(keys.wrongShares({ ...sharing, commitments }, shares)).toContain(2)
    expect(refusal(() => keys.joinShares({ ...sharing, commitments }, shares.slice(0, 2))).code).toBe('share_invalid')
  })

  test('whose share would be zero is refused', () => {
    // f(x) = 1 − x is zero at 1.
    const commitments = [Point.BASE.toBytes(), Point.BASE.negate().toBytes()]
    expect(refusal(() => keys.verifyingShareOf({ ...SIGNERS, commitments }, 1)).code).toBe('sharing_invalid')
  })
})
