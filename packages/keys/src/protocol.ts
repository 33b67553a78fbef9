import { sha256 } from '@noble/hashes/sha2.js'
import { type Bytes, toHex, utf8 } from './bytes.ts'
import { canonicalJson } from './canonical-json.ts'
import type { DkgRound1 } from './dkg.ts'
import { isSignature, signWithScalar } from './group.ts'
import type { SealContext } from './hpke.ts'
import type { Dealing } from './reshare.ts'

/** The scheme of all shares: FROST(Ed25519, SHA-512), RFC 9591, section 6.1. */
export const SCHEME = 'FROST-ED25519-SHA512-v1'

/** Who holds a share. */
export type Holder = 'server' | 'device' | 'recovery'

/** The index of each holder of a `shared` wallet's key. Two of the three sign. */
export const HOLDER_INDEX: Readonly<Record<Holder, number>> = { server: 1, device: 2, recovery: 3 }
/** The holder at an index of a `shared` wallet's key. */
export const INDEX_HOLDER: Readonly<Record<number, Holder>> = { 1: 'server', 2: 'device', 3: 'recovery' }
export const SHARED_SIGNERS = { threshold: 2, total: 3 } as const

/** Whose key a proof or box is about. The service sends it with every challenge. */
export interface Subject {
  tenantId: string
  appId: string
  userId: string
  /** Null if there is no wallet yet. */
  walletId: string | null
  /** The generation of the shares. */
  generation: number
  /** The id of the challenge, key generation or resharing; null for none. */
  challengeId: string | null
}

/** What a sealed share is bound to: its owner, the share, and the public key that it is sealed to (hex). */
export function shareContext(
  subject: Subject,
  of: { index: number; holder: Holder; recipientKey: string },
): SealContext {
  return { ...subject, ...of }
}

/**
 * The same for a share that the service combines with others. It is also bound to the key (hex) that the answer is
 * sealed to. Otherwise, whoever forwards the share could have the whole key sealed to their own key.
 */
export function combineContext(
  subject: Subject,
  of: { index: number; holder: Holder; recipientKey: string; answerKey: string },
): SealContext {
  return { ...subject, ...of }
}

/** The same for a sub-share on its way from one holder to another. */
export function subshareContext(subject: Subject, of: { from: number; to: number; recipientKey: string }): SealContext {
  return { ...subject, ...of }
}

/** The purpose of a proof. A proof for one purpose is not valid for another. */
export type ProofPurpose =
  | 'store-share'
  | 'create-wallet'
  | 'dkg-confirm'
  | 'release-share'
  | 'combine-shares'
  | 'reshare-dealing'
  | 'reshare-confirm'

/** What a proof is bound to in addition to its subject. */
export type ProofDetails = Readonly<Record<string, string | number | readonly number[] | null>>

/** The bytes that a proof signs: canonical JSON (RFC 8785) in UTF-8. */
export function proofMessage(purpose: ProofPurpose, subject: Subject, details: ProofDetails): Bytes {
  return utf8(canonicalJson({ ...subject, ...details, purpose: `halfkey/v1/${purpose}` }))
}

/**
 * Proves knowledge of a share, or of another secret scalar, without revealing it: a Schnorr proof in the form of an
 * Ed25519 signature by the scalar over what it is bound to. 64 bytes.
 */
export function prove(scalar: Uint8Array, purpose: ProofPurpose, subject: Subject, details: ProofDetails): Uint8Array {
  return signWithScalar(proofMessage(purpose, subject, details), scalar)
}

/** Whether a proof was made with the secret of `publicKey`. For a share, `publicKey` is its verifying share. */
export function isProof(
  proof: Uint8Array,
  publicKey: Uint8Array,
  purpose: ProofPurpose,
  subject: Subject,
  details: ProofDetails,
): boolean {
  return isSignature(proof, proofMessage(purpose, subject, details), publicKey)
}

const hashOf = (value: unknown) => sha256(utf8(canonicalJson(value)))

/** A participant of key generation, and the key that secrets are sealed to for them (hex). */
export interface Participant {
  index: number
  holder: Holder
  encryptionKey: string
}

const byIndex = <T extends { index: number }>(entries: readonly T[]) => [...entries].sort((a, b) => a.index - b.index)

/** The hash of all that both sides of key generation must have seen, 32 bytes. */
export function dkgTranscript(
  subject: Subject,
  participants: readonly Participant[],
  round1: readonly DkgRound1[],
): Uint8Array {
  return hashOf({
    purpose: 'halfkey/v1/dkg-transcript',
    subject,
    participants: byIndex(participants),
    round1: byIndex(round1).map(({ index, commitments, proofOfKnowledge }) => ({
      index,
      commitments: commitments.map(toHex),
      proofOfKnowledge: toHex(proofOfKnowledge),
    })),
  })
}

/**
 * What the proof of a dealing is bound to: the whole dealing, and its recipients. Otherwise, whoever forwards the
 * dealing could have the others deal to their own keys.
 */
export function dealingDetails(
  { from, commitments }: Dealing,
  of: { set: readonly number[]; participants: readonly Participant[] },
): ProofDetails {
  return {
    from,
    set: [...of.set].sort((a, b) => a - b),
    commitments: fingerprintOf(commitments.map(toHex)),
    participants: fingerprintOf(byIndex(of.participants)),
  }
}

/** The same for resharing. The new shares sign it together before they replace the old ones. 32 bytes. */
export function reshareTranscript(
  subject: Subject,
  of: { set: readonly number[]; participants: readonly Participant[]; dealings: readonly Dealing[] },
): Uint8Array {
  return hashOf({
    purpose: 'halfkey/v1/reshare-transcript',
    subject,
    set: [...of.set].sort((a, b) => a - b),
    participants: byIndex(of.participants),
    dealings: [...of.dealings]
      .sort((a, b) => a.from - b.from)
      .map(({ from, commitments }) => ({ from, commitments: commitments.map(toHex) })),
  })
}

/** SHA-256 of a value's canonical JSON (RFC 8785), hex: binds a proof to that value. */
export function fingerprintOf(value: unknown): string {
  return toHex(hashOf(value))
}
