import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Sharing } from '../../platform/security/threshold/threshold.ts'
import { type ShareRow, sharesOf, sharingOf } from '../../wallets/custody/service.ts'
import type { WalletRow } from '../../wallets/wallets/service.ts'
import { RECOVERY_ERRORS } from './errors.ts'

const fail = failures(RECOVERY_ERRORS)

/** What is known of a generation of a key's shares. */
export interface Known {
  sharing: Sharing
  /** The live ones. */
  rows: ShareRow[]
  /** Those of them that the service can open. */
  kept: ShareRow[]
}

/** The shares of a generation; of one that was deleted, how the key was shared. @throws share_missing for none ever */
export async function knownShares(deps: Deps, wallet: WalletRow, generation: number): Promise<Known> {
  const all = await sharesOf(deps.db, wallet.tenant_id, wallet.id)
  const ever = all.filter((row) => row.generation === generation)
  const rows = ever.filter(({ status }) => status === 'active')
  // What was deleted may have been of another sharing of the key than what was stored since.
  const first = rows[0] ?? ever.at(-1)
  if (first === undefined) throw fail('share_missing')
  return { sharing: sharingOf(first), rows, kept: rows.filter((row) => row.share_sealed !== null) }
}
