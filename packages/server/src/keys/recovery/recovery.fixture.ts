import { createPublicKey, verify } from 'node:crypto'
import { expect } from 'vitest'
import type { Answer } from '../../../test/harness/harness.ts'
import type { Person } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { hexOf, holderOf, newRecipient, type SplitWallet, sealToService } from '../key-shares/key-shares.fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
type Json = any

export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** A wallet with what its user holds of its key. */
export interface Held {
  person: Pick<Person, 'get' | 'post'>
  walletId: string
  publicKey: Uint8Array
  sharing: keys.Sharing
  share(index: number): keys.Share
}

/** The data of a response. Checks its status. */
export function expectData(answer: Answer, status: number): Json {
  expect(answer.status, answer.text).toBe(status)
  return answer.body.data
}

/** Whether `node:crypto` takes it for the key's Ed25519 signature. */
function isSigned(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') }
  return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature)
}

/** That a secret scalar signs for a wallet's key. */
export function expectSigns({ publicKey }: Pick<Held, 'publicKey'>, scalar: Uint8Array): void {
  const message = keys.utf8('whose key is it?')
  expect(isSigned(publicKey, message, keys.signWithScalar(message, scalar))).toBe(true)
}

export interface Asked {
  challengeId: string
  subject: keys.Subject
}

/** A new challenge. */
export async function challengeOf(
  { person, walletId }: Pick<Held, 'person' | 'walletId'>,
  purpose: string,
): Promise<Asked & { expiresAt: string }> {
  return expectData(await person.post('/mpc/challenge', { walletId, purpose }), 201)
}

export type Recipient = Awaited<ReturnType<typeof newRecipient>>

/** What a test has otherwise than it should be. */
export interface ReleaseOptions {
  /** Proofs of which shares; as it should be, as many as are needed beside the service's. */
  of?: readonly number[]
  asked?: Asked
  /** What proofs are bound to, if not what the challenge says. */
  subject?: keys.Subject
  purpose?: keys.ProofPurpose
  recipient?: Recipient
  /** The key that proofs are bound to, hex. */
  recipientKey?: string
}

/** A body that has the service's share released, and the key that it is sealed to. */
export async function releaseBody(held: Held, options: ReleaseOptions = {}) {
  const asked = options.asked ?? (await challengeOf(held, 'release'))
  const recipient = options.recipient ?? (await newRecipient())
  const { subject = asked.subject, purpose = 'release-share', recipientKey = recipient.publicKey } = options
  const indices = options.of ?? Array.from({ length: held.sharing.threshold - 1 }, (_, at) => at + 2)
  const proofs = indices.map((index) => ({
    index,
    proof: hex(keys.prove(held.share(index).scalar, purpose, subject, { index, recipientKey })),
  }))
  const body = {
    walletId: held.walletId,
    challengeId: asked.challengeId,
    proofs,
    recipientPublicKey: recipient.publicKey,
  }
  return { body, asked, recipient }
}

/** Opens a released share. @throws ShareError */
export async function openReleased(
  data: Json,
  { asked, recipient }: { asked: Asked; recipient: Recipient },
): Promise<keys.Share> {
  const { index, holder, generation, sealedShare } = data
  const subject = { ...asked.subject, generation }
  const context = keys.shareContext(subject, { index, holder, recipientKey: recipient.publicKey })
  return { index, scalar: await recipient.open('recover', context, sealedShare) }
}

/** Has the service's share released. */
export async function release(held: Held, options: ReleaseOptions = {}) {
  const made = await releaseBody(held, options)
  const data = expectData(await held.person.post('/mpc/recover', made.body), 200)
  return { data, share: await openReleased(data, made), ...made }
}

/** Seals a share to the service, for it to put the key together. */
export async function sealedShare(
  { person, share }: Pick<Held, 'person' | 'share'>,
  { subject }: Pick<Asked, 'subject'>,
  index: number,
  {
    holder = holderOf(index),
    scalar = share(index).scalar,
    answerKey,
  }: { holder?: keys.Holder; scalar?: Uint8Array; answerKey: string },
) {
  const context = (recipientKey: string) => keys.combineContext(subject, { index, holder, recipientKey, answerKey })
  return { index, ...(await sealToService(person as Person, 'recover', context, scalar)) }
}

/** The user's side of a resharing. */
export interface Dealt {
  held: Held
  set: readonly number[]
  asked: Asked
  participants: (keys.Participant & { recipient: Recipient })[]
  dealt: ReturnType<typeof keys.dealReshare>[]
  nonces: keys.Nonces
  commitments: keys.NonceCommitments
  body: Json
}

const resharingOf = ({ held, set }: Pick<Dealt, 'held' | 'set'>): keys.Resharing => ({
  old: held.sharing,
  set,
  signers: keys.SHARED_SIGNERS,
  zero: set.includes(1) ? [] : [1],
})

/** Deals the user's old shares of a set out: all that starts a resharing. */
export async function dealAnew(
  held: Held,
  set: readonly number[],
  { asked: known, subject: other }: { asked?: Asked; subject?: keys.Subject } = {},
): Promise<Dealt> {
  const asked = known ?? (await challengeOf(held, 'reshare'))
  const subject = other ?? asked.subject
  const participants = await Promise.all(
    ([2, 3] as const).map(async (index) => {
      const recipient = await newRecipient()
      return { index, holder: holderOf(index), encryptionKey: recipient.publicKey, recipient }
    }),
  )
  const told = participants.map(({ index, holder, encryptionKey }) => ({ index, holder, encryptionKey }))
  const dealt = set
    .filter((index) => index !== 1)
    .map((index) => keys.dealReshare(resharingOf({ held, set }), held.share(index)))
  const dealings = await Promise.all(
    dealt.map(async ({ dealing, subshares, weight }) => {
      const { from } = dealing
      const context = (recipientKey: string) => keys.subshareContext(subject, { from, to: 1, recipientKey })
      const first = subshares.find(({ to }) => to === 1) as keys.Subshare
      return {
        from,
        commitments: hexOf(dealing.commitments),
        proof: hex(
          keys.prove(weight, 'reshare-dealing', subject, keys.dealingDetails(dealing, { set, participants: told })),
        ),
        sealedSubshare: await sealToService(held.person as Person, 'reshare-subshare', context, first.scalar),
      }
    }),
  )
  const { nonces, commitments } = keys.commitNonces({ ...held.share(2), index: 2 })
  const body = {
    walletId: held.walletId,
    mode: 'reshare',
    challengeId: asked.challengeId,
    set,
    participants: told,
    dealings,
    commitments: { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) },
  }
  return { held, set, asked, participants, dealt, nonces, commitments, body }
}

/** A resharing that only has to be confirmed. */
export interface StartedExecution {
  data: Json
  /** What the user holds once it is. */
  next: Held
  body: Json
}

/** Computes the user's side from the service's response, and checks each part. */
export async function receive(dealt: Dealt, data: Json): Promise<StartedExecution> {
  const { held, set, asked, participants, nonces, commitments } = dealt
  const dealings: keys.Dealing[] = dealt.dealt.map(({ dealing }) => dealing)
  const parts = dealt.dealt.flatMap(({ subshares }) => subshares)
  for (const theirs of data.dealings) {
    const points = theirs.commitments.map((point: string) => keys.fromHex(point))
    const details = keys.dealingDetails(
      { from: 1, commitments: points },
      { set, participants: dealt.body.participants },
    )
    const proof = keys.fromHex(theirs.proof)
    const by = keys.provenPoint(resharingOf(dealt), { from: 1, commitments: points }) as Uint8Array
    expect(keys.isProof(proof, by, 'reshare-dealing', asked.subject, details)).toBe(true)
    dealings.push({ from: theirs.from, commitments: points })
    for (const { to, ...box } of theirs.sealedSubshares) {
      const participant = participants.find(({ index }) => index === to) as Dealt['participants'][number]
      const context = keys.subshareContext(asked.subject, { from: 1, to, recipientKey: participant.encryptionKey })
      parts.push({ from: 1, to, scalar: await participant.recipient.open('reshare-subshare', context, box) })
    }
  }
  const [two, three] = [2, 3].map((index) =>
    keys.receiveReshare(
      resharingOf(dealt),
      dealings,
      index,
      parts.filter(({ to }) => to === index),
    ),
  ) as [ReturnType<typeof keys.receiveReshare>, ReturnType<typeof keys.receiveReshare>]
  const of = participants.map(({ index, holder, encryptionKey }) => ({ index, holder, encryptionKey }))
  const transcript = keys.reshareTranscript(asked.subject, { set, participants: of, dealings })
  expect(hex(transcript)).toBe(data.transcriptHash)
  expect(hexOf(two.sharing.commitments)).toEqual(data.commitments)
  const { serverCommitments: theirs, serverSignatureShare: value } = data
  const other = { index: theirs.index, hiding: keys.fromHex(theirs.hiding), binding: keys.fromHex(theirs.binding) }
  const signing = { sharing: two.sharing, commitments: [other, commitments], message: transcript }
  const mine = keys.signShare(signing, two.share, nonces)
  const signature = keys.aggregate(signing, [{ index: 1, value: keys.fromHex(value) }, mine])
  expect(isSigned(held.publicKey, transcript, signature)).toBe(true)
  const details = { index: 3, transcript: data.transcriptHash }
  return {
    data,
    next: {
      ...held,
      sharing: two.sharing,
      share(index) {
        if (index === 1) throw new Error('share 1 is the service’s')
        return index === 2 ? two.share : three.share
      },
    },
    body: {
      walletId: held.walletId,
      mode: 'reshare',
      reshareId: data.reshareId,
      signature: hex(signature),
      proofs: [{ index: 3, proof: hex(keys.prove(three.share.scalar, 'reshare-confirm', asked.subject, details)) }],
    },
  }
}

/** Starts a resharing by these old shares. */
export async function start(held: Held, set: readonly number[]): Promise<StartedExecution & { dealt: Dealt }> {
  const dealt = await dealAnew(held, set)
  const data = expectData(await held.person.post('/mpc/recover', dealt.body), 200)
  return { dealt, ...(await receive(dealt, data)) }
}

/** The whole of it. */
export async function reshare(held: Held, set: readonly number[]) {
  const begun = await start(held, set)
  return { ...begun, done: expectData(await held.person.post('/mpc/recover', begun.body), 200) }
}

/** The same wallet in another session of its user's, or of somebody else's. */
export const as = (held: SplitWallet | Held, person: Held['person']): Held => ({ ...held, person })
