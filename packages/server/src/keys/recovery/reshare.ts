import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { invalid } from '../../platform/http/errors.ts'
import { newId } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { StartedResharing } from '../../platform/security/threshold/threshold-operations.ts'
import {
  asRefusal,
  bytesOf,
  commitmentsHex,
  deleteResharings,
  destroyExpiredShares,
  openFromClient,
  openShare,
  putResharing,
  type ResharingRow,
  readCommitments,
  readParticipants,
  type ShareRow,
  sealSubshares,
  shareInvalid,
} from '../../wallets/custody/service.ts'
import { type Call, walletEvent } from '../../wallets/wallets/service.ts'
import { attempt, findRecoverable } from './attempt.ts'
import type { KeyWallet } from './challenge.ts'
import { fail } from './errors.ts'
import { replyOf, type With } from './messages.ts'
import type { Recovery } from './schema.ts'
import { knownShares, recordShareUse } from './shares.ts'

/** How long a resharing can be confirmed. */
const RESHARE_MS = 60 * 60_000
const TOMBSTONE_MS = 24 * 60 * 60_000
const BATCH = 500

const { server, device } = threshold.HOLDER_INDEX

type Start = With<'challengeId' | 'set' | 'participants' | 'dealings' | 'commitments'>

/** What the service's new share is sealed under until the confirmation. */
export const resharingSeal = (row: Pick<ResharingRow, 'tenant_id' | 'wallet_id' | 'id'>) => [
  'resharing',
  row.tenant_id,
  row.wallet_id,
  row.id,
]

/** @throws custody_unsupported: only shared wallets can be reshared by the service */
export function requireShared(wallet: KeyWallet): void {
  if (wallet.custody === 'shared') return
  const message =
    'Only shared wallets can be reshared here. For this wallet, store shares of another generation instead.'
  throw fail('custody_unsupported').about('walletId', message)
}

/** Enough old shares deal, each once. @throws share_invalid, shares_insufficient (name `set`) */
function checkSet({ set }: Start, { threshold: needed, total }: threshold.Sharing): void {
  const wrong = set.filter((index, at) => index > total || set.indexOf(index) !== at)
  const indices = wrong.map((index) => ({ index }))
  if (wrong.length > 0) throw shareInvalid('set', `Must have different shares from 1 to ${total}.`, indices)
  if (set.length >= needed) return
  const message = `Must have ${needed} old shares; ${set.length} were sent.`
  throw asRefusal(new threshold.ShareError('shares_insufficient', message), 'set')
}

/** Opens the subshares of the service's new share that the client has dealt, into `opened`. @throws validation_failed, seal_invalid */
async function openSubshares(
  deps: Deps,
  subject: threshold.Subject,
  { dealings }: Start,
  opened: threshold.Subshare[],
) {
  for (const [at, { from, sealedSubshare }] of dealings.entries()) {
    const scalar = await openFromClient(deps.db, deps, sealedSubshare, {
      purpose: 'reshare-subshare',
      contextOf: (recipientKey) => threshold.subshareContext(subject, { from, to: server, recipientKey }),
      field: `dealings.${at}.sealedSubshare`,
    })
    opened.push({ from, to: server, scalar })
  }
}

/** A computed resharing, not stored yet. */
interface Dealt {
  row: ResharingRow
  /** The service's old share, if it takes part. */
  used: ShareRow[]
  answer: Pick<Recovery, 'dealings' | 'serverCommitments' | 'serverSignatureShare'>
}

/** Checks the client's dealings and makes the service's, in a thread. @throws share_missing, share_invalid and others */
async function dealAnew(deps: Deps, wallet: KeyWallet, subject: threshold.Subject, input: Start): Promise<Dealt> {
  const confirming = readCommitments(input.commitments)
  await deps.threads.run('checkNonceCommitments', confirming).catch((error: unknown) => {
    throw asRefusal(error, 'commitments')
  })
  const participants = await readParticipants(input.participants, 'reshare-subshare')
  const { sharing: old, kept } = await knownShares(deps, wallet, subject.generation)
  checkSet(input, old)
  const used = input.set.includes(server) ? kept.filter(({ index }) => index === server) : []
  if (input.set.includes(server) && used.length === 0) throw fail('share_missing')
  const subshares: threshold.Subshare[] = []
  const secrets: { scalar: Uint8Array }[] = []
  try {
    const [row] = used
    const ownShare = row === undefined ? null : await openShare(deps, row, wallet.custody)
    if (ownShare !== null) secrets.push(ownShare)
    await openSubshares(deps, subject, input, subshares)
    const dealings = input.dealings.map(({ from, commitments, proof }) => ({
      from,
      commitments: commitments.map(threshold.fromHex),
      proof: threshold.fromHex(proof),
    }))
    const asked = { subject, old, set: input.set, participants, dealings, subshares, confirming }
    const started = await deps.threads.run('startReshare', asked, ownShare).catch((error: unknown) => {
      throw asRefusal(error, 'dealings')
    })
    secrets.push(started.share, ...started.own.subshares)
    return {
      row: await newRow(deps, wallet, subject, started),
      used,
      answer: {
        dealings: [await sealDealing(subject, participants, started.own)],
        serverCommitments: commitmentsHex(started.coSigned.commitments),
        serverSignatureShare: threshold.toHex(started.coSigned.value),
      },
    }
  } finally {
    for (const { scalar } of [...subshares, ...secrets]) scalar.fill(0)
  }
}

async function sealDealing(
  subject: threshold.Subject,
  participants: readonly threshold.Participant[],
  { dealing, proof, subshares }: StartedResharing['own'],
): Promise<NonNullable<Recovery['dealings']>[number]> {
  return {
    from: dealing.from,
    commitments: dealing.commitments.map(threshold.toHex),
    proof: threshold.toHex(proof),
    sealedSubshares: await sealSubshares('reshare-subshare', subject, participants, subshares),
  }
}

async function newRow(
  deps: Deps,
  wallet: KeyWallet,
  subject: threshold.Subject,
  { share, sharing, transcript }: StartedResharing,
): Promise<ResharingRow> {
  const now = deps.now()
  const place = { tenant_id: wallet.tenant_id, wallet_id: wallet.id, id: newId('rsh') }
  return {
    ...place,
    challenge_id: subject.challengeId as ResharingRow['challenge_id'],
    generation: subject.generation,
    transcript: Buffer.from(transcript),
    commitments: sharing.commitments.map((point) => Buffer.from(point)),
    share_sealed: await seal(deps.keys, bytesOf(share.scalar), resharingSeal(place)),
    confirmed_at: null,
    expires_at: new Date(now.getTime() + RESHARE_MS),
    created_at: now,
  }
}

/** Publishes that the caller now has what makes the service's old share, even if the resharing is never confirmed. */
async function publishDealt(tx: Db, deps: Deps, call: Call, wallet: KeyWallet, used: readonly ShareRow[]) {
  for (const { holder, index, generation } of used)
    await publish(tx, deps, walletEvent(wallet, 'key_share.retrieved', call, { holder, index, generation }))
}

/**
 * Starts to reshare a key, and replaces an earlier attempt. Until it is confirmed, the old shares are valid.
 * @throws what `attempt` throws, custody_unsupported, share_missing, seal_invalid, share_invalid, shares_insufficient,
 * validation_failed
 */
export async function startReshare(deps: Deps, call: Call, input: Start): Promise<Recovery> {
  const wallet = await findRecoverable(deps, call, input.walletId)
  requireShared(wallet)
  if (input.commitments.index !== device)
    throw invalid(
      'commitments.index',
      'Must be 2, because the device’s new share confirms together with the service’s.',
    )
  return attempt<Dealt>(deps, call, {
    wallet,
    mode: 'reshare',
    challengeId: input.challengeId,
    work: (subject) => dealAnew(deps, wallet, subject, input),
    async effect(tx, locked, { row, used, answer }) {
      await recordShareUse(tx, deps, used)
      await publishDealt(tx, deps, call, locked, used)
      await putResharing(tx, row)
      const sharing = { ...threshold.SHARED_SIGNERS, commitments: row.commitments }
      return replyOf('reshare', locked, row.generation + 1, sharing, {
        ...answer,
        reshareId: row.id,
        transcriptHash: row.transcript.toString('hex'),
        expiresAt: row.expires_at.toISOString(),
      })
    },
  })
}

/** Destroys unconfirmed resharings that have expired, and deletes them a day later. @returns whether there may be more */
export async function sweepResharings(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const destroyed = await destroyExpiredShares(deps.db, now, BATCH)
  const deleted = await deleteResharings(deps.db, new Date(now.getTime() - TOMBSTONE_MS), BATCH)
  return destroyed === BATCH || deleted === BATCH
}
