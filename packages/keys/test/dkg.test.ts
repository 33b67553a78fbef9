import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Point, Scalars } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { flips, generate, isPlainEd25519, MESSAGE, refusal, SIGNERS, signTogether } from './support.ts'

const flipped = (bytes: Uint8Array, bit = 0) => [...flips(bytes)][bit] as Uint8Array

describe('distributed key generation', () => {
  test('gives all participants the same key and different shares, and any threshold of them can sign', () => {
    fc.assert(
      fc.property(
        fc
          .integer({ min: 2, max: 5 })
          .chain((total) => fc.record({ total: fc.constant(total), threshold: fc.integer({ min: 2, max: total }) })),
        (signers) => {
          const { finish } = generate(signers)
          const ends = Array.from({ length: signers.total }, (_, at) => finish(at + 1))
          const [{ sharing }] = ends as [(typeof ends)[number]]
          for (const end of ends) expect(end.sharing).toEqual(sharing)
          const shares = ends.map(({ share }) => share)
          expect(keys.wrongShares(sharing, shares)).toEqual([])
          expect(shares.map(({ index }) => index)).toEqual(ends.map((_, at) => at + 1))
          const last = shares.slice(-signers.threshold)
          const signature = signTogether(sharing, last)
          expect(isPlainEd25519(signature, MESSAGE, sharing.commitments[0] as Uint8Array)).toBe(true)
          expect(keys.publicKeyOf(keys.joinShares(sharing, last))).toEqual(sharing.commitments[0])
        },
      ),
      { numRuns: 6 },
    )
  })

  test('continues from a state that was stored as JSON', () => {
    const { stateOf, othersOf, partsOf, finish } = generate()
    const stored = JSON.stringify(stateOf(2), (_, value) =>
      value instanceof Uint8Array ? { bytes: keys.toHex(value) } : value,
    )
    const state = JSON.parse(stored, (_, value) => (value?.bytes === undefined ? value : keys.fromHex(value.bytes)))
    expect(keys.finishDkg(state, othersOf(2), partsOf(2))).toEqual(finish(2))
  })

  test('has the same result if it is finished twice', () => {
    const { finish } = generate()
    expect(finish(1)).toEqual(finish(1))
  })

  test('combines all contributions: one alone does not determine the key', () => {
    const { parties, finish } = generate()
    const key = keys.toHex(finish(1).sharing.commitments[0] as Uint8Array)
    for (const { round1 } of parties) expect(keys.toHex(round1.commitments[0] as Uint8Array)).not.toBe(key)
    const sum = parties.reduce(
      (total, { round1 }) => total.add(Point.fromBytes(round1.commitments[0] as Uint8Array)),
      Point.ZERO,
    )
    expect(keys.toHex(sum.toBytes())).toBe(key)
  })

  test('refuses impossible numbers of signers and indices', () => {
    for (const [threshold, total] of [
      [1, 3],
      [4, 3],
      [2, 16],
      [2.5, 3],
    ] as const)
      expect(refusal(() => keys.beginDkg(1, { threshold, total })).code).toBe('sharing_invalid')
    for (const index of [0, 4, -1, 1.5, 2 ** 53, Number.NaN])
      expect(refusal(() => keys.beginDkg(index, SIGNERS)).code).toBe('sharing_invalid')
  })
})

describe.each([SIGNERS, { threshold: 3, total: 4 }])('a first message, $threshold of $total,', (signers) => {
  const { stateOf, othersOf, partsOf } = generate(signers)
  const [second, ...rest] = othersOf(1) as [keys.DkgRound1, ...keys.DkgRound1[]]
  const [third, ...more] = rest as [keys.DkgRound1, ...keys.DkgRound1[]]
  const outcomes = (others: keys.DkgRound1[]) =>
    [
      refusal(() => keys.dealSubshares(stateOf(1), others)),
      refusal(() => keys.finishDkg(stateOf(1), others, partsOf(1))),
    ].map(({ code, indices }) => [code, ...indices])
  const instead = (said: keys.DkgRound1) => outcomes([said, third, ...more])

  test('with an invalid proof of knowledge is refused, and the sender is named', () => {
    for (const at of [0, 7, 255, 256, 400, 511]) {
      const proofOfKnowledge = flipped(second.proofOfKnowledge, at)
      const named = ['protocol_violated', 2]
      expect(instead({ ...second, proofOfKnowledge })).toEqual([named, named])
    }
    for (const proofOfKnowledge of [new Uint8Array(0), new Uint8Array(64), second.proofOfKnowledge.subarray(1)])
      expect(instead({ ...second, proofOfKnowledge })[0]).toEqual(['protocol_violated', 2])
  })

  test('with the proof or the message of another participant is refused', () => {
    expect(instead({ ...second, proofOfKnowledge: third.proofOfKnowledge })[0]).toEqual(['protocol_violated', 2])
    expect(instead({ ...third, index: 2 })[0]).toEqual(['protocol_violated', 2])
    const own = othersOf(2).find(({ index }) => index === 1) as keys.DkgRound1
    expect(instead({ ...own, index: 2 })[0]).toEqual(['protocol_violated', 2])
  })

  test('that cancels out the others is refused: nobody can prove knowledge of its secret', () => {
    const first = othersOf(2).find(({ index }) => index === 1) as keys.DkgRound1
    const chosen = 12345n
    const [mine] = first.commitments as [Uint8Array]
    const cancelling = Point.BASE.multiply(chosen).subtract(Point.fromBytes(mine)).toBytes()
    const commitments = [cancelling, ...second.commitments.slice(1)]
    expect(instead({ ...second, commitments })[0]).toEqual(['protocol_violated', 2])
  })

  test('with a single flipped bit of a commitment leads to no key', () => {
    second.commitments.forEach((commitment, at) => {
      for (const bit of [0, 1, 100, 254, 255]) {
        const commitments = second.commitments.map((each, n) => (n === at ? flipped(commitment, bit) : each))
        const others = [{ ...second, commitments }, third, ...more]
        const { code, indices } = refusal(() => keys.finishDkg(stateOf(1), others, partsOf(1)))
        expect([code, indices]).toEqual(['protocol_violated', [2]])
      }
    })
  })

  test('with too few, too many, missing or invalid commitments is refused', () => {
    const [first, ...others] = second.commitments as [Uint8Array, ...Uint8Array[]]
    const small = ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex))
    for (const commitments of [
      [],
      [first],
      [first, ...others, ...others],
      ...small.map((point) => [point.toBytes(), ...others]),
      ...small.map((point) => [first, ...others.slice(1), point.toBytes()]),
      ...small.slice(1).map((point) => [
        first,
        ...others.slice(1),
        Point.fromBytes(others[0] as Uint8Array)
          .add(point)
          .toBytes(),
      ]),
    ])
      if (keys.canonicalJson(commitments.map(keys.toHex)) !== keys.canonicalJson(second.commitments.map(keys.toHex)))
        expect(instead({ ...second, commitments })[0]).toEqual(['protocol_violated', 2])
  })

  test('that is missing, additional, repeated or the own one is refused', () => {
    const own = othersOf(2).find(({ index }) => index === 1) as keys.DkgRound1
    for (const others of [
      [],
      [third, ...more],
      [second, second, ...more],
      [second, third, ...more, second],
      [own, third, ...more],
    ])
      for (const run of [
        () => keys.dealSubshares(stateOf(1), others),
        () => keys.finishDkg(stateOf(1), others, partsOf(1)),
      ]) {
        const { code, message } = refusal(run)
        expect(code).toBe('protocol_violated')
        expect(message).toContain('needs each index')
      }
    for (const index of [0, signers.total + 1, 1.5, -1])
      for (const [code] of outcomes([{ ...second, index }, third, ...more])) expect(code).toBe('sharing_invalid')
  })
})

describe('a sub-share', () => {
  const { stateOf, othersOf, partsOf } = generate()
  const [second, third] = partsOf(1) as [keys.Subshare, keys.Subshare]
  const refused = (parts: keys.Subshare[]) => {
    const { code, indices } = refusal(() => keys.finishDkg(stateOf(1), othersOf(1), parts))
    return [code, ...indices]
  }

  test('with a single flipped bit is refused, and the sender is named', () => {
    for (const bit of [0, 1, 77, 128, 250, 252, 255]) {
      expect(refused([{ ...second, scalar: flipped(second.scalar, bit) }, third])).toEqual(['protocol_violated', 2])
      expect(refused([second, { ...third, scalar: flipped(third.scalar, bit) }])).toEqual(['protocol_violated', 3])
    }
  })

  test('of the wrong size, zero, or not below the order is refused', () => {
    for (const scalar of [new Uint8Array(0), new Uint8Array(31), new Uint8Array(32), new Uint8Array(32).fill(255)])
      expect(refused([{ ...second, scalar }, third])).toEqual(['protocol_violated', 2])
  })

  test('of another share or run, swapped, missing, repeated or without a sender is refused', () => {
    const [strange] = partsOf(2) as [keys.Subshare]
    const [before] = generate().partsOf(1) as [keys.Subshare]
    expect(refused([strange, third])[0]).toBe('protocol_violated')
    expect(refused([{ ...second, to: 2 }, third])[0]).toBe('protocol_violated')
    expect(refused([{ ...strange, from: 2, to: 1 }, third])).toEqual(['protocol_violated', 2])
    expect(refused([before, third])).toEqual(['protocol_violated', 2])
    expect(
      refused([
        { ...second, from: 3 },
        { ...third, from: 2 },
      ]),
    ).toEqual(['protocol_violated', 2, 3])
    expect(refused([second])).toEqual(['protocol_violated', 3])
    expect(refused([])).toEqual(['protocol_violated', 2, 3])
    expect(refused([second, second])).toEqual(['protocol_violated', 2, 3])
    expect(refused([second, third, third])).toEqual(['protocol_violated', 3])
    for (const from of [0, 1, 4, 1.5, Number.NaN])
      expect(refused([{ ...second, from }, third])).toEqual(['protocol_violated', 2])
  })

  test('is the value of the sender’s polynomial at the recipient’s index', () => {
    const { coefficients } = stateOf(2)
    const [a, b] = coefficients.map((bytes) => Scalars.fromBytes(bytes)) as [bigint, bigint]
    expect(Scalars.fromBytes(second.scalar)).toBe(Scalars.add(a, b))
    expect(second).toMatchObject({ from: 2, to: 1 })
  })
})
