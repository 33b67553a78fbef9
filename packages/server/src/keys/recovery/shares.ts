import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { ShareError, type Sharing } from '../../platform/security/threshold/threshold.ts'
import {
  asRefusal,
  findShare,
  type ShareRow,
  shareInvalid,
  sharesOf,
  sharingOf,
  touchShare,
} from '../../wallets/custody/service.ts'
import type { WalletRow } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'

/** The shares of one generation of a key. */
export interface KnownShares {
  sharing: Sharing
  /** The live shares. */
  rows: ShareRow[]
  /** The live shares that the service can open. */
  kept: ShareRow[]
}

/** The shares of a generation. If they were deleted, how the key was shared. @throws share_missing if there never were any */
export async function knownShares(deps: Deps, wallet: WalletRow, generation: number): Promise<KnownShares> {
  const all = await sharesOf(deps.db, wallet.tenant_id, wallet.id)
  const ever = all.filter((row) => row.generation === generation)
  const rows = ever.filter(({ status }) => status === 'active')
  // Deleted shares may be of another sharing of the key than those that were stored later.
  const first = rows[0] ?? ever.at(-1)
  if (first === undefined) throw fail('share_missing')
  return { sharing: sharingOf(first), rows, kept: rows.filter((row) => row.share_sealed !== null) }
}

/** Proofs are of known shares, each once, and at least `needed`. @throws share_invalid, shares_insufficient (name `proofs`) */
export function requireProofs(
  proofs: readonly { index: number; proof: string }[],
  needed: number,
  /** By index − 1. */
  verifyingShares: readonly Buffer[],
  isRight: (of: { index: number; proof: string; key: Buffer }) => boolean,
): void {
  const wrong = proofs.filter(({ index, proof }, at) => {
    const key = verifyingShares[index - 1]
    const isRepeated = proofs.findIndex((other) => other.index === index) !== at
    return isRepeated || key === undefined || !isRight({ index, proof, key })
  })
  if (wrong.length > 0)
    throw shareInvalid('proofs', 'These proofs are not valid for the shares, or are repeated.', wrong)
  if (proofs.length >= needed) return
  const message = `Must have ${needed} proofs; ${proofs.length} were sent.`
  throw asRefusal(new ShareError('shares_insufficient', message), 'proofs')
}

/** Records a use of shares that the service keeps, if all of them still exist. @throws share_missing */
export async function recordShareUse(tx: Db, deps: Deps, rows: readonly ShareRow[]): Promise<void> {
  const now = deps.now()
  for (const { tenant_id: tenantId, wallet_id: walletId, generation, index, id } of rows) {
    const row = await findShare(tx, { tenantId, walletId, generation, index })
    if (row?.id !== id || row.share_sealed === null) throw fail('share_missing')
    await touchShare(tx, { ...row, last_used_at: now, updated_at: now })
  }
}
