import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, openFromClient, sealToClient, shareInvalid } from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { KEY_GENERATION_ERRORS } from './errors.ts'
import type { AnsweredSubshares, SealedSubshares } from './schema.ts'
import {
  areOf,
  findOwn,
  lockOwn,
  openState,
  readRound1,
  requireInProgress,
  requireSameTranscript,
  sealState,
  subjectOf,
} from './service.ts'
import { type KeyGenerationRow, updateKeyGeneration } from './store.ts'

const fail = failures(KEY_GENERATION_ERRORS)

const { server, device, recovery } = threshold.HOLDER_INDEX

/** The same request again, in whichever order its parts stand. */
function hashOf({ sealedSubshares, transcriptHash }: SealedSubshares): Buffer {
  const sorted = [...sealedSubshares].sort((a, b) => a.from - b.from)
  return sha256(canonicalJson({ sealedSubshares: sorted, transcriptHash }))
}

/** What was answered to the second round before, to the same request. @throws dkg_conflict */
function answeredBefore(row: KeyGenerationRow, asked: Buffer): AnsweredSubshares {
  if (row.round2 !== null && row.round2_hash?.equals(asked)) return row.round2
  const message =
    row.round2 === null ? 'It has made a wallet already.' : 'The second round was answered, to another request.'
  throw fail('dkg_conflict', [{ code: 'already_answered', message }])
}

/** The user's parts of the service's share. @throws validation_failed, seal_invalid, share_invalid */
async function openSubshares(
  deps: Deps,
  row: KeyGenerationRow,
  { sealedSubshares }: SealedSubshares,
): Promise<threshold.Subshare[]> {
  const senders = sealedSubshares.map(({ from }) => ({ index: from }))
  if (!areOf([device, recovery], senders) || sealedSubshares.some(({ to }) => to !== server))
    throw invalid('sealedSubshares', 'Must be from 2 and from 3, each once, to 1.')
  const subject = subjectOf(row)
  const opened: threshold.Subshare[] = []
  for (const [at, { from, to, ...sealed }] of sealedSubshares.entries()) {
    const scalar = await openFromClient(deps.db, deps, sealed, {
      purpose: 'dkg-subshare',
      contextOf: (recipientKey) => threshold.subshareContext(subject, { from, to, recipientKey }),
      field: `sealedSubshares.${at}`,
    })
    opened.push({ from, to, scalar })
  }
  return opened
}

/** The service's share, and its parts of the others'. @throws share_invalid (names who sent a wrong part) */
async function finish(deps: Deps, row: KeyGenerationRow, received: readonly threshold.Subshare[]) {
  const [own, ...others] = row.round1.map(readRound1)
  if (own === undefined) throw new Error('a key generation without a first message')
  const polynomial = await openState(deps, row, 'polynomial')
  const each = polynomial.length / threshold.SHARED_SIGNERS.threshold
  const state: threshold.DkgState = {
    index: server,
    ...threshold.SHARED_SIGNERS,
    coefficients: [polynomial.subarray(0, each), polynomial.subarray(each)],
    commitments: own.commitments,
  }
  try {
    return await deps.threads.run('finishDkg', state, others, received)
  } catch (error) {
    if (!(error instanceof threshold.ShareError) || error.indices.length === 0)
      throw asRefusal(error, 'sealedSubshares')
    throw shareInvalid('sealedSubshares', 'Not what the first message of their sender committed to.', error.indices)
  } finally {
    for (const secret of [polynomial, ...received.map(({ scalar }) => scalar)]) secret.fill(0)
  }
}

/** The service's parts of the others' shares, each sealed to its holder. */
async function sealSubshares(row: KeyGenerationRow, subshares: readonly threshold.Subshare[]) {
  const subject = subjectOf(row)
  const sealed: AnsweredSubshares['sealedSubshares'] = []
  for (const { index: to, encryptionKey: recipientKey } of row.participants) {
    const subshare = subshares.find((one) => one.to === to)
    if (subshare === undefined) throw new Error(`no sub-share for ${to}`)
    const context = threshold.subshareContext(subject, { from: server, to, recipientKey })
    const recipient = Buffer.from(recipientKey, 'hex')
    const about = { purpose: 'dkg-subshare', context, field: 'participants' } as const
    sealed.push({ from: server, to, ...(await sealToClient(recipient, about, subshare.scalar)) })
  }
  return sealed
}

/** How a key generation stands after its second round, which is all computed here and nothing of it stored. */
async function afterRound2(deps: Deps, row: KeyGenerationRow, input: SealedSubshares): Promise<KeyGenerationRow> {
  const received = await openSubshares(deps, row, input)
  const { share, sharing, subshares, verifyingShares } = await finish(deps, row, received)
  try {
    return {
      ...row,
      status: 'round2',
      state_sealed: await sealState(deps, row, 'share', share.scalar),
      sharing: {
        commitments: sharing.commitments.map(threshold.toHex),
        verifyingShares: verifyingShares.map(threshold.toHex),
      },
      round2_hash: hashOf(input),
      round2: {
        sealedSubshares: await sealSubshares(row, subshares),
        transcriptHash: row.transcript.toString('hex'),
      },
    }
  } finally {
    for (const { scalar } of [share, ...subshares]) scalar.fill(0)
  }
}

/**
 * Takes the user's parts of the service's share, and gives the service's parts of theirs. Of any number that ask at once
 * one has the effect; the same request again gets the same answer.
 * @throws not_found, user_session_required, dkg_expired, dkg_conflict, validation_failed, protocol_violated, seal_invalid,
 * share_invalid
 */
export async function exchangeSubshares(
  deps: Deps,
  call: Omit<Call, 'origin'>,
  id: string,
  input: SealedSubshares,
): Promise<AnsweredSubshares> {
  const found = await findOwn(deps, call, id)
  requireInProgress(found, deps.now())
  const asked = hashOf(input)
  if (found.status !== 'round1') return answeredBefore(found, asked)
  requireSameTranscript(found, input.transcriptHash)
  const after = await afterRound2(deps, found, input)
  await deps.failpoint('dkg computed')
  return deps.db.tx(async (tx) => {
    const before = await lockOwn(tx, call, found)
    const now = deps.now()
    requireInProgress(before, now)
    if (before.status !== 'round1') return answeredBefore(before, asked)
    await updateKeyGeneration(tx, { ...after, updated_at: now })
    return after.round2 as AnsweredSubshares
  })
}
