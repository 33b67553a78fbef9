import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { addShare, CUSTODY_ERRORS, isProven, shareInvalid } from '../../wallets/custody/service.ts'
import {
  addWallet,
  type Call,
  getOwnWallet,
  ledgerOf,
  lockOwner,
  type WalletRow,
} from '../../wallets/wallets/service.ts'
import { KEY_GENERATION_ERRORS } from './errors.ts'
import type { ConfirmedKeyGeneration, ConfirmKeyGeneration } from './schema.ts'
import {
  areOf,
  findOwn,
  lockOwn,
  openState,
  requireInProgress,
  requireSameTranscript,
  subjectOf,
  wiped,
} from './service.ts'
import { type KeyGenerationRow, updateKeyGeneration } from './store.ts'

const fail = failures({ ...CUSTODY_ERRORS, ...KEY_GENERATION_ERRORS })

const { server, device, recovery } = threshold.HOLDER_INDEX

type Sharing = NonNullable<KeyGenerationRow['sharing']>

/** @throws dkg_conflict before the second round */
function sharingOf(row: KeyGenerationRow): Sharing {
  if (row.sharing !== null) return row.sharing
  throw fail('dkg_conflict', [{ code: 'too_early', message: 'The second round comes first.' }])
}

/** That both sides have the same key, shared in the same way. @throws validation_failed, protocol_violated, share_invalid */
function requireSameKey(sharing: Sharing, { publicKey, verifyingShares }: ConfirmKeyGeneration): void {
  if (!areOf([server, device, recovery], verifyingShares))
    throw invalid('verifyingShares', 'Must be of 1, 2 and 3, each once.')
  if (publicKey !== sharing.commitments[0]) {
    const message = 'Is not the key that came out here.'
    throw fail('protocol_violated', [{ field: 'publicKey', code: 'key_differs', message }])
  }
  const wrong = verifyingShares.filter(
    ({ index, verifyingShare }) => verifyingShare !== sharing.verifyingShares[index - 1],
  )
  if (wrong.length > 0)
    throw shareInvalid(
      'verifyingShares',
      'Not what came out here.',
      wrong.map(({ index }) => index),
    )
}

/** That the user has both shares. @throws validation_failed, share_invalid */
function requireProofs(row: KeyGenerationRow, sharing: Sharing, { proofs }: ConfirmKeyGeneration): void {
  if (!areOf([device, recovery], proofs)) throw invalid('proofs', 'Must be of 2 and of 3, each once.')
  const subject = subjectOf(row)
  const transcript = row.transcript.toString('hex')
  const wrong = proofs.filter(({ index, proof }) => {
    const key = Buffer.from(sharing.verifyingShares[index - 1] as string, 'hex')
    return !isProven(proof, key, 'dkg-confirm', subject, { index, transcript })
  })
  if (wrong.length > 0)
    throw shareInvalid(
      'proofs',
      'These do not show that the shares are known.',
      wrong.map(({ index }) => index),
    )
}

/** The shares of a new wallet: the service's, which it keeps, and the user's, of which it knows. */
async function addShares(
  tx: Db,
  deps: Deps,
  wallet: WalletRow,
  { commitments, verifyingShares }: Sharing,
  scalar: Uint8Array,
): Promise<void> {
  const points = commitments.map((point) => Buffer.from(point, 'hex'))
  for (const index of [server, device, recovery])
    await addShare(tx, deps, {
      tenantId: wallet.tenant_id,
      walletId: wallet.id,
      generation: 1,
      index,
      holder: threshold.INDEX_HOLDER[index] as threshold.Holder,
      sharing: { ...threshold.SHARED_SIGNERS, commitments: points },
      verifyingShare: Buffer.from(verifyingShares[index - 1] as string, 'hex'),
      status: 'active',
      kept: index === server ? { scalar } : null,
    })
}

/** The user's wallet of a key that was generated, in the transaction that holds the user. @throws wallet_exists */
async function makeWallet(tx: Db, deps: Deps, call: Call, row: KeyGenerationRow, sharing: Sharing): Promise<void> {
  const ledger = ledgerOf(deps, row.ledger)
  const publicKey = Buffer.from(sharing.commitments[0] as string, 'hex')
  const { wallet_id: id } = row
  const wallet = await addWallet(tx, deps, call, {
    id,
    ledger,
    custody: 'shared',
    partyId: ledger.deriveParty(id, publicKey),
    publicKey,
    shared: { keyOrigin: 'dkg', ...threshold.SHARED_SIGNERS, proven: true },
  })
  const scalar = await openState(deps, row, 'share')
  try {
    await addShares(tx, deps, wallet, sharing, scalar)
  } finally {
    scalar.fill(0)
  }
  const after = { ...wiped(row), status: 'confirmed' as const, updated_at: deps.now() }
  await updateKeyGeneration(tx, after)
  await deps.failpoint('dkg written')
}

/**
 * Makes the generated key the current user's wallet once the user has shown to have both shares of it. Of any number that
 * ask at once one does; the same request again gets the same wallet.
 * @throws not_found, user_session_required, dkg_expired, dkg_conflict, validation_failed, protocol_violated,
 * share_invalid, wallet_exists
 */
export async function confirmKeyGeneration(
  deps: Deps,
  call: Call,
  id: string,
  input: ConfirmKeyGeneration,
): Promise<ConfirmedKeyGeneration> {
  const found = await findOwn(deps, call, id)
  requireInProgress(found, deps.now())
  const sharing = sharingOf(found)
  requireSameTranscript(found, input.transcriptHash)
  requireSameKey(sharing, input)
  requireProofs(found, sharing, input)
  return deps.db.tx(async (tx) => {
    await lockOwner(tx, deps, call)
    const row = await lockOwn(tx, call, found)
    requireInProgress(row, deps.now())
    if (row.status !== 'confirmed') await makeWallet(tx, deps, call, row, sharing)
    return { wallet: await getOwnWallet({ ...deps, db: tx }, call) }
  })
}
