import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Point, Scalars } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { deal, flips, isPlainEd25519, MESSAGE, pick, refusal, SIGNERS, signTogether } from './support.ts'

const { sharing: old, shares } = keys.dealShares(SIGNERS)
const publicKey = old.commitments[0] as Uint8Array
const [one, two, three] = shares as [keys.Share, keys.Share, keys.Share]
const resharing: keys.Resharing = { old, set: [1, 2], signers: SIGNERS }
const { dealings, subshares } = deal(resharing, [one, two])
const [first, second] = dealings as [keys.Dealing, keys.Dealing]
const partsOf = (index: number) => subshares.filter(({ to }) => to === index)
const received = [1, 2, 3].map((index) => keys.receiveReshare(resharing, dealings, index, partsOf(index)))
const fresh = received.map(({ share }) => share)
const [{ sharing }] = received as [(typeof received)[number]]

const flipped = (bytes: Uint8Array, bit = 0) => [...flips(bytes)][bit] as Uint8Array
const outcome = (run: () => unknown) => {
  const { code, indices } = refusal(run)
  return [code, ...indices]
}

describe('a resharing', () => {
  test('keeps the key, and the new shares sign with it', () => {
    expect(sharing.commitments[0]).toEqual(publicKey)
    for (const each of received) expect(each.sharing).toEqual(sharing)
    for (const pair of [pick(fresh, 1, 2), pick(fresh, 1, 3), pick(fresh, 2, 3)]) {
      expect(keys.joinShares(sharing, pair)).toEqual(keys.joinShares(old, [one, two]))
      expect(isPlainEd25519(signTogether(sharing, pair), MESSAGE, publicKey)).toBe(true)
    }
  })

  test('makes a new generation: old and new shares cannot be combined', () => {
    expect(sharing.commitments[1]).not.toEqual(old.commitments[1])
    for (const share of fresh) {
      expect(keys.isShareOf(old, share)).toBe(false)
      expect(keys.isShareOf(sharing, pick(shares, share.index)[0] as keys.Share)).toBe(false)
    }
    const mixed = [one, fresh[1] as keys.Share]
    expect(outcome(() => keys.joinShares(old, mixed))).toEqual(['share_invalid', 2])
    expect(outcome(() => keys.joinShares(sharing, mixed))).toEqual(['share_invalid', 1])
    expect(outcome(() => signTogether(old, mixed))).toEqual(['share_invalid', 2])
    expect(outcome(() => signTogether(sharing, mixed))).toEqual(['share_invalid', 1])
  })

  test('can change threshold and total, and can have more dealers than the threshold', () => {
    fc.assert(
      fc.property(
        fc
          .integer({ min: 2, max: 6 })
          .chain((total) => fc.record({ total: fc.constant(total), threshold: fc.integer({ min: 2, max: total }) })),
        fc.constantFrom([1, 2], [3, 1], [2, 3], [3, 2, 1]),
        (signers, set) => {
          const to = { old, set, signers }
          const dealt = deal(to, pick(shares, ...set))
          const ends = Array.from({ length: signers.total }, (_, at) =>
            keys.receiveReshare(
              to,
              dealt.dealings,
              at + 1,
              dealt.subshares.filter((part) => part.to === at + 1),
            ),
          )
          const [end] = ends as [(typeof ends)[number]]
          expect(end.sharing).toMatchObject(signers)
          const joined = keys.joinShares(end.sharing, ends.map(({ share }) => share).slice(-signers.threshold))
          expect(keys.publicKeyOf(joined)).toEqual(publicKey)
        },
      ),
      { numRuns: 12 },
    )
  })

  test('gives each dealer a secret to prove: λ times its share, the secret of the first commitment', () => {
    const { weight, dealing } = keys.dealReshare(resharing, one)
    expect(keys.publicKeyOf(weight)).toEqual(dealing.commitments[0])
    // λ of 1 among {1, 2} is 2.
    expect(Scalars.fromBytes(weight)).toBe(Scalars.mul(2n, Scalars.fromBytes(one.scalar)))
  })
})

describe('the set of dealers', () => {
  test('with too few, a repeated or an impossible index is refused', () => {
    const deals = (set: number[]) => outcome(() => keys.dealReshare({ ...resharing, set }, one))
    expect(deals([1])[0]).toBe('shares_insufficient')
    expect(deals([])[0]).toBe('shares_insufficient')
    expect(deals([1, 1])).toEqual(['share_invalid', 1])
    expect(outcome(() => keys.dealReshare({ ...resharing, set: [3, 1, 1] }, three))).toEqual(['share_invalid', 1])
    for (const index of [0, 4, 1.5, -1, Number.NaN, 2 ** 53]) {
      expect(deals([1, index])[0]).toBe('share_invalid')
      expect(outcome(() => keys.newSharing({ ...resharing, set: [1, index] }, dealings))[0]).toBe('share_invalid')
    }
    expect(deals([2, 3])).toEqual(['share_invalid', 1])
  })

  test('with a share of another key or generation is refused', () => {
    const foreign = keys.dealShares(SIGNERS).shares[0] as keys.Share
    for (const share of [
      foreign,
      fresh[0] as keys.Share,
      { ...two, index: 1 },
      { index: 1, scalar: flipped(one.scalar) },
    ])
      expect(outcome(() => keys.dealReshare(resharing, share))).toEqual(['share_invalid', 1])
    for (const index of [0, 4, 1.5])
      expect(refusal(() => keys.dealReshare(resharing, { ...one, index })).code).toBe('sharing_invalid')
  })

  test('for an impossible number of signers is refused', () => {
    for (const signers of [
      { threshold: 1, total: 3 },
      { threshold: 4, total: 3 },
      { threshold: 2, total: 16 },
    ])
      expect(refusal(() => keys.dealReshare({ ...resharing, signers }, one)).code).toBe('sharing_invalid')
  })
})

describe('a dealing', () => {
  const made = (wrong: keys.Dealing[], of = resharing) => outcome(() => keys.newSharing(of, wrong))

  test('of another share, wallet or generation is refused, and the dealer is named', () => {
    const foreign = keys.dealShares(SIGNERS)
    const theirs = keys.dealReshare({ ...resharing, old: foreign.sharing }, foreign.shares[1] as keys.Share).dealing
    const newer = keys.dealReshare({ ...resharing, old: sharing }, fresh[1] as keys.Share).dealing
    const thirds = keys.dealReshare({ ...resharing, set: [1, 3] }, three).dealing
    for (const wrong of [theirs, newer, { ...thirds, from: 2 }, { ...first, from: 2 }])
      expect(made([first, wrong])).toEqual(['share_invalid', 2])
  })

  test('for another set of old holders, with another λ, is refused', () => {
    const elsewhere = deal({ ...resharing, set: [1, 3] }, [one, three]).dealings[0] as keys.Dealing
    expect(made([elsewhere, second])).toEqual(['share_invalid', 1])
    expect(made(dealings, { ...resharing, set: [1, 3] })[0]).toBe('share_invalid')
    expect(made([first, { ...second, from: 3 }], { ...resharing, set: [1, 3] })[0]).toBe('share_invalid')
  })

  test('that is missing, repeated, or from a holder who does not deal is refused', () => {
    const thirds = keys.dealReshare({ ...resharing, set: [2, 3] }, three).dealing
    for (const wrong of [
      [],
      [first],
      [first, first],
      [first, second, second],
      [first, second, thirds],
      [first, thirds],
    ])
      expect(refusal(() => keys.newSharing(resharing, wrong)).message).toContain('One dealing of each old share')
  })

  test('with a single flipped bit of its first commitment is refused, and the dealer is named', () => {
    for (const bytes of flips(first.commitments[0] as Uint8Array)) {
      const [code, ...indices] = made([{ from: 1, commitments: [bytes, first.commitments[1] as Uint8Array] }, second])
      expect(['share_invalid', 'sharing_invalid']).toContain(code)
      expect(indices).toEqual([1])
    }
  })

  test('with a flipped bit of another commitment gives nobody a share', () => {
    for (const bit of [0, 1, 2, 100, 200, 254, 255]) {
      const commitments = [first.commitments[0] as Uint8Array, flipped(first.commitments[1] as Uint8Array, bit)]
      const [code, ...indices] = outcome(() =>
        keys.receiveReshare(resharing, [{ from: 1, commitments }, second], 1, partsOf(1)),
      )
      expect(['share_invalid', 'sharing_invalid']).toContain(code)
      expect(indices).toEqual([1])
    }
  })

  test('with too few, too many or invalid commitments is refused', () => {
    const [c0, c1] = first.commitments as [Uint8Array, Uint8Array]
    const small = ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex))
    for (const commitments of [
      [],
      [c0],
      [c0, c1, c1],
      ...small.map((point) => [c0, point.toBytes()]),
      ...small.map((point) => [point.toBytes(), c1]),
      ...small.filter((point) => !point.is0()).map((point) => [c0, Point.fromBytes(c1).add(point).toBytes()]),
      ...small.filter((point) => !point.is0()).map((point) => [Point.fromBytes(c0).add(point).toBytes(), c1]),
    ])
      expect(made([{ from: 1, commitments }, second])).toEqual(['sharing_invalid', 1])
  })

  test('is refused if the first commitments do not sum to the key, also if two shifts cancel out', () => {
    // C₁[0] + S and C₂[0] − S sum to Y, but neither is λ · its verifying share.
    const shift = Point.BASE.multiply(99n)
    const [a0, a1] = first.commitments as [Uint8Array, Uint8Array]
    const [b0, b1] = second.commitments as [Uint8Array, Uint8Array]
    const plus = { from: 1, commitments: [Point.fromBytes(a0).add(shift).toBytes(), a1] }
    const minus = { from: 2, commitments: [Point.fromBytes(b0).subtract(shift).toBytes(), b1] }
    expect(made([plus, second])).toEqual(['share_invalid', 1])
    expect(made([first, minus])).toEqual(['share_invalid', 2])
    expect(made([plus, minus])).toEqual(['share_invalid', 1])
  })

  test('that cancels out the higher commitment of another dealing is refused', () => {
    const commitments = [
      second.commitments[0] as Uint8Array,
      Point.fromBytes(first.commitments[1] as Uint8Array)
        .negate()
        .toBytes(),
    ]
    expect(made([first, { from: 2, commitments }])[0]).toBe('sharing_invalid')
  })
})

describe('a sub-share', () => {
  const [a, b] = partsOf(3) as [keys.Subshare, keys.Subshare]
  const refused = (parts: keys.Subshare[], index = 3) =>
    outcome(() => keys.receiveReshare(resharing, dealings, index, parts))

  test('with a single flipped bit is refused, and the dealer is named', () => {
    for (const scalar of flips(a.scalar)) expect(refused([{ ...a, scalar }, b])).toEqual(['share_invalid', 1])
    for (const scalar of [new Uint8Array(0), new Uint8Array(32), new Uint8Array(32).fill(255), a.scalar.subarray(1)])
      expect(refused([a, { ...b, scalar }])).toEqual(['share_invalid', 2])
  })

  test('for another holder, of another dealing, missing or repeated is refused, and the dealer is named', () => {
    const [strange] = partsOf(2) as [keys.Subshare]
    const again = deal(resharing, [one, two]).subshares.filter(({ to }) => to === 3) as [keys.Subshare]
    expect(refused([strange, b])).toEqual(['share_invalid', 1])
    expect(refused([{ ...a, to: 2 }, b])).toEqual(['share_invalid', 1])
    expect(refused([{ ...strange, to: 3 }, b])).toEqual(['share_invalid', 1])
    expect(refused([again[0], b])).toEqual(['share_invalid', 1])
    expect(
      refused([
        { ...a, from: 2 },
        { ...b, from: 1 },
      ]),
    ).toEqual(['share_invalid', 1, 2])
    expect(refused([b])).toEqual(['share_invalid', 1])
    expect(refused([])).toEqual(['share_invalid', 1, 2])
    expect(refused([a, a, b])).toEqual(['share_invalid', 1])
  })

  test('is found by its recipient among all sub-shares', () => {
    expect(keys.receiveReshare(resharing, dealings, 3, subshares)).toEqual(received[2])
  })

  test('at an impossible index is refused: at 0 it would be a part of the key', () => {
    for (const index of [0, 4, 1.5, -1, Number.NaN])
      expect(
        refused(
          subshares.map((part) => ({ ...part, to: index })),
          index,
        )[0],
      ).toBe('sharing_invalid')
  })
})

describe('a dealer without an old share', () => {
  test('may deceive one new holder with chosen commitments, but cannot prove its weight', () => {
    // C₀ is public, and C₁ can be chosen so that a known scalar fits at index 1: hence the proof of knowledge.
    const [c0] = second.commitments as [Uint8Array]
    const known = 777n
    const c1 = Point.BASE.multiply(known).subtract(Point.fromBytes(c0)).toBytes()
    const forged = { from: 2, commitments: [c0, c1] }
    const part = { from: 2, to: 1, scalar: Scalars.toBytes(known) }
    const fooled = keys.receiveReshare(resharing, [first, forged], 1, [partsOf(1)[0] as keys.Subshare, part])
    expect(keys.isShareOf(fooled.sharing, fooled.share)).toBe(true)
    const subject = { tenantId: 't', appId: 'a', userId: 'u', walletId: 'w', generation: 1, challengeId: 'c' }
    const proof = keys.prove(Scalars.toBytes(known), 'reshare-dealing', subject, { from: 2, set: [1, 2] })
    expect(keys.isProof(proof, c0, 'reshare-dealing', subject, { from: 2, set: [1, 2] })).toBe(false)
  })
})

describe('a dealing of zero', () => {
  const zeroed = { ...resharing, set: [2, 3], zero: [1] }
  const own = deal(zeroed, [two, three])
  const zero = keys.dealZero(zeroed, 1)
  const [, slope] = zero.dealing.commitments as [Uint8Array, Uint8Array]
  const all = [...own.dealings, zero.dealing]
  const parts = [...own.subshares, ...zero.subshares]
  const receive = (index: number, of = all, from = parts) =>
    keys.receiveReshare(
      zeroed,
      of,
      index,
      from.filter(({ to }) => to === index),
    )

  test('keeps the key and changes every share: without it, nobody has a share', () => {
    const ends = [1, 2, 3].map((index) => receive(index))
    const [end] = ends as [(typeof ends)[number]]
    const shares = ends.map(({ share }) => share)
    for (const pair of [shares.slice(0, 2), shares.slice(1)])
      expect(keys.publicKeyOf(keys.joinShares(end.sharing, pair))).toEqual(sharing.commitments[0])
    for (const { index } of shares) {
      const without = own.subshares.filter(({ to }) => to === index)
      const sum = without.map(({ scalar }) => Scalars.fromBytes(scalar)).reduce((a, b) => Scalars.add(a, b))
      const scalar = Scalars.toBytes(sum)
      expect(scalar).not.toEqual(shares[index - 1]?.scalar)
      expect(keys.isShareOf(end.sharing, { index, scalar })).toBe(false)
    }
  })

  test('has the identity as its first commitment, and the secret of the second to prove', () => {
    expect(zero.dealing.commitments[0]).toEqual(Point.ZERO.toBytes())
    expect(keys.publicKeyOf(zero.weight)).toEqual(slope)
    expect(keys.provenPoint(zeroed, zero.dealing)).toEqual(slope)
    expect(keys.provenPoint(zeroed, own.dealings[0] as keys.Dealing)).toEqual(own.dealings[0]?.commitments[0])
  })

  test('that is missing, repeated, not of zero, or from somebody else is refused', () => {
    const made = (dealings: keys.Dealing[], of: keys.Resharing = zeroed) =>
      outcome(() => keys.newSharing(of, dealings))[0]
    expect(made(own.dealings)).toBe('share_invalid')
    expect(made([...all, zero.dealing])).toBe('share_invalid')
    expect(made(all, { ...zeroed, zero: [] })).toBe('share_invalid')
    expect(made([...own.dealings, { ...zero.dealing, from: 2 }])).toBe('share_invalid')
    const shifted = { from: 1, commitments: [Point.BASE.toBytes(), slope] }
    for (const wrong of [shifted, { from: 1, commitments: [slope] }, { from: 1, commitments: [slope, slope] }])
      expect(outcome(() => keys.newSharing(zeroed, [...own.dealings, wrong]))).toEqual(['sharing_invalid', 1])
    // An old share is dealt, not zero.
    const [first] = own.dealings as [keys.Dealing]
    const none = { ...first, commitments: [Point.ZERO.toBytes(), first.commitments[1] as Uint8Array] }
    expect(made([none, ...all.slice(1)])).toBe('sharing_invalid')
    expect(outcome(() => keys.dealZero(zeroed, 2))).toEqual(['share_invalid', 2])
    expect(outcome(() => keys.dealZero({ ...zeroed, zero: [2] }, 2))).toEqual(['share_invalid', 2])
    expect(outcome(() => keys.dealZero({ ...zeroed, zero: [4] }, 4))).toEqual(['share_invalid', 4])
    expect(outcome(() => keys.dealZero(resharing, 1))).toEqual(['share_invalid', 1])
  })

  test('with a flipped bit of a sub-share or of its second commitment gives nobody a share', () => {
    for (const { to, scalar } of zero.subshares) {
      const flippedOne = parts.map((part) => (part.scalar === scalar ? { ...part, scalar: flipped(scalar) } : part))
      expect(outcome(() => receive(to, all, flippedOne))).toEqual(['share_invalid', 1])
    }
    for (const bit of [0, 1, 100, 254]) {
      const wrong = { from: 1, commitments: [Point.ZERO.toBytes(), flipped(slope, bit)] }
      expect(outcome(() => receive(2, [...own.dealings, wrong]))[0]).toMatch(/invalid/)
    }
  })
})
