import type { Db } from '../core/db.ts'
import type { Deps } from '../core/deps.ts'
import { publish } from '../core/events.ts'
import { endSessionsOf } from '../delegated-sessions/end-service.ts'
import type { Call } from '../wallets/access-service.ts'
import { noteExported } from '../wallets/key-state-service.ts'
import { walletEvent } from '../wallets/new-wallet-service.ts'
import type { KeyWallet } from './attempt-service.ts'

/**
 * From now on the user has what makes the whole key, and signs without the service: the wallet and its user say so, and
 * what was delegated, with caps that bind no longer, ends. In the transaction that locks the wallet.
 */
export async function noteExport(
  tx: Db,
  deps: Deps,
  { caller, origin }: Call,
  wallet: KeyWallet,
  mode: 'release' | 'combine',
): Promise<void> {
  const cause = { caller, origin }
  await noteExported(tx, deps, wallet)
  await endSessionsOf(tx, deps, { tenantId: wallet.tenant_id, walletId: wallet.id }, cause)
  await publish(tx, deps, walletEvent(wallet, 'key.recovered', cause, { mode }))
}
