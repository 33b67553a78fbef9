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
  /**
   * The indices of holders that do not deal an old share, and add a dealing of zero: it changes all new shares and keeps
   * the key. Default: none.
   */
  zero?: readonly number[]
}

/** The first commitment of a dealing of zero: the identity, as RFC 8032 encodes it. */
const IDENTITY = Point.ZERO.toBytes()

/** @throws ShareError shares_insufficient, share_invalid */
function checkSet({ old, set, signers, zero = [] }: Resharing): void {
  checkSigners(signers)
  if (set.length < old.threshold)
    throw new ShareError(
      'shares_insufficient',
      `At least ${old.threshold} old shares must deal, but the set has ${set.length}.`,
    )
  const all = [...set, ...zero]
  const twice = all.filter((index, at) => all.indexOf(index) !== at)
  if (twice.length > 0) throw new ShareError('share_invalid', 'The set names an old share twice.', twice)
  const strange = all.filter((index) => !Number.isInteger(index) || index < 1 || index > old.total)
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
  const dealing = { from: share.index, commitments: commitment }
  return { dealing, subshares: subsharesOf(resharing, share.index, coefficients), weight }
}

/** The polynomial's value for each new holder. */
function subsharesOf({ signers }: Resharing, from: number, coefficients: readonly bigint[]): Subshare[] {
  const at = (index: number) =>
    coefficients.reduceRight((sum, coefficient) => Scalars.add(Scalars.mul(sum, BigInt(index)), coefficient), 0n)
  return Array.from({ length: signers.total }, (_, n) => ({ from, to: n + 1, scalar: Scalars.toBytes(at(n + 1)) }))
}

/**
 * Deals zero to the new holders: whoever lacks this dealing knows none of the new shares. `weight` is the secret of the
 * second commitment, since the first has none: prove it, then wipe it.
 */
export function dealZero(
  resharing: Resharing,
  from: number,
): { dealing: Dealing; subshares: Subshare[]; weight: Uint8Array } {
  checkSet(resharing)
  const { signers, zero = [] } = resharing
  if (!zero.includes(from))
    throw new ShareError('share_invalid', 'This holder does not add a dealing of zero to this resharing.', [from])
  const { coefficients, commitment } = Frost.utils.generateSecretPolynomial({
    min: signers.threshold,
    max: signers.total,
  })
  const [, slope] = coefficients
  return {
    dealing: { from, commitments: [IDENTITY.slice(), ...commitment.slice(1)] },
    subshares: subsharesOf(resharing, from, [0n, ...coefficients.slice(1)]),
    weight: Scalars.toBytes(slope as bigint),
  }
}

/** The point whose secret a dealer must prove to know: `weight`, as a public key. Undefined if the dealing lacks it. */
export function provenPoint({ zero = [] }: Pick<Resharing, 'zero'>, dealing: Dealing): Uint8Array | undefined {
  return dealing.commitments[zero.includes(dealing.from) ? 1 : 0]
}

/** @throws ShareError sharing_invalid with the dealer's index */
function pointsOf({ zero = [] }: Resharing, { from, commitments }: Dealing): GroupPoint[] {
  try {
    if (!zero.includes(from)) return commitments.map(pointOf)
    const [first, ...others] = commitments
    if (first === undefined || !sameBytes(first, IDENTITY))
      throw new ShareError('sharing_invalid', 'The first commitment of a dealing of zero must be the identity.')
    return [Point.ZERO, ...others.map(pointOf)]
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
  const { old, set, signers, zero = [] } = resharing
  commitmentPoints(old)
  const dealers = [...set, ...zero]
  if (dealings.length !== dealers.length || !dealers.every((index) => dealings.some(({ from }) => from === index)))
    throw new ShareError('share_invalid', 'One dealing of each old share in the set is needed.', dealers)
  const sums: GroupPoint[] = Array.from({ length: signers.threshold }, () => Point.ZERO)
  for (const dealing of dealings) {
    const { from, commitments } = dealing
    if (commitments.length !== signers.threshold)
      throw new ShareError('sharing_invalid', `A dealing must have ${signers.threshold} commitments.`, [from])
    const points = pointsOf(resharing, dealing)
    const part = zero.includes(from)
      ? Point.ZERO
      : pointOf(verifyingShareOf(old, from)).multiplyUnsafe(lagrange(set, from))
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
  for (const dealing of dealings) {
    const { from } = dealing
    const mine = subshares.filter((part) => part.from === from && part.to === index)
    const part = mine.length === 1 ? mine[0] : undefined
    const expected = evaluateCommitments(pointsOf(resharing, dealing), index).toBytes()
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
