import { ShareError } from './errors.ts'
import { Frost, pointOf, publicKeyOf, Scalars, sameBytes } from './group.ts'
import {
  checkIndex,
  checkSigners,
  commitmentPoints,
  evaluateCommitments,
  identifierOf,
  type Share,
  type Sharing,
} from './sharing.ts'

/**
 * A participant's first message to all others: commitments to its polynomial, with a proof that it knows the
 * polynomial.
 */
export interface DkgRound1 {
  index: number
  /** 32 bytes each, `threshold` of them. */
  commitments: Uint8Array[]
  /**
   * A Schnorr signature, 64 bytes, by the polynomial's constant. Without it, one participant could cancel out the
   * others.
   */
  proofOfKnowledge: Uint8Array
}

/** A participant's secrets during key generation. Delete it after `finishDkg`. */
export interface DkgState {
  index: number
  threshold: number
  total: number
  /** 32 bytes each, little-endian. */
  coefficients: Uint8Array[]
  commitments: Uint8Array[]
}

/** One participant's part of another participant's share. Secret: only the recipient may see it. */
export interface Subshare {
  from: number
  to: number
  /** 32 bytes, little-endian. */
  scalar: Uint8Array
}

const indexOf = (identifier: string, total: number) =>
  Array.from({ length: total }, (_, at) => at + 1).find((index) => identifierOf(index) === identifier) as number

const asPackage = ({ index, commitments, proofOfKnowledge }: DkgRound1) => ({
  identifier: identifierOf(index),
  commitment: commitments,
  proofOfKnowledge,
})

/** The library's state after the first round. The library's own state object cannot be stored. */
const secretOf = ({ index, threshold, total, coefficients, commitments }: DkgState) => ({
  identifier: BigInt(index),
  coefficients: coefficients.map((coefficient) => Scalars.fromBytes(coefficient)),
  commitment: commitments,
  signers: { min: threshold, max: total },
  step: 1 as const,
})

/** Whether a check passes: it neither throws nor returns false. */
function holds(check: () => unknown): boolean {
  try {
    return check() !== false
  } catch {
    return false
  }
}

/**
 * Whether one participant's first message is valid. The proof is about the first commitment only, so the library can
 * check it as in a key generation by two participants.
 */
const isRound1 = (state: DkgState, said: DkgRound1) =>
  said.commitments.length === state.threshold &&
  holds(() => said.commitments.map(pointOf)) &&
  holds(() => {
    const commitments = said.commitments.slice(0, 2)
    return Frost.DKG.round2(secretOf({ ...state, threshold: 2, total: 2 }), [asPackage({ ...said, commitments })])
  })

/** Whether a sub-share matches its sender's commitments. */
const isSubshare = ({ to, scalar }: Subshare, { commitments }: DkgRound1) =>
  holds(() => sameBytes(publicKeyOf(scalar), evaluateCommitments(commitments.map(pointOf), to).toBytes()))

/**
 * Runs one of the library's steps. If it fails, another participant is at fault, and `isValid` finds out which.
 * @throws ShareError protocol_violated with the indices of those at fault
 */
function step<T>(others: readonly DkgRound1[], isValid: (said: DkgRound1) => boolean, run: () => T): T {
  try {
    return run()
  } catch {
    const wrong = others.filter((said) => !isValid(said)).map(({ index }) => index)
    const message = `Invalid messages from participants ${wrong.join(', ')}: a commitment or proof is invalid.`
    throw new ShareError('protocol_violated', message, wrong)
  }
}

/**
 * @throws ShareError sharing_invalid for an index out of range, protocol_violated for one that is missing or repeated
 */
function checkOthers(state: DkgState, others: readonly DkgRound1[]): void {
  for (const { index } of others) checkIndex(state, index)
  const indices = new Set([state.index, ...others.map(({ index }) => index)])
  if (indices.size !== state.total || others.length !== state.total - 1)
    throw new ShareError('protocol_violated', `Key generation needs each index from 1 to ${state.total} exactly once.`)
}

/** Begins distributed key generation (Pedersen's, with proofs of knowledge, as in the FROST paper). */
export function beginDkg(
  index: number,
  signers: Pick<Sharing, 'threshold' | 'total'>,
): { state: DkgState; round1: DkgRound1 } {
  checkSigners(signers)
  checkIndex(signers, index)
  const { threshold, total } = signers
  const { public: told, secret } = Frost.DKG.round1(identifierOf(index), { min: threshold, max: total })
  const commitments = told.commitment
  return {
    state: {
      index,
      threshold,
      total,
      coefficients: (secret.coefficients as bigint[]).map((coefficient) => Scalars.toBytes(coefficient)),
      commitments,
    },
    round1: { index, commitments, proofOfKnowledge: told.proofOfKnowledge },
  }
}

/**
 * Checks the first messages of the others, and makes the part of each participant's share.
 * @throws ShareError protocol_violated with the indices of those at fault, sharing_invalid
 */
export function dealSubshares(state: DkgState, others: readonly DkgRound1[]): Subshare[] {
  checkOthers(state, others)
  const dealt = step(
    others,
    (said) => isRound1(state, said),
    () => Frost.DKG.round2(secretOf(state), others.map(asPackage)),
  )
  return Object.entries(dealt).map(([identifier, { signingShare }]) => ({
    from: state.index,
    to: indexOf(identifier, state.total),
    scalar: signingShare,
  }))
}

/**
 * Ends key generation: checks every part against its sender's commitments. No participant ever knows the whole key.
 * @throws ShareError protocol_violated with the indices of those at fault, sharing_invalid
 */
export function finishDkg(
  state: DkgState,
  others: readonly DkgRound1[],
  subshares: readonly Subshare[],
): { share: Share; sharing: Sharing } {
  checkOthers(state, others)
  if (subshares.some(({ to }) => to !== state.index))
    throw new ShareError('protocol_violated', 'These sub-shares belong to another participant.')
  const secret = secretOf(state)
  const packages = others.map(asPackage)
  const isValid = (said: DkgRound1) => {
    const [part, ...more] = subshares.filter(({ from }) => from === said.index)
    return part !== undefined && more.length === 0 && isRound1(state, said) && isSubshare(part, said)
  }
  const key = step(others, isValid, () => {
    const received = subshares.map(({ from, scalar }) => ({ identifier: identifierOf(from), signingShare: scalar }))
    // Repeats the library's second step: these messages may differ from those given to `dealSubshares`.
    Frost.DKG.round2(secret, packages)
    return Frost.DKG.round3(secret, packages, received)
  })
  const { threshold, total, index } = state
  const sharing = { threshold, total, commitments: key.public.commitments }
  commitmentPoints(sharing)
  return { share: { index, scalar: key.secret.signingShare }, sharing }
}
