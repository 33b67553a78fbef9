import { createFROST } from '@noble/curves/abstract/frost.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { sha512 } from '@noble/hashes/sha2.js'
import { toHex } from './bytes.ts'
import { ShareError } from './errors.ts'

/** The group of Ed25519: points of prime order, and scalars modulo that order. */
export const Point = ed25519.Point
export const Scalars = Point.Fn

/** A point as the library computes with it. */
export type GroupPoint = InstanceType<typeof Point>

/**
 * FROST(Ed25519, SHA-512), RFC 9591, section 6.1. Of the library's own `ed25519_FROST` it differs in one thing: it asks
 * each point once, not twice, whether it is of prime order, which is most of the time that signing takes.
 */
export const Frost = createFROST({ name: 'FROST-ED25519-SHA512-v1', Point, hash: sha512, H2: '' })

const BYTES = 32

/** Points that passed `pointOf`, oldest first: all are public, and each check costs a scalar multiplication. */
const passed = new Map<string, GroupPoint>()
const PASSED_MAX = 512

/**
 * Reads a point: 32 bytes in the one way in which RFC 8032 writes it, of prime order and not the identity (RFC 9591,
 * section 3.1). @throws ShareError sharing_invalid
 */
export function pointOf(bytes: Uint8Array): GroupPoint {
  const name = bytes.length === BYTES ? toHex(bytes) : ''
  const known = passed.get(name)
  if (known !== undefined) return known
  const point = checkedPoint(bytes)
  const [oldest] = passed.size < PASSED_MAX ? [] : passed.keys()
  if (oldest !== undefined) passed.delete(oldest)
  passed.set(name, point)
  return point
}

function checkedPoint(bytes: Uint8Array): GroupPoint {
  const refuse = () => new ShareError('sharing_invalid', 'This is not a canonical point of prime order.')
  if (bytes.length !== BYTES) throw refuse()
  let point: GroupPoint
  try {
    point = Point.fromBytes(bytes)
  } catch {
    throw refuse()
  }
  if (point.is0() || !point.isTorsionFree() || !sameBytes(point.toBytes(), bytes)) throw refuse()
  return point
}

/** Reads a scalar: 32 bytes, little-endian, in 1 … order − 1. @throws ShareError share_invalid */
export function scalarOf(bytes: Uint8Array): bigint {
  if (bytes.length === BYTES) {
    try {
      const scalar = Scalars.fromBytes(bytes)
      if (!Scalars.is0(scalar)) return scalar
    } catch {
      // Falls through: not below the order.
    }
  }
  throw new ShareError('share_invalid', 'This is not a scalar from 1 to the order of the group.')
}

/** Whether two public values are the same. Not for secrets: its duration tells where they differ. */
export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at])
}

/** The point of a secret scalar, 32 bytes: for a whole key its Ed25519 public key. */
export function publicKeyOf(scalar: Uint8Array): Uint8Array {
  return Point.BASE.multiply(scalarOf(scalar)).toBytes()
}

/**
 * The secret scalar that RFC 8032, section 5.1.5, makes of a 32-byte seed, reduced by the group's order: for splitting a
 * key that exists as a seed. A scalar can't be turned back into a seed.
 */
export function scalarOfSeed(seed: Uint8Array): Uint8Array {
  if (seed.length !== BYTES) throw new ShareError('share_invalid', `A seed has ${BYTES} bytes.`)
  const head = sha512(seed).slice(0, BYTES)
  head[0] = (head[0] as number) & 248
  head[31] = ((head[31] as number) & 127) | 64
  const clamped = head.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  head.fill(0)
  return Scalars.toBytes(Scalars.create(clamped))
}

/**
 * Signs with a secret scalar. What comes out is an Ed25519 signature (RFC 8032) like any other: 64 bytes that verify under
 * `publicKeyOf(scalar)`. The nonce is random, since a scalar has no seed to derive it from.
 */
export function signWithScalar(message: Uint8Array, scalar: Uint8Array): Uint8Array {
  scalarOf(scalar)
  return Frost.sign(message, scalar)
}

/**
 * Whether a signature is this key's over this message: as RFC 8032 says, its key and its first half canonical and of prime
 * order, so that verifiers with the factor 8 in their equation and those without it agree.
 */
export function isSignature(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  try {
    pointOf(publicKey)
    checkedPoint(signature.subarray(0, BYTES))
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false
  }
}
