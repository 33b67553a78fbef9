import { createHash } from 'node:crypto'
import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import { Point, pointOf, Scalars, scalarOf } from '../src/group.ts'
import * as keys from '../src/index.ts'
import { flips, isPlainEd25519, MESSAGE, refusal } from './support.ts'

const { fromHex, toHex } = keys
const ORDER = Point.CURVE().n
const P = Point.CURVE().p

/** A number as 32 bytes, little-endian, whatever it is. */
const le = (value: bigint) => fromHex(value.toString(16).padStart(64, '0')).reverse()
const withSign = (bytes: Uint8Array) => bytes.map((byte, at) => (at === 31 ? byte | 0x80 : byte))

const key = keys.dealShares({ threshold: 2, total: 2 })
const publicKey = key.sharing.commitments[0] as Uint8Array
const scalar = keys.joinShares(key.sharing, key.shares)

describe('points', () => {
  test('of prime order are read, and written unchanged', () => {
    for (let n = 1n; n < 20n; n += 1n) {
      const bytes = Point.BASE.multiply(n).toBytes()
      expect(pointOf(bytes).toBytes()).toEqual(bytes)
    }
  })

  test('of small order, including the identity, are refused', () => {
    expect(ED25519_TORSION_SUBGROUP).toHaveLength(8)
    for (const small of ED25519_TORSION_SUBGROUP)
      expect(refusal(() => pointOf(fromHex(small))).code).toBe('sharing_invalid')
  })

  test('of mixed order are refused', () => {
    const good = Point.fromBytes(publicKey)
    for (const small of ED25519_TORSION_SUBGROUP.map((hex) => Point.fromHex(hex)).filter((point) => !point.is0()))
      expect(refusal(() => pointOf(good.add(small).toBytes())).code).toBe('sharing_invalid')
  })

  test('not in the canonical form of RFC 8032 are refused: y not below p, x = 0 with a sign', () => {
    for (let y = P; y < 2n ** 255n; y += 1n)
      for (const bytes of [le(y), withSign(le(y))]) expect(refusal(() => pointOf(bytes)).code).toBe('sharing_invalid')
    for (const y of [1n, P - 1n]) expect(refusal(() => pointOf(withSign(le(y)))).code).toBe('sharing_invalid')
  })

  test('not on the curve, or of the wrong length, are refused', () => {
    let outside = 0
    for (let y = 2n; y < 40n; y += 1n) {
      try {
        Point.fromBytes(le(y))
      } catch {
        outside += 1
        expect(refusal(() => pointOf(le(y))).code).toBe('sharing_invalid')
      }
    }
    expect(outside).toBeGreaterThan(10)
    for (const length of [0, 1, 31, 33, 64])
      expect(refusal(() => pointOf(new Uint8Array(length).fill(1))).code).toBe('sharing_invalid')
  })

  test('are checked correctly, however many were read before', () => {
    const [small] = ED25519_TORSION_SUBGROUP.slice(1)
    let point = Point.BASE
    for (let n = 0; n < 600; n += 1) {
      point = point.add(Point.BASE)
      expect(pointOf(point.toBytes()).equals(point)).toBe(true)
    }
    expect(pointOf(publicKey).toBytes()).toEqual(publicKey)
    expect(refusal(() => pointOf(fromHex(small as string))).code).toBe('sharing_invalid')
  })
})

describe('scalars', () => {
  test('from 1 to order − 1 are read', () => {
    for (const value of [1n, 2n, ORDER - 1n]) expect(scalarOf(le(value))).toBe(value)
  })

  test('that are 0, not below the order, or of the wrong length are refused', () => {
    for (const value of [0n, ORDER, ORDER + 1n, 2n * ORDER, 2n ** 255n, 2n ** 256n - 1n])
      expect(refusal(() => scalarOf(le(value))).code).toBe('share_invalid')
    for (const length of [0, 31, 33])
      expect(refusal(() => scalarOf(new Uint8Array(length).fill(1))).code).toBe('share_invalid')
  })

  test('that are invalid are refused by every function that takes one', () => {
    for (const wrong of [le(0n), le(ORDER), new Uint8Array(31)]) {
      expect(refusal(() => keys.publicKeyOf(wrong)).code).toBe('share_invalid')
      expect(refusal(() => keys.signWithScalar(MESSAGE, wrong)).code).toBe('share_invalid')
      expect(refusal(() => keys.dealShares({ threshold: 2, total: 3 }, wrong)).code).toBe('share_invalid')
      expect(refusal(() => keys.commitNonces({ index: 1, scalar: wrong })).code).toBe('share_invalid')
    }
    for (const length of [0, 31, 33, 64])
      expect(refusal(() => keys.scalarOfSeed(new Uint8Array(length))).code).toBe('share_invalid')
  })
})

describe('signatures', () => {
  const signature = keys.signWithScalar(MESSAGE, scalar)

  test('by a scalar are plain Ed25519 signatures, each with a new nonce', () => {
    expect(isPlainEd25519(signature, MESSAGE, publicKey)).toBe(true)
    expect(keys.isSignature(signature, MESSAGE, publicKey)).toBe(true)
    expect(toHex(keys.signWithScalar(MESSAGE, scalar).subarray(0, 32))).not.toBe(toHex(signature.subarray(0, 32)))
  })

  test('with one changed bit are refused, as are another message or key', () => {
    for (const wrong of flips(signature)) expect(keys.isSignature(wrong, MESSAGE, publicKey)).toBe(false)
    for (const wrong of flips(MESSAGE)) expect(keys.isSignature(signature, wrong, publicKey)).toBe(false)
    for (const wrong of flips(publicKey)) expect(keys.isSignature(signature, MESSAGE, wrong)).toBe(false)
  })

  test('of the wrong length, or with a second half not below the order, are refused', () => {
    const s = Scalars.fromBytes(signature.subarray(32))
    const malleable = new Uint8Array([...signature.subarray(0, 32), ...le(s + ORDER)])
    for (const wrong of [malleable, signature.subarray(0, 63), new Uint8Array(64), new Uint8Array(0)])
      expect(keys.isSignature(wrong, MESSAGE, publicKey)).toBe(false)
  })

  test('under a key of small order are refused, although they would be valid for any message', () => {
    for (const small of ED25519_TORSION_SUBGROUP) {
      const forged = new Uint8Array([...fromHex(small), ...new Uint8Array(32)])
      expect(keys.isSignature(forged, MESSAGE, fromHex(small))).toBe(false)
    }
  })

  test('that not all verifiers accept, with a first half or a key of mixed order, are refused', () => {
    const small = Point.fromHex(ED25519_TORSION_SUBGROUP.find((hex) => !Point.fromHex(hex).is0()) as string)
    const nonce = 1234567n
    const R = Point.BASE.multiply(nonce).add(small).toBytes()
    const wide = createHash('sha512').update(R).update(publicKey).update(MESSAGE).digest()
    const challenge = Scalars.create(wide.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n))
    const s = Scalars.add(nonce, Scalars.mul(challenge, Scalars.fromBytes(scalar)))
    const mixed = new Uint8Array([...R, ...Scalars.toBytes(s)])
    expect(isPlainEd25519(mixed, MESSAGE, publicKey)).toBe(false)
    expect(keys.isSignature(mixed, MESSAGE, publicKey)).toBe(false)
    const key = Point.fromBytes(publicKey).add(small).toBytes()
    const pure = Point.BASE.multiply(nonce).toBytes()
    const hash = createHash('sha512').update(pure).update(key).update(MESSAGE).digest()
    const c = Scalars.create(hash.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n))
    const under = new Uint8Array([
      ...pure,
      ...Scalars.toBytes(Scalars.add(nonce, Scalars.mul(c, Scalars.fromBytes(scalar)))),
    ])
    expect(keys.isSignature(under, MESSAGE, key)).toBe(false)
  })
})

describe('base64url', () => {
  test('has one form for each sequence of bytes', () => {
    for (let length = 0; length < 70; length += 1) {
      const bytes = crypto.getRandomValues(new Uint8Array(length))
      expect(keys.toBase64Url(bytes)).toBe(Buffer.from(bytes).toString('base64url'))
      expect(keys.fromBase64Url(keys.toBase64Url(bytes))).toEqual(bytes)
    }
    for (const other of ['AB', 'AA==', 'A', 'AA AA', 'AA\n', '+w', '_/', 'ä', 'AAA$'])
      expect(() => keys.fromBase64Url(other), other).toThrow()
  })
})
