import type { Subshare } from './dkg.ts'
import { ShareError } from './errors.ts'
import { Frost, type GroupPoint, Point, pointOf, publicKeyOf, Scalars, sameBytes, scalarOf } from './group.ts'
import {
  checkIndex,
  checkSigners,
  commitmentPoints,
  evaluateCommitments,
  isShareOf,
  lagrange,
  type Share,
  type Sharing,
  verifyingShareOf,
} from './sharing.ts'

/** One old holder's part of a new generation, as all may see it. */
export interface Dealing {
  from: number
  /** 32 bytes each; the first is the holder's part of the key itself: λ · its verifying share. */
  commitments: Uint8Array[]
}

/** Between which generations. */
export interface Resharing {
  old: Sharing
  /** Indices of the old holders that deal: `old.threshold` of them. */
  set: readonly number[]
  signers: Pick<Sharing, 'threshold' | 'total'>
}

/** @throws ShareError shares_insufficient, share_invalid */
function checkSet({ old, set, signers }: Resharing): void {
  checkSigners(signers)
  if (set.length < old.threshold)
    throw new ShareError('shares_insufficient', `${old.threshold} old shares must deal, here are ${set.length}.`)
  const twice = set.filter((index, at) => set.indexOf(index) !== at)
  if (twice.length > 0) throw new ShareError('share_invalid', 'An old share stands there twice.', twice)
  const strange = set.filter((index) => !Number.isInteger(index) || index < 1 || index > old.total)
  if (strange.length > 0) throw new ShareError('share_invalid', `An old share's index is 1 to ${old.total}.`, strange)
}

/** Deals an old share out: `weight` is the secret of the dealing's first commitment, for the proof of knowing it. */
export function dealReshare(
  resharing: Resharing,
  share: Share,
): { dealing: Dealing; subshares: Subshare[]; weight: Uint8Array } {
  checkSet(resharing)
  const { old, set, signers } = resharing
  if (!isShareOf(old, share))
    throw new ShareError('share_invalid', 'This is no share of this key and generation.', [share.index])
  const weight = Scalars.toBytes(Scalars.mul(scalarOf(share.scalar), lagrange(set, share.index)))
  const { coefficients, commitment } = Frost.utils.generateSecretPolynomial(
    { min: signers.threshold, max: signers.total },
    weight,
  )
  const at = (index: number) =>
    coefficients.reduceRight((sum, coefficient) => Scalars.add(Scalars.mul(sum, BigInt(index)), coefficient), 0n)
  return {
    dealing: { from: share.index, commitments: commitment },
    subshares: Array.from({ length: signers.total }, (_, n) => ({
      from: share.index,
      to: n + 1,
      scalar: Scalars.toBytes(at(n + 1)),
    })),
    weight,
  }
}

/** @throws ShareError sharing_invalid with the dealer */
function pointsOf(from: number, commitments: readonly Uint8Array[]): GroupPoint[] {
  try {
    return commitments.map(pointOf)
  } catch (error) {
    throw new ShareError('sharing_invalid', (error as Error).message, [from])
  }
}

/**
 * The new generation that dealings make: of the same key. Every dealing's first commitment is held against the dealer's
 * old verifying share. @throws ShareError share_invalid with the dealers at fault, sharing_invalid
 */
export function newSharing(resharing: Resharing, dealings: readonly Dealing[]): Sharing {
  checkSet(resharing)
  const { old, set, signers } = resharing
  commitmentPoints(old)
  if (dealings.length !== set.length || !set.every((index) => dealings.some(({ from }) => from === index)))
    throw new ShareError('share_invalid', 'There must be one dealing of each old share in the set.', set)
  const sums: GroupPoint[] = Array.from({ length: signers.threshold }, () => Point.ZERO)
  for (const { from, commitments } of dealings) {
    if (commitments.length !== signers.threshold)
      throw new ShareError('sharing_invalid', `A dealing has ${signers.threshold} commitments.`, [from])
    const points = pointsOf(from, commitments)
    const part = pointOf(verifyingShareOf(old, from)).multiplyUnsafe(lagrange(set, from))
    if (!(points[0] as GroupPoint).equals(part))
      throw new ShareError('share_invalid', `The dealing of share ${from} is not of that share.`, [from])
    points.forEach((point, n) => {
      sums[n] = (sums[n] as GroupPoint).add(point)
    })
  }
  const sharing = { ...signers, commitments: sums.map((point) => point.toBytes()) }
  commitmentPoints(sharing)
  if (!sameBytes(sharing.commitments[0] as Uint8Array, old.commitments[0] as Uint8Array))
    throw new ShareError('share_invalid', 'These dealings make another key.')
  return sharing
}

/**
 * A new share of its parts, each held against its dealing. That a dealer knew its old share is not checked here: let each
 * one prove its `weight`, or who knows none could deal to one new holder.
 * @throws ShareError share_invalid with the dealers at fault, sharing_invalid
 */
export function receiveReshare(
  resharing: Resharing,
  dealings: readonly Dealing[],
  index: number,
  subshares: readonly Subshare[],
): { share: Share; sharing: Sharing } {
  checkIndex(resharing.signers, index)
  const sharing = newSharing(resharing, dealings)
  const wrong: number[] = []
  let sum = 0n
  for (const { from, commitments } of dealings) {
    const mine = subshares.filter((part) => part.from === from && part.to === index)
    const part = mine.length === 1 ? mine[0] : undefined
    const expected = evaluateCommitments(commitments.map(pointOf), index).toBytes()
    if (part === undefined || !isPartOf(part.scalar, expected)) wrong.push(from)
    else sum = Scalars.add(sum, scalarOf(part.scalar))
  }
  if (wrong.length > 0) throw new ShareError('share_invalid', `Wrong sub-shares of ${wrong.join(', ')}.`, wrong)
  const share = { index, scalar: Scalars.toBytes(sum) }
  if (!isShareOf(sharing, share)) throw new ShareError('share_invalid', 'The parts make no share.', [index])
  return { share, sharing }
}

function isPartOf(scalar: Uint8Array, expected: Uint8Array): boolean {
  try {
    return sameBytes(publicKeyOf(scalar), expected)
  } catch {
    return false
  }
}
