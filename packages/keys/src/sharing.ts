import { ShareError } from './errors.ts'
import { Frost, type GroupPoint, Point, pointOf, publicKeyOf, Scalars, sameBytes, scalarOf } from './group.ts'

/** What everybody may know of how a key is shared. */
export interface Sharing {
  /** How many shares make the key. */
  threshold: number
  /** How many there are. */
  total: number
  /** Feldman's commitments to the polynomial, 32 bytes each, `threshold` of them; the first is the public key. */
  commitments: Uint8Array[]
}

/** A share of a key: where the polynomial was evaluated, and its value there: 32 bytes, little-endian. */
export interface Share {
  /** From 1. */
  index: number
  scalar: Uint8Array
}

/** More holders than this are a protocol of another size. */
export const TOTAL_MAX = 15

/** @throws ShareError sharing_invalid unless 2 ≤ threshold ≤ total ≤ 15 */
export function checkSigners({ threshold, total }: Pick<Sharing, 'threshold' | 'total'>): void {
  const whole = Number.isInteger(threshold) && Number.isInteger(total)
  if (!whole || threshold < 2 || threshold > total || total > TOTAL_MAX)
    throw new ShareError('sharing_invalid', `There are 2 to ${TOTAL_MAX} shares, and 2 to all of them make the key.`)
}

/** @throws ShareError sharing_invalid unless it is a whole number from 1 to `total` */
export function checkIndex({ total }: Pick<Sharing, 'total'>, index: number): void {
  if (!Number.isInteger(index) || index < 1 || index > total)
    throw new ShareError('sharing_invalid', `A share's index is 1 to ${total}.`, [index])
}

/** Checks a sharing by itself, and reads its commitments. @throws ShareError sharing_invalid */
export function commitmentPoints(sharing: Sharing): GroupPoint[] {
  checkSigners(sharing)
  if (sharing.commitments.length !== sharing.threshold)
    throw new ShareError('sharing_invalid', `There must be ${sharing.threshold} commitments, as many as the threshold.`)
  return sharing.commitments.map(pointOf)
}

/** The index as FROST names a signer: a scalar, as hex. */
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

/** Whether a share is the one that the commitments say: any other bit is refused (RFC 9591, appendix C.2). */
export function isShareOf(sharing: Sharing, { index, scalar }: Share): boolean {
  const expected = verifyingShareOf(sharing, index)
  try {
    return sameBytes(publicKeyOf(scalar), expected)
  } catch (error) {
    if (error instanceof ShareError) return false
    throw error
  }
}

/** Splits a key, or a new one, into shares with indices from 1: 32 bytes each, any `threshold` of which make the key. */
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

/** Lagrange's coefficient of one index among others, at zero (RFC 9591, section 4.2). @throws ShareError share_invalid */
export function lagrange(indices: readonly number[], index: number): bigint {
  if (new Set(indices).size !== indices.length || !indices.includes(index))
    throw new ShareError('share_invalid', 'The same index stands there twice, or not at all.', [index])
  let [above, below] = [1n, 1n]
  for (const other of indices) {
    if (other === index) continue
    above = Scalars.mul(above, BigInt(other))
    below = Scalars.mul(below, Scalars.create(BigInt(other) - BigInt(index)))
  }
  return Scalars.div(above, below)
}

/** Those shares that are not what the commitments say, or stand there twice: their indices. */
export function wrongShares(sharing: Sharing, shares: readonly Share[]): number[] {
  const isRight = (share: Share) =>
    Number.isInteger(share.index) && share.index >= 1 && share.index <= sharing.total && isShareOf(sharing, share)
  return shares
    .filter((share, at) => shares.findIndex(({ index }) => index === share.index) !== at || !isRight(share))
    .map(({ index }) => index)
}

/**
 * Puts the key together: 32 bytes, the secret scalar of `commitments[0]`. Every share is checked first, so that wrong,
 * mixed or changed ones give an error that names them, never another key.
 * @throws ShareError sharing_invalid, shares_insufficient, share_invalid
 */
export function joinShares(sharing: Sharing, shares: readonly Share[]): Uint8Array {
  commitmentPoints(sharing)
  const wrong = wrongShares(sharing, shares)
  if (wrong.length > 0)
    throw new ShareError('share_invalid', `Not shares of this key and generation: ${wrong.join(', ')}.`, wrong)
  if (shares.length < sharing.threshold)
    throw new ShareError('shares_insufficient', `${sharing.threshold} shares make the key, here are ${shares.length}.`)
  const secrets = shares.map(({ index, scalar }) => ({ identifier: identifierOf(index), signingShare: scalar }))
  const key = Frost.combineSecret(secrets, { min: sharing.threshold, max: sharing.total })
  if (!sameBytes(publicKeyOf(key), sharing.commitments[0] as Uint8Array))
    throw new ShareError('share_invalid', 'These shares make another key.')
  return key
}
