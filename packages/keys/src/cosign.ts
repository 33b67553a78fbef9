import { ShareError } from './errors.ts'
import { Frost, pointOf, scalarOf } from './group.ts'
import { checkIndex, checkSigners, identifierOf, type Share, type Sharing, verifyingShareOf } from './sharing.ts'

/** What a signer tells before it signs, good for one signature (RFC 9591, section 5.1). */
export interface NonceCommitments {
  index: number
  /** 32 bytes each. */
  hiding: Uint8Array
  binding: Uint8Array
}

/** A signer's secret for one signature. Never stored, never used twice: a second use gives the share away. */
export interface Nonces {
  hiding: Uint8Array
  binding: Uint8Array
}

/** One signer's part of a signature: 32 bytes (RFC 9591, section 5.2). */
export interface SignatureShare {
  index: number
  value: Uint8Array
}

/** What all who sign agree on. */
export interface Signing {
  sharing: Sharing
  /** Of everybody who signs, each once, at least `threshold`. */
  commitments: readonly NonceCommitments[]
  message: Uint8Array
}

const listOf = (commitments: readonly NonceCommitments[]) =>
  commitments.map(({ index, hiding, binding }) => ({ identifier: identifierOf(index), hiding, binding }))

/** What the library needs to know of all. @throws ShareError sharing_invalid, shares_insufficient, share_invalid */
function publicOf({ sharing, commitments }: Signing) {
  checkSigners(sharing)
  for (const { index } of commitments) checkIndex(sharing, index)
  const indices = commitments.map(({ index }) => index)
  const twice = indices.filter((index, at) => indices.indexOf(index) !== at)
  if (twice.length > 0) throw new ShareError('share_invalid', 'A signer stands there twice.', twice)
  if (indices.length < sharing.threshold)
    throw new ShareError('shares_insufficient', `${sharing.threshold} must sign, here are ${indices.length}.`)
  const verifyingShares: Record<string, Uint8Array> = {}
  // Computed only where it is looked at: it is most of the work, and needed only to say who has cheated.
  for (const index of indices)
    Object.defineProperty(verifyingShares, identifierOf(index), {
      enumerable: true,
      get: () => verifyingShareOf(sharing, index),
    })
  const { threshold: min, total: max } = sharing
  return { signers: { min, max }, commitments: sharing.commitments, verifyingShares }
}

/** That commitments to nonces are points that can be signed with. @throws ShareError sharing_invalid */
export function checkNonceCommitments({ hiding, binding }: NonceCommitments): void {
  pointOf(hiding)
  pointOf(binding)
}

/** Draws nonces for one signature by a share, and commits to them. */
export function commitNonces({ index, scalar }: Share): { nonces: Nonces; commitments: NonceCommitments } {
  scalarOf(scalar)
  const { nonces, commitments } = Frost.commit({ identifier: identifierOf(index), signingShare: scalar })
  return { nonces, commitments: { index, hiding: commitments.hiding, binding: commitments.binding } }
}

/**
 * Makes one signer's part of a signature; `share` is one that was checked when it was received. The nonces are gone
 * afterwards, whatever happens. Points and nonces of the others are checked as RFC 9591 asks.
 * @throws ShareError share_invalid where the nonces are not those committed to
 */
export function signShare(signing: Signing, share: Share, nonces: Nonces): SignatureShare {
  try {
    const secret = { identifier: identifierOf(share.index), signingShare: share.scalar }
    const list = listOf(signing.commitments)
    const value = Frost.signShare(secret, publicOf(signing), nonces, list, signing.message)
    return { index: share.index, value }
  } catch (error) {
    if (error instanceof ShareError) throw error
    const message =
      "Can't sign: the nonces are used up or not those committed to, or commitments are no points of prime order."
    throw new ShareError('share_invalid', message, [share.index])
  } finally {
    nonces.hiding.fill(0)
    nonces.binding.fill(0)
  }
}

/** Whether a signer's part is right (RFC 9591, section 5.4). */
export function isSignatureShare(signing: Signing, { index, value }: SignatureShare): boolean {
  try {
    const list = listOf(signing.commitments)
    return Frost.verifyShare(publicOf(signing), list, signing.message, identifierOf(index), value)
  } catch {
    return false
  }
}

/** The indices of those who said they would sign and whose part is missing, double or wrong, and of who else is there. */
function wrongParts(signing: Signing, parts: readonly SignatureShare[]): number[] {
  const signers = signing.commitments.map(({ index }) => index)
  const wrong = signers.filter((signer) => {
    const [part, ...more] = parts.filter(({ index }) => index === signer)
    return part === undefined || more.length > 0 || !isSignatureShare(signing, part)
  })
  return [...wrong, ...parts.map(({ index }) => index).filter((index) => !signers.includes(index))]
}

/**
 * Puts the parts together: 64 bytes, an Ed25519 signature (RFC 8032) under the key like any other.
 * @throws ShareError share_invalid with the indices of those whose part is missing, double or wrong
 */
export function aggregate(signing: Signing, parts: readonly SignatureShare[]): Uint8Array {
  const known = publicOf(signing)
  try {
    if (parts.length !== signing.commitments.length) throw new Error('there must be one part of each signer')
    const values = Object.fromEntries(parts.map(({ index, value }) => [identifierOf(index), value]))
    return Frost.aggregate(known, listOf(signing.commitments), signing.message, values)
  } catch {
    const wrong = wrongParts(signing, parts)
    throw new ShareError(
      'share_invalid',
      `These parts make no signature; wrong are: ${wrong.join(', ') || 'none'}.`,
      wrong,
    )
  }
}
