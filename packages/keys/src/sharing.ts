import { ShareError } from './errors.ts'
import { Frost, type GroupPoint, Point, pointOf, publicKeyOf, Scalars, sameBytes, scalarOf } from './group.ts'

/** The public part of a shared key. */
export interface Sharing {
  /** How many shares are needed to sign. */
  threshold: number
  /** How many shares there are. */
  total: number
  /** Feldman's commitments to the polynomial, 32 bytes each, `threshold` of them; the first is the public key. */
  commitments: Uint8Array[]
}

/** A share of a key: the polynomial's value at `index`, 32 bytes, little-endian. */
export interface Share {
  /** From 1. */
  index: number
  scalar: Uint8Array
}

/** The most holders of a key. */
export const TOTAL_MAX = 15

/** @throws ShareError sharing_invalid unless 2 ≤ threshold ≤ total ≤ 15 */
export function checkSigners({ threshold, total }: Pick<Sharing, 'threshold' | 'total'>): void {
  const whole = Number.isInteger(threshold) && Number.isInteger(total)
  if (!whole || threshold < 2 || threshold > total || total > TOTAL_MAX)
    throw new ShareError('sharing_invalid', `The total must be 2 to ${TOTAL_MAX}, and the threshold 2 to the total.`)
}

/** @throws ShareError sharing_invalid unless it is a whole number from 1 to `total` */
export function checkIndex({ total }: Pick<Sharing, 'total'>, index: number): void {
  if (!Number.isInteger(index) || index < 1 || index > total)
    throw new ShareError('sharing_invalid', `The index of a share must be 1 to ${total}.`, [index])
}

/** Checks a sharing and reads its commitments. @throws ShareError sharing_invalid */
export function commitmentPoints(sharing: Sharing): GroupPoint[] {
  checkSigners(sharing)
  if (sharing.commitments.length !== sharing.threshold)
    throw new ShareError('sharing_invalid', `There must be ${sharing.threshold} commitments: as many as the threshold.`)
  return sharing.commitments.map(pointOf)
}

/** FROST's identifier of a signer: the index as a scalar, hex. */
export function identifierOf(index: number): string {
  return Frost.Identifier.fromNumber(index)
}

/** The value in the exponent of the polynomial at an index (Horner's scheme over public points). */
export function evaluateCommitments(points: readonly GroupPoint[], index: number): GroupPoint {
  return points.reduceRight((sum, point) => sum.multiplyUnsafe(BigInt(index)).add(point), Point.ZERO)
}

/** The public key of one share: `scalar · B`. @throws ShareError sharing_invalid */
export function verifyingShareOf(sharing: Sharing, index: number): Uint8Array {
  checkIndex(sharing, index)
  const point = evaluateCommitments(commitmentPoints(sharing), index)
  if (point.is0()) throw new ShareError('sharing_invalid', 'The share at this index would be zero.', [index])
  return point.toBytes()
}

/** Whether a share matches the commitments (RFC 9591, appendix C.2). */
export function isShareOf(sharing: Sharing, { index, scalar }: Share): boolean {
  const expected = verifyingShareOf(sharing, index)
  try {
    return sameBytes(publicKeyOf(scalar), expected)
  } catch (error) {
    if (error instanceof ShareError) return false
    throw error
  }
}

/** Splits a given or new key into shares with indices from 1, 32 bytes each. Any `threshold` of them make the key. */
export function dealShares(
  { threshold, total }: Pick<Sharing, 'threshold' | 'total'>,
  scalar?: Uint8Array,
): { sharing: Sharing; shares: Share[] } {
  checkSigners({ threshold, total })
  if (scalar !== undefined) scalarOf(scalar)
  const dealt = Frost.trustedDealer({ min: threshold, max: total }, undefined, scalar)
  const shares = Array.from({ length: total }, (_, at) => ({
    index: at + 1,
    scalar: dealt.secretShares[identifierOf(at + 1)]?.signingShare as Uint8Array,
  }))
  return { sharing: { threshold, total, commitments: dealt.public.commitments }, shares }
}

/**
 * Lagrange's coefficient of one index among others, at zero (RFC 9591, section 4.2).
 * @throws ShareError share_invalid
 */
export function lagrange(indices: readonly number[], index: number): bigint {
  if (new Set(indices).size !== indices.length || !indices.includes(index))
    throw new ShareError('share_invalid', 'Each index must occur exactly once.', [index])
  let [above, below] = [1n, 1n]
  for (const other of indices) {
    if (other === index) continue
    above = Scalars.mul(above, BigInt(other))
    below = Scalars.mul(below, Scalars.create(BigInt(other) - BigInt(index)))
  }
  return Scalars.div(above, below)
}

/** The indices of shares that do not match the commitments or occur twice. */
export function wrongShares(sharing: Sharing, shares: readonly Share[]): number[] {
  const isValid = (share: Share) =>
    Number.isInteger(share.index) && share.index >= 1 && share.index <= sharing.total && isShareOf(sharing, share)
  return shares
    .filter((share, at) => shares.findIndex(({ index }) => index === share.index) !== at || !isValid(share))
    .map(({ index }) => index)
}

/**
 * Combines shares to the key: 32 bytes, the secret scalar of `commitments[0]`. Every share is checked first: a wrong
 * share causes an error that names it, never another key.
 * @throws ShareError sharing_invalid, shares_insufficient, share_invalid
 */
export function joinShares(sharing: Sharing, shares: readonly Share[]): Uint8Array {
  commitmentPoints(sharing)
  const wrong = wrongShares(sharing, shares)
  if (wrong.length > 0)
    throw new ShareError('share_invalid', `Not shares of this key and generation: ${wrong.join(', ')}.`, wrong)
  if (shares.length < sharing.threshold)
    throw new ShareError(
      'shares_insufficient',
      `At least ${sharing.threshold} shares are needed, but only ${shares.length} were given.`,
    )
  const secrets = shares.map(({ index, scalar }) => ({ identifier: identifierOf(index), signingShare: scalar }))
  const key = Frost.combineSecret(secrets, { min: sharing.threshold, max: sharing.total })
  if (!sameBytes(publicKeyOf(key), sharing.commitments[0] as Uint8Array))
    throw new ShareError('share_invalid', 'These shares lead to another key.')
  return key
}
