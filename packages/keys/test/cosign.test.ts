import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { Point } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { begin, flips, isPlainEd25519, MESSAGE, pick, refusal, SIGNERS, signTogether } from './support.ts'

const { sharing, shares } = keys.dealShares(SIGNERS)
const publicKey = sharing.commitments[0] as Uint8Array
const pair = pick(shares, 1, 2)
const [one, two, three] = pick(shares, 1, 2, 3) as [keys.Share, keys.Share, keys.Share]

describe('nonces', () => {
  test('of a machine that was copied with its random generator differ where what is signed does', () => {
    const drawn = (...about: Uint8Array[]) => {
      // As after the restart of a snapshot: the same bytes again.
      const copied = vi.spyOn(crypto, 'getRandomValues').mockImplementation((bytes) => {
        ;(bytes as Uint8Array).fill(7)
        return bytes
      })
      try {
        return keys.commitNonces(one, about).commitments
      } finally {
        copied.mockRestore()
      }
    }
    const [first, second] = [new Uint8Array([1]), new Uint8Array([2])]
    expect(drawn(first)).toEqual(drawn(first))
    const all = [drawn(first), drawn(second), drawn(first, second), drawn(second, first), drawn()]
    expect(new Set(all.flatMap(({ hiding, binding }) => [keys.toHex(hiding), keys.toHex(binding)])).size).toBe(10)
  })

  test('for the same message are never the same', () => {
    const drawn = Array.from({ length: 20 }, () => keys.commitNonces(one, [MESSAGE]).commitments)
    expect(new Set(drawn.map(({ hiding }) => keys.toHex(hiding))).size).toBe(20)
  })
})

describe('a threshold signature', () => {
  test('by any signers that reach the threshold is a plain Ed25519 signature of the key', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6 }).chain((total) =>
          fc.record({
            total: fc.constant(total),
            threshold: fc.integer({ min: 2, max: total }),
            message: fc.uint8Array({ maxLength: 200 }),
            more: fc.nat(),
          }),
        ),
        ({ total, threshold, message, more }) => {
          const dealt = keys.dealShares({ threshold, total })
          const count = threshold + (more % (total - threshold + 1))
          const signers = [...dealt.shares].sort(() => Math.random() - 0.5).slice(0, count)
          const signature = signTogether(dealt.sharing, signers, new Uint8Array(message))
          const key = dealt.sharing.commitments[0] as Uint8Array
          expect(isPlainEd25519(signature, message, key)).toBe(true)
          expect(keys.isSignature(signature, message, key)).toBe(true)
        },
      ),
      { numRuns: 20 },
    )
  })

  test('does not depend on the order of commitments and parts', () => {
    const { drawn, signing } = begin(sharing, pair)
    const backwards = { ...signing, commitments: [...signing.commitments].reverse() }
    const [a, b] = drawn as [(typeof drawn)[number], (typeof drawn)[number]]
    const parts = [keys.signShare(signing, a.share, a.nonces), keys.signShare(backwards, b.share, b.nonces)]
    const signature = keys.aggregate(backwards, parts.reverse())
    expect(isPlainEd25519(signature, MESSAGE, publicKey)).toBe(true)
  })

  test('differs each time, because its nonces do', () => {
    const first = keys.toHex(signTogether(sharing, pair).subarray(0, 32))
    expect(keys.toHex(signTogether(sharing, pair).subarray(0, 32))).not.toBe(first)
  })
})

describe('nonces', () => {
  test('sign once: a second use throws and reveals nothing', () => {
    const { drawn, signing } = begin(sharing, pair)
    const [{ share, nonces }] = drawn as [(typeof drawn)[number]]
    keys.signShare(signing, share, nonces)
    expect([...nonces.hiding, ...nonces.binding].every((byte) => byte === 0)).toBe(true)
    const { code, indices } = refusal(() => keys.signShare(signing, share, nonces))
    expect([code, indices]).toEqual(['share_invalid', [1]])
    const other = { ...signing, message: keys.utf8('another message') }
    expect(refusal(() => keys.signShare(other, share, nonces)).code).toBe('share_invalid')
  })

  test('are wiped after a failed attempt too', () => {
    const { drawn, signing } = begin(sharing, pair)
    const [{ share, nonces }] = drawn as [(typeof drawn)[number]]
    const broken = { ...signing, commitments: signing.commitments.slice(0, 1) }
    expect(refusal(() => keys.signShare(broken, share, nonces)).code).toBe('shares_insufficient')
    expect(refusal(() => keys.signShare(signing, share, nonces)).code).toBe('share_invalid')
  })

  test('must belong to the commitments', () => {
    const { drawn, signing } = begin(sharing, pair)
    const [{ share }] = drawn as [(typeof drawn)[number]]
    expect(refusal(() => keys.signShare(signing, share, keys.commitNonces(share).nonces)).code).toBe('share_invalid')
    const [a, b] = begin(sharing, pair).drawn as [(typeof drawn)[number], (typeof drawn)[number]]
    const swapped = { hiding: a.nonces.binding, binding: a.nonces.hiding }
    const commitments = [a.commitments, b.commitments]
    expect(refusal(() => keys.signShare({ ...signing, commitments }, a.share, swapped)).code).toBe('share_invalid')
  })

  test('are a new pair each time', () => {
    const drawn = Array.from({ length: 50 }, () => keys.commitNonces(one))
    const seen = new Set(drawn.flatMap(({ nonces }) => [nonces.hiding, nonces.binding].map(keys.toHex)))
    expect(seen.size).toBe(100)
  })
})

describe('a signer that cheats', () => {
  test('with one changed bit of a signature share is detected and named', () => {
    const { signing, sign } = begin(sharing, pair)
    const [good, bad] = sign() as [keys.SignatureShare, keys.SignatureShare]
    let at = 0
    for (const value of flips(bad.value)) {
      expect(keys.isSignatureShare(signing, { index: 2, value })).toBe(false)
      if (at++ % 16 > 0) continue
      const { code, indices } = refusal(() => keys.aggregate(signing, [good, { index: 2, value }]))
      expect([code, indices]).toEqual(['share_invalid', [2]])
    }
    expect(at).toBe(256)
    expect(keys.isSignatureShare(signing, good)).toBe(true)
    expect(isPlainEd25519(keys.aggregate(signing, [good, bad]), MESSAGE, publicKey)).toBe(true)
  })

  test('with errors that cancel out in the sum only makes the correct signature', () => {
    // z₁ + d and z₂ − d sum to the same z: no forgery, and each part by itself is seen to be wrong.
    const { signing, sign } = begin(sharing, pair)
    const { Fn } = Point
    const [a, b] = sign() as [keys.SignatureShare, keys.SignatureShare]
    const shifted = [
      { ...a, value: Fn.toBytes(Fn.add(Fn.fromBytes(a.value), 5n)) },
      { ...b, value: Fn.toBytes(Fn.sub(Fn.fromBytes(b.value), 5n)) },
    ]
    expect(shifted.map((part) => keys.isSignatureShare(signing, part))).toEqual([false, false])
    expect(keys.aggregate(signing, shifted)).toEqual(keys.aggregate(signing, [a, b]))
  })

  test('with a share of another wallet, another generation or another index is named', () => {
    const foreign = keys.dealShares(SIGNERS).shares[1] as keys.Share
    const newer = keys.dealShares(SIGNERS, keys.joinShares(sharing, pair)).shares[1] as keys.Share
    for (const wrong of [foreign, newer, { ...three, index: 2 }]) {
      const { signing, sign } = begin(sharing, [one, wrong])
      const { code, indices } = refusal(() => keys.aggregate(signing, sign()))
      expect([code, indices]).toEqual(['share_invalid', [2]])
    }
  })

  test('by signing another message is named', () => {
    const { drawn, signing } = begin(sharing, pair)
    const [a, b] = drawn as [(typeof drawn)[number], (typeof drawn)[number]]
    const parts = [
      keys.signShare(signing, a.share, a.nonces),
      keys.signShare({ ...signing, message: keys.utf8('give me everything') }, b.share, b.nonces),
    ]
    expect(refusal(() => keys.aggregate(signing, parts)).indices).toEqual([2])
  })

  test('by sending the two sides different commitments gets no signature', () => {
    const { drawn, signing } = begin(sharing, pair)
    const [a, b] = drawn as [(typeof drawn)[number], (typeof drawn)[number]]
    const swapped = { ...signing, commitments: [a.commitments, { ...keys.commitNonces(two).commitments }] }
    const parts = [keys.signShare(swapped, a.share, a.nonces), keys.signShare(signing, b.share, b.nonces)]
    expect(refusal(() => keys.aggregate(signing, parts)).indices).toEqual([1])
    expect(refusal(() => keys.aggregate(swapped, parts)).indices).toEqual([2])
  })

  test('is named, also if all signers cheat', () => {
    const { signing, sign } = begin(sharing, shares)
    const parts = sign().map(({ index, value }) => ({
      index,
      value: value.map((byte, at) => (at === 0 ? byte ^ 1 : byte)),
    }))
    expect(refusal(() => keys.aggregate(signing, parts)).indices).toEqual([1, 2, 3])
  })
})

describe('parts that do not match the signers', () => {
  const { signing, sign } = begin(sharing, pair)
  const [a, b] = sign() as [keys.SignatureShare, keys.SignatureShare]

  test('missing, repeated, or without a signer: refused and named', () => {
    expect(refusal(() => keys.aggregate(signing, [a])).indices).toEqual([2])
    expect(refusal(() => keys.aggregate(signing, [])).indices).toEqual([1, 2])
    expect(refusal(() => keys.aggregate(signing, [a, a])).indices).toEqual([1, 2])
    expect(refusal(() => keys.aggregate(signing, [a, a, b])).indices).toEqual([1])
    expect(refusal(() => keys.aggregate(signing, [a, b, { index: 3, value: b.value }])).indices).toEqual([3])
    expect(refusal(() => keys.aggregate(signing, [a, { index: 3, value: b.value }])).indices).toEqual([2, 3])
    for (const index of [0, 1.5, -1, Number.NaN]) {
      expect(refusal(() => keys.aggregate(signing, [a, { index, value: b.value }])).code).toBe('share_invalid')
      expect(keys.isSignatureShare(signing, { index, value: b.value })).toBe(false)
    }
  })

  test('of the wrong length, or not below the order: refused and named', () => {
    for (const value of [
      new Uint8Array(0),
      b.value.subarray(1),
      new Uint8Array([...b.value, 0]),
      new Uint8Array(32).fill(255),
    ]) {
      expect(keys.isSignatureShare(signing, { index: 2, value })).toBe(false)
      expect(refusal(() => keys.aggregate(signing, [a, { index: 2, value }])).indices).toEqual([2])
    }
  })
})

describe('invalid commitments', () => {
  const { drawn, signing } = begin(sharing, pair)
  const [a, b] = drawn as [(typeof drawn)[number], (typeof drawn)[number]]
  const copy = () => ({ hiding: new Uint8Array(a.nonces.hiding), binding: new Uint8Array(a.nonces.binding) })
  const tried = (commitments: keys.NonceCommitments[]) =>
    refusal(() => keys.signShare({ ...signing, commitments }, one, copy()))

  test('too few, a signer twice, a signer without a share: no part', () => {
    expect(tried([a.commitments]).code).toBe('shares_insufficient')
    expect(tried([a.commitments, a.commitments]).code).toBe('share_invalid')
    const twice = tried([a.commitments, b.commitments, b.commitments])
    expect([twice.code, twice.indices]).toEqual(['share_invalid', [2]])
    for (const index of [0, 4, 1.5, -1, 2 ** 53])
      expect(['sharing_invalid', 'share_invalid']).toContain(tried([a.commitments, { ...b.commitments, index }]).code)
    expect(tried([b.commitments, { ...a.commitments, index: 3 }]).code).toBe('share_invalid')
  })

  test('the identity, of small or mixed order, not canonical, of the wrong length: no part', () => {
    const torsion = ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex))
    const wrong = [
      ...torsion.map((point) => point.toBytes()),
      ...torsion.slice(1).map((point) => Point.fromBytes(b.commitments.hiding).add(point).toBytes()),
      keys.fromHex(`ee${'ff'.repeat(30)}7f`),
      keys.fromHex(`01${'00'.repeat(30)}80`),
      new Uint8Array(0),
      b.commitments.hiding.subarray(1),
    ].filter((bytes) => keys.toHex(bytes) !== keys.toHex(b.commitments.hiding))
    for (const bytes of wrong) {
      expect(tried([a.commitments, { ...b.commitments, hiding: bytes }]).code).toBe('share_invalid')
      expect(tried([a.commitments, { ...b.commitments, binding: bytes }]).code).toBe('share_invalid')
    }
  })

  test('a single flipped bit of the own commitments: no part', () => {
    for (const hiding of flips(a.commitments.hiding))
      expect(tried([{ ...a.commitments, hiding }, b.commitments]).code).toBe('share_invalid')
    for (const binding of flips(a.commitments.binding))
      expect(tried([{ ...a.commitments, binding }, b.commitments]).code).toBe('share_invalid')
  })

  test('a key that is not a point of prime order: no part', () => {
    for (const hex of ED25519_TORSION_SUBGROUP) {
      const commitments = [keys.fromHex(hex), sharing.commitments[1] as Uint8Array]
      const wrong = { ...signing, sharing: { ...sharing, commitments } }
      expect(['sharing_invalid', 'share_invalid']).toContain(refusal(() => keys.signShare(wrong, one, copy())).code)
    }
  })
})
