import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { SealedToClient } from '../../wallets/custody/schema.ts'
import {
  encryptionKeyBytes,
  isProven,
  openShare,
  type ShareRow,
  sealToClient,
  shareInvalid,
  verifyingSharesOf,
} from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { attempt, findRecoverable, type KeyWallet, NOTHING, recordShareUse, type With } from './attempt.ts'
import { RECOVERY_ERRORS } from './errors.ts'
import { recordExport } from './export.ts'
import { type Known, knownShares } from './kept.ts'
import { requireProofs } from './proof.ts'
import type { Recovery } from './schema.ts'

const fail = failures(RECOVERY_ERRORS)

/** Which of the shares that the service keeps the caller lacks. @throws share_missing, share_invalid */
function lackedShare({ kept }: Known, indices: readonly number[]): ShareRow {
  if (kept.length === 0) throw fail('share_missing')
  const lacked = kept.find(({ index }) => !indices.includes(index))
  if (lacked !== undefined) return lacked
  const message = 'The service gives its own share out for proofs of others.'
  throw shareInvalid(
    'proofs',
    message,
    kept.map(({ index }) => index),
  )
}

interface Released {
  known: Known
  row: ShareRow
  sealedShare: SealedToClient
}

async function sealShare(
  deps: Deps,
  wallet: KeyWallet,
  subject: threshold.Subject,
  { proofs, recipientPublicKey }: With<'proofs' | 'recipientPublicKey'>,
): Promise<Released> {
  const known = await knownShares(deps, wallet, subject.generation)
  const { sharing } = known
  const indices = proofs.map(({ index }) => index)
  const row = lackedShare(known, indices)
  const recipient = encryptionKeyBytes(recipientPublicKey)
  const recipientKey = recipient.toString('hex')
  requireProofs(
    {
      needed: sharing.threshold - 1,
      verifyingShares: await verifyingSharesOf(deps, sharing, wallet.public_key),
      isRight: ({ index, proof, key }) => isProven(proof, key, 'release-share', subject, { index, recipientKey }),
    },
    proofs,
  )
  const share = await openShare(deps, row)
  try {
    const context = threshold.shareContext(subject, { index: row.index, holder: row.holder, recipientKey })
    const of = { purpose: 'recover' as const, context, field: 'recipientPublicKey' }
    return { known, row, sealedShare: await sealToClient(recipient, of, share.scalar) }
  } finally {
    share.scalar.fill(0)
  }
}

/**
 * Gives the service's share out to who shows that they know enough others: the key is put together on their device.
 * @throws what `attempt` does, share_missing, share_invalid, shares_insufficient, validation_failed
 */
export async function release(
  deps: Deps,
  call: Call,
  input: With<'challengeId' | 'proofs' | 'recipientPublicKey'>,
): Promise<Recovery> {
  const wallet = await findRecoverable(deps, call, input.walletId)
  return attempt<Released>(deps, call, {
    wallet,
    mode: 'release',
    challengeId: input.challengeId,
    generation: input.generation,
    work: (subject) => sealShare(deps, wallet, subject, input),
    async effect(tx, locked, { known, row, sealedShare }) {
      await recordShareUse(tx, deps, [row])
      await recordExport(tx, deps, call, locked, 'release')
      return {
        ...NOTHING,
        mode: 'release',
        walletId: locked.id,
        publicKey: locked.public_key.toString('hex'),
        generation: row.generation,
        threshold: row.threshold,
        total: row.total,
        commitments: known.sharing.commitments.map(threshold.toHex),
        index: row.index,
        holder: row.holder,
        sealedShare,
      }
    },
  })
}
