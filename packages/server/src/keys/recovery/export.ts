import { endSessionsOf } from '../../delegation/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { recordExported, walletEvent } from '../../wallets/wallets/service.ts'
import type { KeyWallet } from './attempt.ts'

/**
 * From now on the user has what makes the whole key, and signs without the service: the wallet and its user say so, and
 * what was delegated, with caps that bind no longer, ends. In the transaction that locks the wallet.
 */
export async function recordExport(
  tx: Db,
  deps: Deps,
  { caller, origin }: Call,
  wallet: KeyWallet,
  mode: 'release' | 'combine',
): Promise<void> {
  const cause = { caller, origin }
  await recordExported(tx, deps, wallet)
  await endSessionsOf(tx, deps, { tenantId: wallet.tenant_id, walletId: wallet.id }, cause)
  await publish(tx, deps, walletEvent(wallet, 'key.recovered', cause, { mode }))
}
