import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, hasExactly, openFromClient, sealSubshares, shareInvalid } from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { AnsweredSubshares, SealedSubshares } from './schema.ts'
import {
  findOwn,
  lockOwn,
  openState,
  readRound1,
  requireInProgress,
  requireSameTranscript,
  sealState,
  subjectOf,
} from './state.ts'
import { type KeyGenerationRow, updateKeyGeneration } from './store.ts'

const { server, device, recovery } = threshold.HOLDER_INDEX

/** Identifies a repeated request, in any order of its parts. */
function hashOf({ sealedSubshares, transcriptHash }: SealedSubshares): Buffer {
  const sorted = [...sealedSubshares].sort((a, b) => a.from - b.from)
  return sha256(canonicalJson({ sealedSubshares: sorted, transcriptHash }))
}

/** The earlier response to the same request. @throws dkg_conflict */
function answeredBefore(row: KeyGenerationRow, asked: Buffer): AnsweredSubshares {
  if (row.round2 !== null && row.round2_hash?.equals(asked)) return row.round2
  const message =
    row.round2 === null
      ? 'This key generation was confirmed and has created a wallet.'
      : 'The second round was already completed with other content.'
  throw fail('dkg_conflict', [{ code: 'already_answered', message }])
}

/** The user's subshares of the service's share. @throws validation_failed, seal_invalid, share_invalid */
async function openSubshares(
  deps: Deps,
  row: KeyGenerationRow,
  { sealedSubshares }: SealedSubshares,
): Promise<threshold.Subshare[]> {
  const senders = sealedSubshares.map(({ from }) => ({ index: from }))
  if (!hasExactly([device, recovery], senders) || sealedSubshares.some(({ to }) => to !== server))
    throw invalid('sealedSubshares', 'Must have one entry from 2 to 1 and one from 3 to 1.')
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

/** The service's share, and its subshares for the others. @throws share_invalid (names the senders of wrong subshares) */
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
    const wrong = error.indices.map((index) => ({ index }))
    throw shareInvalid('sealedSubshares', "These parts do not match their senders' commitments.", wrong)
  } finally {
    for (const secret of [polynomial, ...received.map(({ scalar }) => scalar)]) secret.fill(0)
  }
}

/** The row after the second round, computed and not stored yet. */
async function afterRound2(deps: Deps, row: KeyGenerationRow, input: SealedSubshares): Promise<KeyGenerationRow> {
  const received = await openSubshares(deps, row, input)
  const { share, sharing, subshares, verifyingShares } = await finish(deps, row, received)
  try {
    const sealed = await sealSubshares('dkg-subshare', subjectOf(row), row.participants, subshares)
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
        sealedSubshares: sealed.map((box) => ({ from: server, ...box })),
        transcriptHash: row.transcript.toString('hex'),
      },
    }
  } finally {
    for (const { scalar } of [share, ...subshares]) scalar.fill(0)
  }
}

/**
 * The second round: takes the user's subshares, and returns the service's. Of concurrent calls one has an effect; a
 * repeat gets the same response.
 * @throws not_found, user_session_required, dkg_expired, dkg_conflict, validation_failed, protocol_violated, seal_invalid,
 * share_invalid
 */
export async function answerRound2(
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
