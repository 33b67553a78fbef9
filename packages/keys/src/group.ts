import { createFROST } from '@noble/curves/abstract/frost.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { sha512 } from '@noble/hashes/sha2.js'
import { toHex } from './bytes.ts'
import { ShareError } from './errors.ts'

/** The group of Ed25519: points of prime order, and scalars modulo that order. */
export const Point = ed25519.Point
export const Scalars = Point.Fn

/** A point in the form that the library computes with. */
export type GroupPoint = InstanceType<typeof Point>

/**
 * FROST(Ed25519, SHA-512), RFC 9591, section 6.1. It differs from the library's `ed25519_FROST` in one way: it checks
 * once, not twice, that a point is of prime order. That check is most of the time that signing takes.
 */
export const Frost = createFROST({ name: 'FROST-ED25519-SHA512-v1', Point, hash: sha512, H2: '' })

const BYTES = 32

/** A cache of points that passed `pointOf`, oldest first. All are public. Each check costs a scalar multiplication. */
const passed = new Map<string, GroupPoint>()
const PASSED_MAX = 512

/**
 * Reads a point: 32 bytes in the canonical form of RFC 8032, of prime order and not the identity (RFC 9591, section
 * 3.1).
 * @throws ShareError sharing_invalid
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

/** Whether two public values are equal. Not for secrets: the duration reveals where they differ. */
export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at])
}

/** The public point of a secret scalar, 32 bytes. For a whole key this is its Ed25519 public key. */
export function publicKeyOf(scalar: Uint8Array): Uint8Array {
  return Point.BASE.multiply(scalarOf(scalar)).toBytes()
}

/**
 * The secret scalar of a 32-byte seed (RFC 8032, section 5.1.5), reduced by the group's order. Use it to split a key
 * that exists as a seed. A scalar cannot be turned back into a seed.
 */
export function scalarOfSeed(seed: Uint8Array): Uint8Array {
  if (seed.length !== BYTES) throw new ShareError('share_invalid', `A seed must have ${BYTES} bytes.`)
  const head = sha512(seed).slice(0, BYTES)
  head[0] = (head[0] as number) & 248
  head[31] = ((head[31] as number) & 127) | 64
  const clamped = head.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  head.fill(0)
  return Scalars.toBytes(Scalars.create(clamped))
}

/**
 * Signs with a secret scalar. The result is an ordinary Ed25519 signature (RFC 8032), 64 bytes, that is valid under
 * `publicKeyOf(scalar)`. The nonce is random, because a scalar has no seed to derive it from.
 */
export function signWithScalar(message: Uint8Array, scalar: Uint8Array): Uint8Array {
  scalarOf(scalar)
  return Frost.sign(message, scalar)
}

/**
 * Whether a signature is valid for this key and message (RFC 8032). The key and the first half of the signature must be
 * canonical and of prime order, so that cofactored and cofactorless verifiers agree.
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
