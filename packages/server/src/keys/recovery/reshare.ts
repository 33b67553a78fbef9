import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import { newId } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { StartedResharing } from '../../platform/security/threshold/threshold-operations.ts'
import {
  asRefusal,
  bytesOf,
  commitmentsHex,
  encryptionKeyBytes,
  openFromClient,
  openShare,
  readCommitments,
  type ShareRow,
  sealToClient,
  shareInvalid,
} from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { walletEvent } from '../../wallets/wallets/service.ts'
import { attempt, findRecoverable, type KeyWallet, NOTHING, recordShareUse, type With } from './attempt.ts'
import { RECOVERY_ERRORS } from './errors.ts'
import { knownShares } from './kept.ts'
import type { Recovery } from './schema.ts'
import * as store from './store.ts'

const fail = failures(RECOVERY_ERRORS)

/** How long a resharing can be confirmed. */
const RESHARE_MS = 60 * 60_000
const TOMBSTONE_MS = 24 * 60 * 60_000
const PORTION = 500

const { server, device } = threshold.HOLDER_INDEX

type Start = With<'challengeId' | 'set' | 'participants' | 'dealings' | 'commitments'>

/** What the service's share of a resharing is sealed under, until it counts. */
export const resharingSeal = (row: Pick<store.ResharingRow, 'tenant_id' | 'wallet_id' | 'id'>) => [
  'resharing',
  row.tenant_id,
  row.wallet_id,
  row.id,
]

/** @throws custody_unsupported: another key's shares are not the service's to make anew */
export function requireShared(wallet: KeyWallet): void {
  if (wallet.custody === 'shared') return
  const message = 'Only the shares of a shared wallet are made anew here. Store those of another generation instead.'
  throw fail('custody_unsupported', [{ field: 'walletId', code: 'custody_unsupported', message }])
}

/** Who gets the new shares beside the service, by index, their keys in hex. @throws validation_failed */
function participantsOf({ participants }: Start): (threshold.Participant & { field: string })[] {
  const sorted = participants
    .map(({ index, holder, encryptionKey }, at) => ({
      index,
      holder,
      encryptionKey: encryptionKeyBytes(encryptionKey).toString('hex'),
      field: `participants.${at}.encryptionKey`,
    }))
    .sort((a, b) => a.index - b.index)
  const wrong = sorted.some(
    ({ index, holder }, at) => index !== device + at || holder !== threshold.INDEX_HOLDER[index],
  )
  if (wrong) throw invalid('participants', 'Must be 2, the device’s, and 3, the recovery’s.')
  return sorted
}

/** That enough old shares deal, each once. @throws share_invalid, shares_insufficient (name `set`) */
function checkSet({ set }: Start, { threshold: needed, total }: threshold.Sharing): void {
  const wrong = set.filter((index, at) => index > total || set.indexOf(index) !== at)
  if (wrong.length > 0) throw shareInvalid('set', `Must be of shares 1 to ${total}, each once.`, wrong)
  if (set.length >= needed) return
  const message = `${needed} old shares must deal, here are ${set.length}.`
  throw asRefusal(new threshold.ShareError('shares_insufficient', message), 'set')
}

/** Opens the parts of the service's new share that the client has dealt. @throws validation_failed, seal_invalid */
async function openParts(deps: Deps, subject: threshold.Subject, { dealings }: Start, parts: threshold.Subshare[]) {
  for (const [at, { from, sealedSubshare }] of dealings.entries()) {
    const scalar = await openFromClient(deps.db, deps, sealedSubshare, {
      purpose: 'reshare-subshare',
      contextOf: (recipientKey) => threshold.subshareContext(subject, { from, to: server, recipientKey }),
      field: `dealings.${at}.sealedSubshare`,
    })
    parts.push({ from, to: server, scalar })
  }
}

/** A resharing that is worked out and yet to be stored. */
interface Dealt {
  row: store.ResharingRow
  /** The service's old share, where it takes part. */
  used: ShareRow[]
  answer: Pick<Recovery, 'dealings' | 'serverCommitments' | 'serverSignatureShare' | 'commitments'>
}

async function sealDealing(
  subject: threshold.Subject,
  participants: ReturnType<typeof participantsOf>,
  { dealing, proof, subshares }: NonNullable<StartedResharing['own']>,
): Promise<NonNullable<Recovery['dealings']>[number]> {
  const sealedSubshares = await Promise.all(
    participants.map(async ({ index: to, encryptionKey: recipientKey, field }) => {
      const subshare = subshares.find((part) => part.to === to)
      if (subshare === undefined) throw new Error('a dealing without a part for somebody')
      const context = threshold.subshareContext(subject, { from: server, to, recipientKey })
      const of = { purpose: 'reshare-subshare' as const, context, field }
      return { to, ...(await sealToClient(Buffer.from(recipientKey, 'hex'), of, subshare.scalar)) }
    }),
  )
  const commitments = dealing.commitments.map(threshold.toHex)
  return { from: dealing.from, commitments, proof: threshold.toHex(proof), sealedSubshares }
}

/** Checks the client's dealings and makes the service's, in a thread. @throws share_missing, share_invalid, … */
async function dealAnew(deps: Deps, wallet: KeyWallet, subject: threshold.Subject, input: Start): Promise<Dealt> {
  const confirming = readCommitments(input.commitments)
  await deps.threads.run('checkNonceCommitments', confirming).catch((error: unknown) => {
    throw asRefusal(error, 'commitments')
  })
  const participants = participantsOf(input)
  // Tried out first: that nothing can be sealed to a key is no fault of the dealings.
  for (const { encryptionKey, field } of participants)
    await sealToClient(
      Buffer.from(encryptionKey, 'hex'),
      { purpose: 'reshare-subshare', context: {}, field },
      Buffer.alloc(0),
    )
  const { sharing: old, kept } = await knownShares(deps, wallet, subject.generation)
  checkSet(input, old)
  const used = input.set.includes(server) ? kept.filter(({ index }) => index === server) : []
  if (input.set.includes(server) && used.length === 0) throw fail('share_missing')
  const subshares: threshold.Subshare[] = []
  const secrets: { scalar: Uint8Array }[] = []
  try {
    const [row] = used
    const ownShare = row === undefined ? null : await openShare(deps, row)
    if (ownShare !== null) secrets.push(ownShare)
    await openParts(deps, subject, input, subshares)
    const dealings = input.dealings.map(({ from, commitments, proof }) => ({
      from,
      commitments: commitments.map(threshold.fromHex),
      proof: threshold.fromHex(proof),
    }))
    const asked = {
      subject,
      old,
      set: input.set,
      participants: participants.map(({ index, holder, encryptionKey }) => ({ index, holder, encryptionKey })),
      dealings,
      subshares,
      confirming,
    }
    const started = await deps.threads.run('startReshare', asked, ownShare).catch((error: unknown) => {
      throw asRefusal(error, 'dealings')
    })
    secrets.push(started.share, ...(started.own?.subshares ?? []))
    return {
      row: await newRow(deps, wallet, subject, started),
      used,
      answer: {
        commitments: started.sharing.commitments.map(threshold.toHex),
        dealings: started.own === null ? [] : [await sealDealing(subject, participants, started.own)],
        serverCommitments: commitmentsHex(started.coSigned.commitments),
        serverSignatureShare: threshold.toHex(started.coSigned.value),
      },
    }
  } finally {
    for (const { scalar } of [...subshares, ...secrets]) scalar.fill(0)
  }
}

async function newRow(
  deps: Deps,
  wallet: KeyWallet,
  subject: threshold.Subject,
  { share, sharing, transcript }: StartedResharing,
): Promise<store.ResharingRow> {
  const now = deps.now()
  const place = { tenant_id: wallet.tenant_id, wallet_id: wallet.id, id: newId('rsh') }
  return {
    ...place,
    challenge_id: subject.challengeId as store.ResharingRow['challenge_id'],
    generation: subject.generation,
    transcript: Buffer.from(transcript),
    commitments: sharing.commitments.map((point) => Buffer.from(point)),
    share_sealed: await seal(deps.keys, bytesOf(share.scalar), resharingSeal(place)),
    confirmed_at: null,
    expires_at: new Date(now.getTime() + RESHARE_MS),
    created_at: now,
  }
}

/** Tells that the service's share has been dealt to the caller, who has what makes it from here on, confirmed or not. */
async function tellDealt(tx: Db, deps: Deps, call: Call, wallet: KeyWallet, used: readonly ShareRow[]): Promise<void> {
  const cause = { caller: call.caller, origin: call.origin }
  for (const { holder, index, generation } of used)
    await publish(tx, deps, walletEvent(wallet, 'key_share.retrieved', cause, { holder, index, generation }))
}

/**
 * Begins to share a key anew, in place of whatever else was begun. Until it is confirmed nothing has changed.
 * @throws what `attempt` does, custody_unsupported, share_missing, seal_invalid, share_invalid, shares_insufficient,
 * validation_failed
 */
export async function startReshare(deps: Deps, call: Call, input: Start): Promise<Recovery> {
  const wallet = await findRecoverable(deps, call, input.walletId)
  requireShared(wallet)
  if (input.commitments.index !== device)
    throw invalid('commitments.index', 'Must be 2: the new share of the device confirms, with the service’s.')
  return attempt<Dealt>(deps, call, {
    wallet,
    mode: 'reshare',
    challengeId: input.challengeId,
    work: (subject) => dealAnew(deps, wallet, subject, input),
    async effect(tx, locked, { row, used, answer }) {
      await recordShareUse(tx, deps, used)
      await tellDealt(tx, deps, call, locked, used)
      await store.putResharing(tx, row)
      return {
        ...NOTHING,
        ...answer,
        ...threshold.SHARED_SIGNERS,
        mode: 'reshare',
        walletId: locked.id,
        publicKey: locked.public_key.toString('hex'),
        generation: row.generation + 1,
        reshareId: row.id,
        transcriptHash: row.transcript.toString('hex'),
        expiresAt: row.expires_at.toISOString(),
      }
    },
  })
}

/** Destroys what was begun and not confirmed in time, and forgets it a day later. @returns whether there may be more */
export async function sweepResharings(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const dropped = await store.dropShares(deps.db, now, PORTION)
  const deleted = await store.deleteResharings(deps.db, new Date(now.getTime() - TOMBSTONE_MS), PORTION)
  return dropped === PORTION || deleted === PORTION
}
