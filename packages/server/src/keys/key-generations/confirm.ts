import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { addSharing, hasExactly, isProven, shareInvalid } from '../../wallets/custody/service.ts'
import { addWallet, type Call, getOwnWallet, ledgerOf, lockOwner } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { ConfirmedKeyGeneration, ConfirmKeyGeneration } from './schema.ts'
import {
  findOwn,
  lockOwn,
  openState,
  requireInProgress,
  requireSameTranscript,
  subjectOf,
  withoutSecrets,
} from './state.ts'
import { type KeyGenerationRow, updateKeyGeneration } from './store.ts'

const { server, device, recovery } = threshold.HOLDER_INDEX

type Sharing = NonNullable<KeyGenerationRow['sharing']>

/** @throws dkg_conflict before the second round */
function sharingOf(row: KeyGenerationRow): Sharing {
  if (row.sharing !== null) return row.sharing
  throw fail('dkg_conflict', [{ code: 'too_early', message: 'Complete the second round before you confirm.' }])
}

/** Both sides have the same key, shared in the same way. @throws validation_failed, protocol_violated, share_invalid */
function requireSameKey(sharing: Sharing, { publicKey, verifyingShares }: ConfirmKeyGeneration): void {
  if (!hasExactly([server, device, recovery], verifyingShares))
    throw invalid('verifyingShares', 'Must have one entry for each of the shares 1, 2 and 3.')
  if (publicKey !== sharing.commitments[0]) {
    const message = 'This is not the key that the service computed. Start another key generation.'
    throw fail('protocol_violated', [{ field: 'publicKey', code: 'key_differs', message }])
  }
  const wrong = verifyingShares.filter(
    ({ index, verifyingShare }) => verifyingShare !== sharing.verifyingShares[index - 1],
  )
  if (wrong.length > 0)
    throw shareInvalid('verifyingShares', 'These are not the verifying shares that the service computed.', wrong)
}

/** The user has both shares. @throws validation_failed, share_invalid */
function requireProofs(row: KeyGenerationRow, sharing: Sharing, { proofs }: ConfirmKeyGeneration): void {
  if (!hasExactly([device, recovery], proofs))
    throw invalid('proofs', 'Must have one proof for share 2 and one for share 3.')
  const subject = subjectOf(row)
  const transcript = row.transcript.toString('hex')
  const wrong = proofs.filter(({ index, proof }) => {
    const key = Buffer.from(sharing.verifyingShares[index - 1] as string, 'hex')
    return !isProven(proof, key, 'dkg-confirm', subject, { index, transcript })
  })
  if (wrong.length > 0) throw shareInvalid('proofs', 'These proofs are not valid for the shares.', wrong)
}

/** Creates the wallet of a generated key, in the transaction that holds the user. @throws wallet_exists */
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
    await addSharing(tx, deps, {
      tenantId: wallet.tenant_id,
      walletId: wallet.id,
      custody: wallet.custody,
      generation: 1,
      sharing: {
        ...threshold.SHARED_SIGNERS,
        commitments: sharing.commitments.map((point) => Buffer.from(point, 'hex')),
      },
      verifyingShares: sharing.verifyingShares.map((key) => Buffer.from(key, 'hex')),
      indices: [server, device, recovery],
      scalar,
    })
  } finally {
    scalar.fill(0)
  }
  await updateKeyGeneration(tx, { ...withoutSecrets(row), status: 'confirmed', updated_at: deps.now() })
  await deps.failpoint('dkg written')
}

/**
 * Creates the current user's wallet with the generated key, after the user has proven to have both shares. Of concurrent
 * calls one creates it; a repeat returns the same wallet.
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
