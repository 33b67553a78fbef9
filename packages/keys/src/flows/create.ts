import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'
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
import type { HeldShare } from './held-share.ts'

const OWN = ['device', 'recovery'] as const

/** One of the user's two holders while a key is made. */
export interface OwnHolder {
  index: number
  holder: (typeof OWN)[number]
  key: EncryptionKey
}

/** A key pair for each of the user's holders: what is secret reaches them sealed. */
export function ownHolders(): Promise<OwnHolder[]> {
  return Promise.all(
    OWN.map(async (holder) => ({ index: HOLDER_INDEX[holder], holder, key: await newEncryptionKey() })),
  )
}

/** The holders as the service is told of them. */
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

/** A box as the wire has it. */
const boxOf = ({ enc, ct }: { enc: Uint8Array; ct: Uint8Array }): WireSealed => ({
  enc: toBase64Url(enc),
  ct: toBase64Url(ct),
})

/** A box from the wire. */
export const readBox = ({ enc, ct }: WireSealed) => ({ enc: fromBase64Url(enc), ct: fromBase64Url(ct) })

/** The service's newest key to seal to. */
export async function serviceKey(api: KeyApi): Promise<{ kid: string; publicKey: string }> {
  const [key] = (await api.mpc.config()).keys
  if (key === undefined) throw new ShareError('protocol_violated', 'The service has no key to seal to.')
  return key
}

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

/** The service's parts of the user's shares, opened. */
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

/** The user's part of the service's share, sealed to the service. */
export async function sealSubshare(
  subject: Subject,
  service: { kid: string; publicKey: string },
  part: Subshare,
  purpose: 'dkg-subshare' | 'reshare-subshare',
): Promise<WireSealed & { kid: string }> {
  const context = subshareContext(subject, { from: part.from, to: part.to, recipientKey: service.publicKey })
  return { kid: service.kid, ...boxOf(await sealTo(fromHex(service.publicKey), { purpose, context }, part.scalar)) }
}

/** That what is sealed and proven is about what was asked for. @throws ShareError protocol_violated */
export function checkSubject(
  subject: Subject,
  of: Pick<Subject, 'walletId' | 'generation'> & { challengeId: string },
): void {
  const { walletId, generation, challengeId } = subject
  if (walletId !== of.walletId || generation !== of.generation || challengeId !== of.challengeId)
    throw new ShareError('protocol_violated', 'The service speaks of another wallet, generation or exchange.')
}

/** Of Canton's fingerprints, the purpose of public keys'. */
const FINGERPRINT_PURPOSE = Uint8Array.of(0, 0, 0, 12)

/** That a wallet is of this key, and what is sent to it goes to this key's holder. @throws ShareError protocol_violated */
function checkWallet(wallet: WireWallet, publicKey: Uint8Array): void {
  const namespace = `1220${toHex(sha256(concatBytes(FINGERPRINT_PURPOSE, publicKey)))}`
  if (wallet.publicKey !== toHex(publicKey) || wallet.partyId.split('::')[1] !== namespace)
    throw new ShareError('protocol_violated', 'The service has made a wallet of another key.')
}

/** What came of making or resharing a key: the user's two shares. Keep them in two places. */
export interface UserShares {
  device: HeldShare
  recovery: HeldShare
}

/** Makes the user's shares out of the parts for both. */
export function heldShares(
  about: Pick<HeldShare, 'walletId' | 'publicKey' | 'generation' | 'sharing'>,
  shares: readonly { index: number; scalar: Uint8Array }[],
): UserShares {
  const of = (holder: Holder): HeldShare => {
    const share = shares.find(({ index }) => index === HOLDER_INDEX[holder])
    if (share === undefined) throw new ShareError('protocol_violated', `There is no ${holder} share.`)
    return { ...about, holder, share }
  }
  return { device: of('device'), recovery: of('recovery') }
}

/** Generates a key together: what both sides have in the end, before either says so. */
async function generate(api: KeyApi, ledger: { ledger?: string }) {
  const service = await serviceKey(api)
  const holders = await ownHolders()
  const begun = holders.map(({ index }) => beginDkg(index, SHARED_SIGNERS))
  const own = begun.map(({ round1 }) => round1)
  const participants = participantsOf(holders)
  const started = await api.mpc.startDkg({ ...ledger, participants, round1: own.map(toWire) })
  const { dkgId, walletId, subject, transcriptHash } = started
  checkSubject(subject, { walletId: null, generation: 1, challengeId: dkgId })
  const round1 = [fromWire(started.round1), ...own]
  const transcript = dkgTranscript(subject, participants as Participant[], round1)
  if (!sameBytes(transcript, fromHex(transcriptHash)))
    throw new ShareError('protocol_violated', 'The service has seen other messages than were sent.')
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
 * Makes a `shared` wallet for the current user by distributed key generation: the service gets one share, the user two,
 * and nobody ever has the key. All that the service says is checked. `keep` gets both shares before there is a wallet, and
 * must have stored them when it is done: a device that dies after that has lost nothing. Keep `recovery` apart from
 * `device`. @throws ShareError, and what the calls and `keep` throw
 */
export async function createSharedWallet<Wallet extends WireWallet>(
  api: KeyApi<Wallet>,
  options: { ledger?: string; keep?(shares: UserShares): Promise<void> | void } = {},
): Promise<UserShares & { wallet: Wallet }> {
  const { keep, ...ledger } = options
  const { dkgId, walletId, subject, transcriptHash, sharing, shares } = await generate(api, ledger)
  const key = sharing.commitments[0] as Uint8Array
  const publicKey = toHex(key)
  const made = heldShares({ walletId, publicKey, generation: 1, sharing }, shares)
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
    throw new ShareError('protocol_violated', 'The service has made another wallet than it said.')
  return { wallet, ...made }
}
