import { type Sharing, toHex } from '../../platform/security/threshold/threshold.ts'
import type { Recovery } from './schema.ts'

/** The reply to a step. `more` has what is particular to it; all other fields are null. */
export function replyOf(
  mode: Recovery['mode'],
  wallet: { id: string; public_key: Buffer },
  generation: number,
  { threshold, total, commitments }: Sharing,
  more: Partial<Recovery>,
): Recovery {
  return {
    mode,
    walletId: wallet.id,
    publicKey: wallet.public_key.toString('hex'),
    generation,
    threshold,
    total,
    commitments: commitments.map(toHex),
    index: null,
    holder: null,
    sealedShare: null,
    sealedKey: null,
    reshareId: null,
    dealings: null,
    transcriptHash: null,
    serverCommitments: null,
    serverSignatureShare: null,
    expiresAt: null,
    shares: null,
    ...more,
  }
}
