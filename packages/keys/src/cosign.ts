import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes, randomBytes } from '@noble/hashes/utils.js'
import { utf8 } from './bytes.ts'
import { ShareError } from './errors.ts'
import { Frost, pointOf, scalarOf } from './group.ts'
import { checkIndex, checkSigners, identifierOf, type Share, type Sharing, verifyingShareOf } from './sharing.ts'

/** What a signer publishes before it signs, for one signature (RFC 9591, section 5.1). */
export interface NonceCommitments {
  index: number
  /** 32 bytes each. */
  hiding: Uint8Array
  binding: Uint8Array
}

/** A signer's secret for one signature. Never store it or use it twice: a second use reveals the share. */
export interface Nonces {
  hiding: Uint8Array
  binding: Uint8Array
}

/** One signer's part of a signature: 32 bytes (RFC 9591, section 5.2). */
export interface SignatureShare {
  index: number
  value: Uint8Array
}

/** What all signers agree on. */
export interface Signing {
  sharing: Sharing
  /** Of every signer once; at least `threshold` of them. */
  commitments: readonly NonceCommitments[]
  message: Uint8Array
}

const listOf = (commitments: readonly NonceCommitments[]) =>
  commitments.map(({ index, hiding, binding }) => ({ identifier: identifierOf(index), hiding, binding }))

/** The public input of the library. @throws ShareError sharing_invalid, shares_insufficient, share_invalid */
function publicOf({ sharing, commitments }: Signing) {
  checkSigners(sharing)
  for (const { index } of commitments) checkIndex(sharing, index)
  const indices = commitments.map(({ index }) => index)
  const twice = indices.filter((index, at) => indices.indexOf(index) !== at)
  if (twice.length > 0) throw new ShareError('share_invalid', 'Each signer may have only one commitment.', twice)
  if (indices.length < sharing.threshold)
    throw new ShareError(
      'shares_insufficient',
      `At least ${sharing.threshold} signers are needed, but only ${indices.length} committed.`,
    )
  const verifyingShares: Record<string, Uint8Array> = {}
  // Computed on demand: it is most of the work, and is needed only to find out whose part is wrong.
  for (const index of indices)
    Object.defineProperty(verifyingShares, identifierOf(index), {
      enumerable: true,
      get: () => verifyingShareOf(sharing, index),
    })
  const { threshold: min, total: max } = sharing
  return { signers: { min, max }, commitments: sharing.commitments, verifyingShares }
}

/** Checks that commitments to nonces are valid points. @throws ShareError sharing_invalid */
export function checkNonceCommitments({ hiding, binding }: NonceCommitments): void {
  pointOf(hiding)
  pointOf(binding)
}

const NONCE_TAG = utf8('halfkey/nonce/v1')

/** Random bytes, and bytes of their own for whatever is signed: 32 a call, as RFC 9591 (section 4.1) takes them. */
function randomFor(about: readonly Uint8Array[]): () => Uint8Array {
  let drawn = 0
  return () => {
    drawn += 1
    const parts = [NONCE_TAG, Uint8Array.of(drawn), randomBytes(32), ...about]
    return sha256(concatBytes(...parts.map((part) => sha256(part))))
  }
}

/**
 * Creates nonces for one signature with a share, and commits to them. They are random. Besides, they depend on what is
 * signed as far as it is known, `about`: a machine that was copied with its random generator's state, and signs two
 * messages, uses two nonces. One nonce for both would reveal the share.
 */
export function commitNonces(
  { index, scalar }: Share,
  about: readonly Uint8Array[] = [],
): { nonces: Nonces; commitments: NonceCommitments } {
  scalarOf(scalar)
  const secret = { identifier: identifierOf(index), signingShare: scalar }
  const { nonces, commitments } = Frost.commit(secret, randomFor(about))
  return { nonces, commitments: { index, hiding: commitments.hiding, binding: commitments.binding } }
}

/**
 * Makes one signer's part of a signature. Check `share` when you receive it: this function does not. The nonces are
 * wiped, also if it fails. Commitments of the other signers are checked as RFC 9591 requires.
 * @throws ShareError share_invalid if the nonces do not belong to the commitments
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
      'Cannot sign: the nonces were used before, do not belong to the commitments, or a commitment is invalid.'
    throw new ShareError('share_invalid', message, [share.index])
  } finally {
    nonces.hiding.fill(0)
    nonces.binding.fill(0)
  }
}

/** Whether a signer's part is valid (RFC 9591, section 5.4). */
export function isSignatureShare(signing: Signing, { index, value }: SignatureShare): boolean {
  try {
    const list = listOf(signing.commitments)
    return Frost.verifyShare(publicOf(signing), list, signing.message, identifierOf(index), value)
  } catch {
    return false
  }
}

/** The indices of signers whose part is missing, repeated or invalid, and of parts without a signer. */
function wrongParts(signing: Signing, parts: readonly SignatureShare[]): number[] {
  const signers = signing.commitments.map(({ index }) => index)
  const wrong = signers.filter((signer) => {
    const [part, ...more] = parts.filter(({ index }) => index === signer)
    return part === undefined || more.length > 0 || !isSignatureShare(signing, part)
  })
  return [...wrong, ...parts.map(({ index }) => index).filter((index) => !signers.includes(index))]
}

/**
 * Combines the parts to an ordinary Ed25519 signature (RFC 8032), 64 bytes.
 * @throws ShareError share_invalid with the indices of the signers whose part is missing, repeated or invalid
 */
export function aggregate(signing: Signing, parts: readonly SignatureShare[]): Uint8Array {
  const known = publicOf(signing)
  try {
    if (parts.length !== signing.commitments.length) throw new Error('one part of each signer is needed')
    const values = Object.fromEntries(parts.map(({ index, value }) => [identifierOf(index), value]))
    return Frost.aggregate(known, listOf(signing.commitments), signing.message, values)
  } catch {
    const wrong = wrongParts(signing, parts)
    throw new ShareError(
      'share_invalid',
      `The parts cannot be combined to a signature. Invalid parts: ${wrong.join(', ') || 'none'}.`,
      wrong,
    )
  }
}
