import type { Deps } from '../../platform/deps.ts'
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
import { attempt, findRecoverable, recordExport } from './attempt.ts'
import type { KeyWallet } from './challenge.ts'
import { fail } from './errors.ts'
import { replyOf, type With } from './messages.ts'
import type { Recovery } from './schema.ts'
import { type KnownShares, knownShares, recordShareUse, requireProofs } from './shares.ts'

/** The share of the service that the caller does not have. @throws share_missing, share_invalid */
function lackedShare({ kept }: KnownShares, indices: readonly number[]): ShareRow {
  if (kept.length === 0) throw fail('share_missing')
  const lacked = kept.find(({ index }) => !indices.includes(index))
  if (lacked !== undefined) return lacked
  throw shareInvalid('proofs', 'The service releases its share only for proofs of other shares.', kept)
}

interface Released {
  sharing: threshold.Sharing
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
  const verifyingShares = await verifyingSharesOf(deps, sharing, wallet.public_key)
  requireProofs(proofs, sharing.threshold - 1, verifyingShares, ({ index, proof, key }) =>
    isProven(proof, key, 'release-share', subject, { index, recipientKey }),
  )
  const share = await openShare(deps, row, wallet.custody)
  try {
    const context = threshold.shareContext(subject, { index: row.index, holder: row.holder, recipientKey })
    const of = { purpose: 'recover' as const, context, field: 'recipientPublicKey' }
    return { sharing, row, sealedShare: await sealToClient(recipient, of, share.scalar) }
  } finally {
    share.scalar.fill(0)
  }
}

/**
 * Releases the service's share to a caller who proves to know enough others. The key is combined on their device.
 * @throws what `attempt` throws, share_missing, share_invalid, shares_insufficient, validation_failed
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
    async effect(tx, locked, { sharing, row, sealedShare }) {
      await recordShareUse(tx, deps, [row])
      await recordExport(tx, deps, call, locked, 'release')
      const { index, holder } = row
      return replyOf('release', locked, row.generation, sharing, { index, holder, sealedShare })
    },
  })
}
