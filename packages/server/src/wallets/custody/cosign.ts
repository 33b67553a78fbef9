import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, fail } from './errors.ts'
import type { NonceCommitments } from './schema.ts'
import { openShare, sharingOf } from './shares.ts'
import { findShare } from './store.ts'

/** The service's share of a signature, as it is stored and returned. */
export interface CoSignature {
  generation: number
  /** The other signer's commitments, for which it was made. */
  commitments: NonceCommitments
  serverCommitments: NonceCommitments
  /** 32 bytes, hex. */
  serverSignatureShare: string
}

/** Parses FROST nonce commitments of the API. */
export const readCommitments = ({ index, hiding, binding }: NonceCommitments): threshold.NonceCommitments => ({
  index,
  hiding: Buffer.from(hiding, 'hex'),
  binding: Buffer.from(binding, 'hex'),
})

/** Formats FROST nonce commitments for the API. */
export const commitmentsHex = ({ index, hiding, binding }: threshold.NonceCommitments): NonceCommitments => ({
  index,
  hiding: threshold.toHex(hiding),
  binding: threshold.toHex(binding),
})

/**
 * The service's share of a signature by a `shared` wallet's key. Its nonces exist in one call, in one thread's memory: the
 * result may be thrown away or made again, but no two results ever use the same nonces.
 * @throws share_missing, share_invalid and validation_failed (name `commitments`)
 */
export async function coSign(
  db: Db,
  deps: Deps,
  wallet: { tenantId: Id<'ten'>; walletId: Id<'wal'>; generation: number },
  commitments: NonceCommitments,
  digest: Buffer,
): Promise<CoSignature> {
  const { server: index } = threshold.HOLDER_INDEX
  const row = await findShare(db, { ...wallet, index })
  if (row === undefined || row.status !== 'active') throw fail('share_missing')
  if (commitments.index === index)
    throw invalid('commitments.index', 'This share belongs to the service. Sign with share 2 or 3.')
  const share = await openShare(deps, row, 'shared')
  try {
    const made = await deps.threads.run('coSign', sharingOf(row), share, readCommitments(commitments), digest)
    return {
      generation: row.generation,
      commitments,
      serverCommitments: commitmentsHex(made.commitments),
      serverSignatureShare: threshold.toHex(made.value),
    }
  } catch (error) {
    throw asRefusal(error, 'commitments')
  } finally {
    share.scalar.fill(0)
  }
}
