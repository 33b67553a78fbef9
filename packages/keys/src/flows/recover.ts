import { fromHex, toHex, utf8 } from '../bytes.ts'
import { aggregate, commitNonces, signShare } from '../cosign.ts'
import type { Subshare } from '../dkg.ts'
import { ShareError } from '../errors.ts'
import { sameBytes } from '../group.ts'
import { newEncryptionKey, openSealed } from '../hpke.ts'
import {
  dealingDetails,
  HOLDER_INDEX,
  isProof,
  prove,
  reshareTranscript,
  SHARED_SIGNERS,
  type Subject,
  shareContext,
} from '../protocol.ts'
import { type Dealing, dealReshare, provenPoint, type Resharing, receiveReshare } from '../reshare.ts'
import { joinShares, type Share, type Sharing } from '../sharing.ts'
import type { KeyApi, WireDealing, WireRecovery } from './api.ts'
import {
  checkSubject,
  heldShares,
  type OwnHolder,
  openSubshares,
  ownHolders,
  participantsOf,
  readBox,
  sealSubshare,
  type UserShares,
} from './create.ts'
import { readCommitments, wireCommitments } from './execute.ts'
import type { HeldShare } from './held-share.ts'
import { requireTenant, serviceKey } from './pin.ts'

/** Checks that all shares are of one wallet and generation. @throws ShareError share_invalid */
function sameKey(shares: readonly HeldShare[]): HeldShare {
  const [first] = shares
  if (first === undefined) throw new ShareError('shares_insufficient', 'Give at least one share.')
  const wrong = shares.filter(
    (each) =>
      each.walletId !== first.walletId || each.generation !== first.generation || each.publicKey !== first.publicKey,
  )
  if (wrong.length > 0)
    throw new ShareError(
      'share_invalid',
      'The shares belong to different wallets or generations.',
      wrong.map(({ share }) => share.index),
    )
  return first
}

/**
 * Combines two of the user's shares to the key on this device, without the service. Returns 32 bytes, a secret scalar
 * for `signWithScalar`, not an RFC 8032 seed. @throws ShareError
 */
export function joinHeldShares(shares: readonly HeldShare[]): Uint8Array {
  const { sharing } = sameKey(shares)
  return joinShares(
    sharing,
    shares.map(({ share }) => share),
  )
}

/**
 * Gets the service's share and combines it with `held` to the key on this device. Use it to leave the wallet for good
 * when one of the user's two shares is lost. Ends the wallet's delegated sessions. Returns the secret scalar.
 * @throws ShareError, and the errors of the calls
 */
export async function releaseKey(api: KeyApi, held: HeldShare): Promise<Uint8Array> {
  const { walletId, share, sharing } = held
  const recipient = await newEncryptionKey()
  const recipientKey = toHex(recipient.publicKey)
  const { challengeId, subject } = await api.mpc.challenge({ walletId, purpose: 'release' })
  checkSubject(subject, { walletId, generation: held.generation, challengeId })
  const { index } = share
  const {
    index: from,
    holder,
    sealedShare,
  } = await api.mpc.recover({
    walletId,
    mode: 'release',
    challengeId,
    proofs: [{ index, proof: toHex(prove(share.scalar, 'release-share', subject, { index, recipientKey })) }],
    recipientPublicKey: recipientKey,
  })
  if (from === null || holder === null || sealedShare === null)
    throw new ShareError('protocol_violated', 'The service returned no share.')
  const context = shareContext(subject, { index: from, holder, recipientKey })
  const scalar = await openSealed(recipient.privateKey, { purpose: 'recover', context }, readBox(sealedShare))
  return joinShares(sharing, [share, { index: from, scalar }])
}

/** This side's state of a resharing. */
interface Started {
  resharing: Resharing
  subject: Subject
  holders: OwnHolder[]
  own: (ReturnType<typeof dealReshare> & { proof: Uint8Array })[]
}

function dealOwn({ resharing, subject, holders }: Omit<Started, 'own'>, shares: readonly HeldShare[]): Started['own'] {
  const of = { set: resharing.set, participants: participantsOf(holders) }
  return shares.map(({ share }) => {
    const dealt = dealReshare(resharing, share)
    const proof = prove(dealt.weight, 'reshare-dealing', subject, dealingDetails(dealt.dealing, of))
    dealt.weight.fill(0)
    return { ...dealt, proof }
  })
}

/** The user's dealings in the form of the API, with the service's parts sealed to it. */
async function wireDealings({ subject, own }: Started, service: { kid: string; publicKey: string }) {
  return Promise.all(
    own.map(async ({ dealing, subshares, proof }) => {
      const part = subshares.find(({ to }) => to === HOLDER_INDEX.server) as Subshare
      return {
        from: dealing.from,
        commitments: dealing.commitments.map(toHex),
        proof: toHex(proof),
        sealedSubshare: await sealSubshare(subject, service, part, 'reshare-subshare'),
      }
    }),
  )
}

/** Checks the service's dealing, and opens its parts of the user's new shares. @throws ShareError */
async function receiveDealing(
  { resharing, subject, holders }: Started,
  { from, commitments: points, proof, sealedSubshares }: WireDealing,
): Promise<{ dealing: Dealing; parts: Subshare[] }> {
  const { server } = HOLDER_INDEX
  const dealing = { from, commitments: points.map(fromHex) }
  const details = dealingDetails(dealing, { set: resharing.set, participants: participantsOf(holders) })
  const by = from === server ? provenPoint(resharing, dealing) : undefined
  if (by === undefined || !isProof(fromHex(proof), by, 'reshare-dealing', subject, details))
    throw new ShareError('share_invalid', 'The service did not prove that it knows what it deals.', [server])
  return { dealing, parts: await openSubshares(subject, holders, 'reshare-subshare', sealedSubshares) }
}

/** The user's new shares. Checks each part against its dealing. @throws ShareError */
function receiveShares(
  resharing: Resharing,
  dealings: readonly Dealing[],
  parts: readonly Subshare[],
): { device: Share; recovery: Share; sharing: Sharing } {
  const receive = (index: number) =>
    receiveReshare(
      resharing,
      dealings,
      index,
      parts.filter(({ to }) => to === index),
    )
  const { share: device, sharing } = receive(HOLDER_INDEX.device)
  return { device, recovery: receive(HOLDER_INDEX.recovery).share, sharing }
}

/**
 * The service's answer to the start of a resharing. Checks that it is complete.
 * @throws ShareError protocol_violated
 */
function startedOf(answer: WireRecovery, next: number) {
  const { generation, reshareId, dealings, transcriptHash, serverCommitments, serverSignatureShare } = answer
  const dealing = dealings?.length === 1 ? dealings[0] : undefined
  if (generation !== next || !reshareId || !dealing || !transcriptHash || !serverCommitments || !serverSignatureShare)
    throw new ShareError('protocol_violated', 'The service did not start a resharing.')
  return { generation, reshareId, dealing, transcriptHash, serverCommitments, serverSignatureShare }
}

/** Starts a resharing. */
async function begin(api: KeyApi, shares: readonly HeldShare[]) {
  const { walletId, generation, tenantId, sharing: old } = sameKey(shares)
  const service = await serviceKey(api)
  const mine = shares.slice(0, old.threshold)
  const { device, server } = HOLDER_INDEX
  const set = [...(mine.length < old.threshold ? [server] : []), ...mine.map(({ share }) => share.index)]
  // Where the service's old share does not deal, the service adds a dealing of zero: nobody else knows all parts of share 1.
  const resharing: Resharing = { old, set, signers: SHARED_SIGNERS, zero: set.includes(server) ? [] : [server] }
  const holders = await ownHolders()
  const { challengeId, subject } = await api.mpc.challenge({ walletId, purpose: 'reshare' })
  checkSubject(subject, { walletId, generation, challengeId })
  requireTenant(subject.tenantId, service)
  if (tenantId !== undefined) requireTenant(tenantId, service)
  const about = { resharing, subject, holders }
  const started: Started = { ...about, own: dealOwn(about, mine) }
  // The nonces are made before the new share is known. The old share's scalar is only mixed into the randomness.
  const signer = commitNonces({ ...(mine[0] as HeldShare).share, index: device }, [utf8(challengeId)])
  const answer = await api.mpc.recover({
    walletId,
    mode: 'reshare',
    challengeId,
    set,
    participants: participantsOf(holders),
    dealings: await wireDealings(started, service),
    commitments: wireCommitments(signer.commitments),
  })
  return { ...started, signer, answer: startedOf(answer, generation + 1) }
}

/**
 * Replaces all shares of a key, so that a lost or stolen share is useless. It needs one of the user's shares and the
 * service's share, or both of the user's. `keep` gets the new shares before the old ones stop working and must store
 * both: a crash before that changes nothing, a crash after it loses nothing. Afterwards, destroy the old shares.
 * @throws ServicePinError before anything is sent if the service is not the pinned one, ShareError, and the errors of the calls and of `keep`
 */
export async function reshare(
  api: KeyApi,
  shares: readonly HeldShare[],
  keep: (fresh: UserShares) => Promise<void> | void,
): Promise<UserShares> {
  const { walletId, publicKey } = sameKey(shares)
  const { resharing, subject, holders, own, signer, answer } = await begin(api, shares)
  const { transcriptHash, serverCommitments, serverSignatureShare } = answer
  const theirs = await receiveDealing({ resharing, subject, holders, own }, answer.dealing)
  const dealings = [...own.map(({ dealing }) => dealing), theirs.dealing]
  const made = receiveShares(resharing, dealings, [...own.flatMap(({ subshares }) => subshares), ...theirs.parts])
  const participants = participantsOf(holders)
  const message = reshareTranscript(subject, { set: resharing.set, participants, dealings })
  if (!sameBytes(message, fromHex(transcriptHash)))
    throw new ShareError('protocol_violated', 'The service received other dealings than this side sent.')
  const signing = {
    sharing: made.sharing,
    commitments: [readCommitments(serverCommitments), signer.commitments],
    message,
  }
  const mine = signShare(signing, made.device, signer.nonces)
  const theirPart = { index: HOLDER_INDEX.server, value: fromHex(serverSignatureShare) }
  // Fails, and names the signer at fault, unless the service's new share works. Only then are the old shares replaced.
  const signature = toHex(aggregate(signing, [theirPart, mine]))
  const { tenantId } = subject
  const about = { walletId, publicKey, tenantId, generation: answer.generation, sharing: made.sharing }
  const fresh = heldShares(about, [made.device, made.recovery])
  await keep(fresh)
  const { index, scalar } = made.recovery
  const proof = toHex(prove(scalar, 'reshare-confirm', subject, { index, transcript: transcriptHash }))
  const { reshareId } = answer
  await api.mpc.recover({ walletId, mode: 'reshare', reshareId, signature, proofs: [{ index, proof }] })
  return fresh
}
