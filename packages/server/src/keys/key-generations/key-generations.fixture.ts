import { expect } from 'vitest'
import type { Answer, Service } from '../../../test/harness/harness.ts'
import { digestOf } from '../../delegation/delegated.fixture.ts'
import type { Person } from '../../identity/sessions/sessions.fixture.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'

/** Who calls: a person's session, or a server that acts for one. */
export type Actor = Pick<Person, 'get' | 'post' | 'delete'>

/** The user's side before it has asked for anything: both of its participants, on one device. */
export interface DkgClient {
  participants: Participant[]
  /** The body of `POST /mpc/dkg`. */
  body: { participants: threshold.Participant[]; round1: Round1[] }
}

interface Participant {
  index: number
  holder: threshold.Holder
  key: threshold.EncryptionKey
  state: threshold.DkgState
  round1: threshold.DkgRound1
}

/** A first message as the wire has it. */
export interface Round1 {
  index: number
  commitments: string[]
  proofOfKnowledge: string
}

/** A sub-share as the wire has it; to the service, `kid` says to which key. */
export interface SealedSubshare {
  from: number
  to: number
  kid?: string
  enc: string
  ct: string
}

/** A key generation after its first round. */
export interface BegunDkg extends DkgClient {
  dkgId: string
  walletId: string
  subject: threshold.Subject
  round1: Round1[]
  transcriptHash: string
  expiresAt: string
  path: string
}

/** The same after its second: what the user's side has in the end. */
export interface SharedKey {
  publicKey: string
  sharing: threshold.Sharing
  device: threshold.Share
  recovery: threshold.Share
}

/** A user's shared wallet with the shares that the user has. */
export interface SharedWallet extends SharedKey {
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
  wallet: any
  dkgId: string
}

const { server, device, recovery } = threshold.HOLDER_INDEX

const toWire = ({ index, commitments, proofOfKnowledge }: threshold.DkgRound1): Round1 => ({
  index,
  commitments: commitments.map(threshold.toHex),
  proofOfKnowledge: threshold.toHex(proofOfKnowledge),
})

const fromWire = ({ index, commitments, proofOfKnowledge }: Round1): threshold.DkgRound1 => ({
  index,
  commitments: commitments.map(threshold.fromHex),
  proofOfKnowledge: threshold.fromHex(proofOfKnowledge),
})

/** The data of a response. Checks its status. */
export function expectData(answer: Answer, status: number): Answer['body'] {
  expect(answer.status, answer.text).toBe(status)
  return answer.body.data
}

/** Makes both of the user's participants. */
export async function newClient(): Promise<DkgClient> {
  const participants = await Promise.all(
    [device, recovery].map(async (index) => ({
      index,
      holder: threshold.INDEX_HOLDER[index] as threshold.Holder,
      key: await threshold.newEncryptionKey(),
      ...threshold.beginDkg(index, threshold.SHARED_SIGNERS),
    })),
  )
  return {
    participants,
    body: {
      participants: participants.map(({ index, holder, key }) => ({
        index,
        holder,
        encryptionKey: threshold.toHex(key.publicKey),
      })),
      round1: participants.map(({ round1 }) => toWire(round1)),
    },
  }
}

/** The first round. Checks the service's message as a client must, by its transcript. */
export async function beginDkg(actor: Actor, more: object = {}, known?: DkgClient): Promise<BegunDkg> {
  const client = known ?? (await newClient())
  const { dkgId, walletId, subject, round1, transcriptHash, expiresAt } = expectData(
    await actor.post('/mpc/dkg', { ...client.body, ...more }),
    201,
  )
  const all = [round1, ...client.body.round1].map(fromWire)
  const transcript = threshold.dkgTranscript(subject, client.body.participants, all)
  expect(threshold.toHex(transcript)).toBe(transcriptHash)
  return {
    ...client,
    dkgId,
    walletId,
    subject,
    round1: [round1, ...client.body.round1],
    transcriptHash,
    expiresAt,
    path: `/mpc/dkg/${dkgId}`,
  }
}

const othersOf = (dkg: BegunDkg, index: number) => dkg.round1.filter((one) => one.index !== index).map(fromWire)

const subsharesOf = (dkg: BegunDkg) =>
  dkg.participants.flatMap(({ index, state }) => threshold.dealSubshares(state, othersOf(dkg, index)))

/** How a test makes a message other than it should be. */
export interface SealChanges {
  subject?: threshold.Subject
  purpose?: threshold.SealPurpose
  /** Sealed to this key instead. */
  publicKey?: Uint8Array
  change?(subshare: threshold.Subshare): Uint8Array
}

/** The service's newest key to seal to. */
async function serviceKey(actor: Pick<Actor, 'get'>): Promise<{ kid: string; publicKey: string }> {
  return expectData(await actor.get('/mpc/config'), 200).keys[0]
}

/** The body of the second round. */
export async function round2Body(actor: Pick<Actor, 'get'>, dkg: BegunDkg, changes: SealChanges = {}) {
  const { kid, publicKey } = await serviceKey(actor)
  const { subject = dkg.subject, purpose = 'dkg-subshare', change = ({ scalar }) => scalar } = changes
  const sealedSubshares = await Promise.all(
    subsharesOf(dkg)
      .filter(({ to }) => to === server)
      .map(async (subshare): Promise<SealedSubshare> => {
        const { from, to } = subshare
        const context = threshold.subshareContext(subject, { from, to, recipientKey: publicKey })
        const recipient = changes.publicKey ?? threshold.fromHex(publicKey)
        const { enc, ct } = await threshold.sealTo(recipient, { purpose, context }, change(subshare))
        return { from, to, kid, enc: threshold.toBase64Url(enc), ct: threshold.toBase64Url(ct) }
      }),
  )
  return { sealedSubshares, transcriptHash: dkg.transcriptHash }
}

/** Completes the user's side with the service's response to the second round. */
export async function finishDkg(dkg: BegunDkg, answered: { sealedSubshares: SealedSubshare[] }): Promise<SharedKey> {
  const between = subsharesOf(dkg)
  const [two, three] = await Promise.all(
    dkg.participants.map(async ({ index, key, state }) => {
      const sealed = answered.sealedSubshares.find(({ to }) => to === index) as SealedSubshare
      const recipientKey = threshold.toHex(key.publicKey)
      const context = threshold.subshareContext(dkg.subject, { from: server, to: index, recipientKey })
      const box = { enc: threshold.fromBase64Url(sealed.enc), ct: threshold.fromBase64Url(sealed.ct) }
      const scalar = await threshold.openSealed(key.privateKey, { purpose: 'dkg-subshare', context }, box)
      const received = [{ from: server, to: index, scalar }, ...between.filter(({ to }) => to === index)]
      return threshold.finishDkg(state, othersOf(dkg, index), received)
    }),
  )
  if (two === undefined || three === undefined) throw new Error('a participant is missing')
  expect(two.sharing).toEqual(three.sharing)
  const publicKey = threshold.toHex(two.sharing.commitments[0] as Uint8Array)
  return { publicKey, sharing: two.sharing, device: two.share, recovery: three.share }
}

/** The body by which the user's side confirms. */
export function confirmBody(dkg: BegunDkg, key: SharedKey) {
  const proofs = [key.device, key.recovery].map(({ index, scalar }) => ({
    index,
    proof: threshold.toHex(
      threshold.prove(scalar, 'dkg-confirm', dkg.subject, { index, transcript: dkg.transcriptHash }),
    ),
  }))
  const verifyingShares = [server, device, recovery].map((index) => ({
    index,
    verifyingShare: threshold.toHex(threshold.verifyingShareOf(key.sharing, index)),
  }))
  return { publicKey: key.publicKey, verifyingShares, proofs, transcriptHash: dkg.transcriptHash }
}

/** Both rounds, yet to be confirmed. */
export async function twoRounds(actor: Actor, more: object = {}): Promise<{ dkg: BegunDkg; key: SharedKey }> {
  const dkg = await beginDkg(actor, more)
  const answer = await actor.post(`${dkg.path}/round2`, await round2Body(actor, dkg))
  return { dkg, key: await finishDkg(dkg, expectData(answer, 200)) }
}

/** Generates a key with the service, and makes it the user's `shared` wallet. */
export async function runDkg(actor: Actor, more: { ledger?: string } = {}): Promise<SharedWallet> {
  const { dkg, key } = await twoRounds(actor, more)
  const { wallet } = expectData(await actor.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
  return { wallet, dkgId: dkg.dkgId, ...key }
}

/**
 * Writes a note by a delegated session of a shared wallet, signed by the service and the user's share, each by its own
 * means. @returns what was signed and the signature
 */
export async function signNote(
  execute: (body: object) => Promise<Answer>,
  author: string,
  { sharing }: Pick<SharedKey, 'sharing'>,
  share: threshold.Share,
): Promise<{ message: Buffer; signature: Uint8Array }> {
  const { nonces, commitments } = threshold.commitNonces(share)
  const { index, hiding, binding } = commitments
  const asked = await execute({
    commands: [{ create: { templateId: 'Note:Note', arguments: { author, text: 'Hello' } } }],
    commitments: { index, hiding: threshold.toHex(hiding), binding: threshold.toHex(binding) },
  })
  const { signingRequest } = expectData(asked, 200)
  const theirs = {
    index: signingRequest.serverCommitments.index,
    hiding: threshold.fromHex(signingRequest.serverCommitments.hiding),
    binding: threshold.fromHex(signingRequest.serverCommitments.binding),
  }
  const message = digestOf(signingRequest.preparedTransaction)
  const signing = { sharing, commitments: [theirs, commitments], message }
  const signature = threshold.aggregate(signing, [
    { index: server, value: threshold.fromHex(signingRequest.serverSignatureShare) },
    threshold.signShare(signing, share, nonces),
  ])
  const done = await execute({ signingRequestId: signingRequest.id, signature: threshold.toHex(signature) })
  expect(expectData(done, 200).status).toBe('completed')
  return { message, signature }
}

/** Hex with its last bit changed. */
export const flipped = (hex: string) =>
  hex.slice(0, -2) + (Number.parseInt(hex.slice(-2), 16) ^ 1).toString(16).padStart(2, '0')

/** What of a user's must be all the same after a refusal: key generations, wallet, shares, and the tenant's events. */
export async function stateOf(service: Pick<Service, 'sql'>, who: { userId: string }): Promise<string> {
  const rows = await service.sql<{ row: string }>(
    `select g::text as row from key_generations g where user_id = $1
     union all select w::text from wallets w where user_id = $1
     union all select s::text from key_shares s where tenant_id = (select tenant_id from users where id = $1)
     union all select e.id || e.body from events e where tenant_id = (select tenant_id from users where id = $1) order by 1`,
    [who.userId],
  )
  return rows.map(({ row }) => row).join('\n')
}
