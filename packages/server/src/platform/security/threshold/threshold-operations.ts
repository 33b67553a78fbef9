import * as threshold from './threshold.ts'

/** The service's part of a signature, with the commitments that the other signers must sign under. */
interface CoSigned {
  commitments: threshold.NonceCommitments
  value: Uint8Array
}

/** Draws nonces, signs with them, and forgets them: what leaves here was made with nonces that nothing else will be. */
function coSign(
  sharing: threshold.Sharing,
  share: threshold.Share,
  other: threshold.NonceCommitments,
  message: Uint8Array,
): CoSigned {
  const { nonces, commitments } = threshold.commitNonces(share, [message, other.hiding, other.binding])
  const signing = { sharing, commitments: [commitments, other], message }
  return { commitments, value: threshold.signShare(signing, share, nonces).value }
}

/** Checks a sharing. @returns the public key of every share in it @throws ShareError sharing_invalid */
function verifyingShares(sharing: threshold.Sharing): Uint8Array[] {
  return Array.from({ length: sharing.total }, (_, at) => threshold.verifyingShareOf(sharing, at + 1))
}

/** Begins key generation after the others did, whose first messages are checked at once. */
function beginDkg(
  index: number,
  signers: Pick<threshold.Sharing, 'threshold' | 'total'>,
  others: readonly threshold.DkgRound1[],
): ReturnType<typeof threshold.beginDkg> {
  const begun = threshold.beginDkg(index, signers)
  threshold.dealSubshares(begun.state, others)
  return begun
}

/** The second round at once: the others' parts of our share, and ours of theirs. */
function finishDkg(
  state: threshold.DkgState,
  others: readonly threshold.DkgRound1[],
  received: readonly threshold.Subshare[],
): ReturnType<typeof threshold.finishDkg> & { subshares: threshold.Subshare[]; verifyingShares: Uint8Array[] } {
  const subshares = threshold.dealSubshares(state, others)
  const finished = threshold.finishDkg(state, others, received)
  return { ...finished, subshares, verifyingShares: verifyingShares(finished.sharing) }
}

/** A resharing, as its initiator requests it. */
interface AskedResharing {
  subject: threshold.Subject
  old: threshold.Sharing
  set: number[]
  participants: threshold.Participant[]
  /** Of the client's holders in the set. */
  dealings: (threshold.Dealing & { proof: Uint8Array })[]
  /** Their parts of the service's new share. */
  subshares: threshold.Subshare[]
  /** The nonce commitments by which the new device share is going to confirm. */
  confirming: threshold.NonceCommitments
}

/** The service's side of a resharing. */
export interface StartedResharing {
  /** The dealing of the service's old share, or of zero if that share is not in the set. */
  own: { dealing: threshold.Dealing; proof: Uint8Array; subshares: threshold.Subshare[] }
  share: threshold.Share
  sharing: threshold.Sharing
  verifyingShares: Uint8Array[]
  transcript: Uint8Array
  /** Its part of the signature over the transcript. */
  coSigned: CoSigned
}

/** @throws ShareError share_invalid with the dealers that did not prove to know their old share */
function requireProven({ subject, set, participants, dealings }: AskedResharing): void {
  const wrong = dealings.filter(({ from, commitments, proof }) => {
    const [part] = commitments
    const details = threshold.dealingDetails({ from, commitments }, { set, participants })
    return part === undefined || !threshold.isProof(proof, part, 'reshare-dealing', subject, details)
  })
  if (wrong.length > 0)
    throw new threshold.ShareError(
      'share_invalid',
      'A dealing without the proof that its share is known.',
      wrong.map(({ from }) => from),
    )
}

/**
 * Checks the client's dealings, adds the service's, and makes the service's new share. Where its old share takes no part,
 * the service deals zero: otherwise its new share would be made only of what the client sent.
 */
function startReshare(asked: AskedResharing, ownShare: threshold.Share | null): StartedResharing {
  const { subject, old, set, participants, dealings } = asked
  const index = threshold.HOLDER_INDEX.server
  const zero = ownShare === null ? [index] : []
  const resharing = { old, set, signers: threshold.SHARED_SIGNERS, zero }
  requireProven(asked)
  const dealt = ownShare === null ? threshold.dealZero(resharing, index) : threshold.dealReshare(resharing, ownShare)
  const { dealing, subshares, weight } = dealt
  const details = threshold.dealingDetails(dealing, { set, participants })
  const own = { dealing, subshares, proof: threshold.prove(weight, 'reshare-dealing', subject, details) }
  weight.fill(0)
  const all = [...dealings.map(({ from, commitments }) => ({ from, commitments })), dealing]
  const received = [...asked.subshares, ...subshares].filter(({ to }) => to === index)
  const { share, sharing } = threshold.receiveReshare(resharing, all, index, received)
  const transcript = threshold.reshareTranscript(subject, { set, participants, dealings: all })
  return {
    own,
    share,
    sharing,
    verifyingShares: verifyingShares(sharing),
    transcript,
    coSigned: coSign(sharing, share, asked.confirming, transcript),
  }
}

/** All operations that take milliseconds of arithmetic. They run in separate threads, so that they do not block the event loop. */
export const operations = {
  coSign,
  checkNonceCommitments: threshold.checkNonceCommitments,
  verifyingShares,
  isShareOf: threshold.isShareOf,
  wrongShares: threshold.wrongShares,
  joinShares: threshold.joinShares,
  beginDkg,
  finishDkg,
  startReshare,
}

export type Operations = typeof operations
