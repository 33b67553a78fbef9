import { fromBase64Url, fromHex, toBase64Url, toHex } from '../bytes.ts'
import { beginDkg, type DkgRound1, dealSubshares, finishDkg, type Subshare } from '../dkg.ts'
import { ShareError } from '../errors.ts'
import { sameBytes } from '../group.ts'
import { type EncryptionKey, newEncryptionKey, openSealed, sealTo } from '../hpke.ts'
import {
  dkgTranscript,
  HOLDER_INDEX,
  type Holder,
  type Participant,
  prove,
  SHARED_SIGNERS,
  type Subject,
  subshareContext,
} from '../protocol.ts'
import { verifyingShareOf } from '../sharing.ts'
import type { KeyApi, WireRound1, WireSealed, WireWallet } from './api.ts'
import { type HeldShare, namespaceOf } from './held-share.ts'
import { requireTenant, serviceKey } from './pin.ts'

const OWN = ['device', 'recovery'] as const

/** One of the user's two holders during key generation. */
export interface OwnHolder {
  index: number
  holder: (typeof OWN)[number]
  key: EncryptionKey
}

/** A key pair for each of the user's holders, to seal secrets to. */
export function ownHolders(): Promise<OwnHolder[]> {
  return Promise.all(
    OWN.map(async (holder) => ({ index: HOLDER_INDEX[holder], holder, key: await newEncryptionKey() })),
  )
}

/** The holders in the form of the API. */
export const participantsOf = (holders: readonly OwnHolder[]) =>
  holders.map(({ index, holder, key }) => ({ index, holder, encryptionKey: toHex(key.publicKey) }))

const toWire = ({ index, commitments, proofOfKnowledge }: DkgRound1): WireRound1 => ({
  index,
  commitments: commitments.map(toHex),
  proofOfKnowledge: toHex(proofOfKnowledge),
})

const fromWire = ({ index, commitments, proofOfKnowledge }: WireRound1): DkgRound1 => ({
  index,
  commitments: commitments.map(fromHex),
  proofOfKnowledge: fromHex(proofOfKnowledge),
})

/** A box in the form of the API. */
const boxOf = ({ enc, ct }: { enc: Uint8Array; ct: Uint8Array }): WireSealed => ({
  enc: toBase64Url(enc),
  ct: toBase64Url(ct),
})

/** A box from the API. */
export const readBox = ({ enc, ct }: WireSealed) => ({ enc: fromBase64Url(enc), ct: fromBase64Url(ct) })

async function openSubshare(
  subject: Subject,
  of: { from: number; to: OwnHolder; purpose: 'dkg-subshare' | 'reshare-subshare' },
  sealed: WireSealed | undefined,
): Promise<Subshare> {
  const { from, to, purpose } = of
  if (sealed === undefined)
    throw new ShareError('protocol_violated', `The service sent nothing for share ${to.index}.`, [from])
  const context = subshareContext(subject, { from, to: to.index, recipientKey: toHex(to.key.publicKey) })
  const scalar = await openSealed(to.key.privateKey, { purpose, context }, readBox(sealed))
  return { from, to: to.index, scalar }
}

/** Opens the service's parts of the user's shares. */
export function openSubshares(
  subject: Subject,
  holders: readonly OwnHolder[],
  purpose: 'dkg-subshare' | 'reshare-subshare',
  sealed: readonly (WireSealed & { to: number })[],
): Promise<Subshare[]> {
  const from = HOLDER_INDEX.server
  return Promise.all(
    holders.map((to) =>
      openSubshare(
        subject,
        { from, to, purpose },
        sealed.find((each) => each.to === to.index),
      ),
    ),
  )
}

/** Seals the user's part of the service's share to the service. */
export async function sealSubshare(
  subject: Subject,
  service: { kid: string; publicKey: string },
  part: Subshare,
  purpose: 'dkg-subshare' | 'reshare-subshare',
): Promise<WireSealed & { kid: string }> {
  const context = subshareContext(subject, { from: part.from, to: part.to, recipientKey: service.publicKey })
  return { kid: service.kid, ...boxOf(await sealTo(fromHex(service.publicKey), { purpose, context }, part.scalar)) }
}

/** Checks that the service's subject is the requested one. @throws ShareError protocol_violated */
export function checkSubject(
  subject: Subject,
  of: Pick<Subject, 'walletId' | 'generation'> & { challengeId: string },
): void {
  const { walletId, generation, challengeId } = subject
  if (walletId !== of.walletId || generation !== of.generation || challengeId !== of.challengeId)
    throw new ShareError('protocol_violated', 'The service answered for another wallet, generation or exchange.')
}

/** Checks that a wallet has this key, and that its address belongs to this key. @throws ShareError protocol_violated */
function checkWallet(wallet: WireWallet, publicKey: Uint8Array): void {
  if (wallet.publicKey !== toHex(publicKey) || wallet.partyId.split('::')[1] !== namespaceOf(publicKey))
    throw new ShareError('protocol_violated', 'The service created a wallet with another key.')
}

/** The user's two shares of a new or reshared key. Store them in two places. */
export interface UserShares {
  device: HeldShare
  recovery: HeldShare
}

/** Adds to the user's shares all that is needed to use them. */
export function heldShares(
  about: Pick<HeldShare, 'walletId' | 'publicKey' | 'tenantId' | 'generation' | 'sharing'>,
  shares: readonly { index: number; scalar: Uint8Array }[],
): UserShares {
  const of = (holder: Holder): HeldShare => {
    const share = shares.find(({ index }) => index === HOLDER_INDEX[holder])
    if (share === undefined) throw new ShareError('protocol_violated', `The ${holder} share is missing.`)
    return { ...about, holder, share }
  }
  return { device: of('device'), recovery: of('recovery') }
}

/** Generates a key together with the service, up to the confirmation. */
async function generate(api: KeyApi, ledger: { ledger?: string }) {
  const service = await serviceKey(api)
  const holders = await ownHolders()
  const begun = holders.map(({ index }) => beginDkg(index, SHARED_SIGNERS))
  const own = begun.map(({ round1 }) => round1)
  const participants = participantsOf(holders)
  const started = await api.mpc.startDkg({ ...ledger, participants, round1: own.map(toWire) })
  const { dkgId, walletId, subject, transcriptHash } = started
  checkSubject(subject, { walletId: null, generation: 1, challengeId: dkgId })
  requireTenant(subject.tenantId, service)
  const round1 = [fromWire(started.round1), ...own]
  const transcript = dkgTranscript(subject, participants as Participant[], round1)
  if (!sameBytes(transcript, fromHex(transcriptHash)))
    throw new ShareError('protocol_violated', 'The service received other messages than this side sent.')
  const others = (index: number) => round1.filter((each) => each.index !== index)
  const dealt = begun.flatMap(({ state }) => dealSubshares(state, others(state.index)))
  const { server } = HOLDER_INDEX
  const sealedSubshares = await Promise.all(
    dealt
      .filter(({ to }) => to === server)
      .map(async (part) => ({
        from: part.from,
        to: part.to,
        ...(await sealSubshare(subject, service, part, 'dkg-subshare')),
      })),
  )
  const answered = await api.mpc.dkgRound2(dkgId, { sealedSubshares, transcriptHash })
  const parts = [...dealt, ...(await openSubshares(subject, holders, 'dkg-subshare', answered.sealedSubshares))]
  const ends = begun.map(({ state }) =>
    finishDkg(
      state,
      others(state.index),
      parts.filter(({ to }) => to === state.index),
    ),
  )
  const { sharing } = ends[0] as (typeof ends)[number]
  return { dkgId, walletId, subject, transcriptHash, sharing, shares: ends.map(({ share }) => share) }
}

/**
 * Creates a `shared` wallet for the current user by distributed key generation. The service gets one share, the user
 * two, and nobody ever has the key. Every answer of the service is checked. `keep` gets both shares before the wallet
 * exists and must store them: after that, a crash of the device loses nothing. Store `recovery` apart from `device`.
 * @throws ServicePinError before anything is sent if the service is not the pinned one, ShareError, and the errors of the calls and of `keep`
 */
export async function createSharedWallet<Wallet extends WireWallet>(
  api: KeyApi<Wallet>,
  options: { ledger?: string; keep?(shares: UserShares): Promise<void> | void } = {},
): Promise<UserShares & { wallet: Wallet }> {
  const { keep, ...ledger } = options
  const { dkgId, walletId, subject, transcriptHash, sharing, shares } = await generate(api, ledger)
  const key = sharing.commitments[0] as Uint8Array
  const publicKey = toHex(key)
  const made = heldShares({ walletId, publicKey, tenantId: subject.tenantId, generation: 1, sharing }, shares)
  await keep?.(made)
  const { wallet } = await api.mpc.confirmDkg(dkgId, {
    publicKey,
    verifyingShares: [1, 2, 3].map((index) => ({ index, verifyingShare: toHex(verifyingShareOf(sharing, index)) })),
    proofs: shares.map(({ index, scalar }) => ({
      index,
      proof: toHex(prove(scalar, 'dkg-confirm', subject, { index, transcript: transcriptHash })),
    })),
    transcriptHash,
  })
  checkWallet(wallet, key)
  if (wallet.id !== walletId)
    throw new ShareError('protocol_violated', 'The service created another wallet than it announced.')
  return { wallet, ...made }
}
