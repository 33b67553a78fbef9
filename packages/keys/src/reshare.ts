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

/** One old holder's public part of a new generation. */
export interface Dealing {
  from: number
  /** 32 bytes each; the first is the holder's part of the key itself: λ · its verifying share. */
  commitments: Uint8Array[]
}

/** A step from one generation to the next. */
export interface Resharing {
  old: Sharing
  /** The indices of the old holders that deal; `old.threshold` of them. */
  set: readonly number[]
  signers: Pick<Sharing, 'threshold' | 'total'>
}

/** @throws ShareError shares_insufficient, share_invalid */
function checkSet({ old, set, signers }: Resharing): void {
  checkSigners(signers)
  if (set.length < old.threshold)
    throw new ShareError(
      'shares_insufficient',
      `At least ${old.threshold} old shares must deal, but the set has ${set.length}.`,
    )
  const twice = set.filter((index, at) => set.indexOf(index) !== at)
  if (twice.length > 0) throw new ShareError('share_invalid', 'The set names an old share twice.', twice)
  const strange = set.filter((index) => !Number.isInteger(index) || index < 1 || index > old.total)
  if (strange.length > 0)
    throw new ShareError('share_invalid', `The index of an old share must be 1 to ${old.total}.`, strange)
}

/**
 * Splits an old share for the new holders. `weight` is the secret of the dealing's first commitment: prove it, then
 * wipe it.
 */
export function dealReshare(
  resharing: Resharing,
  share: Share,
): { dealing: Dealing; subshares: Subshare[]; weight: Uint8Array } {
  checkSet(resharing)
  const { old, set, signers } = resharing
  if (!isShareOf(old, share))
    throw new ShareError('share_invalid', 'This is not a share of this key and generation.', [share.index])
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

/** @throws ShareError sharing_invalid with the dealer's index */
function pointsOf(from: number, commitments: readonly Uint8Array[]): GroupPoint[] {
  try {
    return commitments.map(pointOf)
  } catch (error) {
    throw new ShareError('sharing_invalid', (error as Error).message, [from])
  }
}

/**
 * The new generation of the same key, from its dealings. Checks each dealing's first commitment against the dealer's
 * old verifying share. @throws ShareError share_invalid with the dealers at fault, sharing_invalid
 */
export function newSharing(resharing: Resharing, dealings: readonly Dealing[]): Sharing {
  checkSet(resharing)
  const { old, set, signers } = resharing
  commitmentPoints(old)
  if (dealings.length !== set.length || !set.every((index) => dealings.some(({ from }) => from === index)))
    throw new ShareError('share_invalid', 'One dealing of each old share in the set is needed.', set)
  const sums: GroupPoint[] = Array.from({ length: signers.threshold }, () => Point.ZERO)
  for (const { from, commitments } of dealings) {
    if (commitments.length !== signers.threshold)
      throw new ShareError('sharing_invalid', `A dealing must have ${signers.threshold} commitments.`, [from])
    const points = pointsOf(from, commitments)
    const part = pointOf(verifyingShareOf(old, from)).multiplyUnsafe(lagrange(set, from))
    if (!(points[0] as GroupPoint).equals(part))
      throw new ShareError('share_invalid', `The dealing of share ${from} does not belong to that share.`, [from])
    points.forEach((point, n) => {
      sums[n] = (sums[n] as GroupPoint).add(point)
    })
  }
  const sharing = { ...signers, commitments: sums.map((point) => point.toBytes()) }
  commitmentPoints(sharing)
  if (!sameBytes(sharing.commitments[0] as Uint8Array, old.commitments[0] as Uint8Array))
    throw new ShareError('share_invalid', 'These dealings lead to another key.')
  return sharing
}

/**
 * Combines the parts of a new share, and checks each part against its dealing. It does not check that a dealer knows
 * its old share: require a proof of its `weight`. Otherwise, someone without a share could deal to one new holder.
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
  if (wrong.length > 0) throw new ShareError('share_invalid', `Invalid sub-shares from ${wrong.join(', ')}.`, wrong)
  const share = { index, scalar: Scalars.toBytes(sum) }
  if (!isShareOf(sharing, share))
    throw new ShareError('share_invalid', 'The parts cannot be combined to a share.', [index])
  return { share, sharing }
}

function isPartOf(scalar: Uint8Array, expected: Uint8Array): boolean {
  try {
    return sameBytes(publicKeyOf(scalar), expected)
  } catch {
    return false
  }
}
