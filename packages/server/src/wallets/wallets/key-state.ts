import { setTrustLevel } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import * as store from './store.ts'

/**
 * Notes that the user has been given what makes the whole key: from now on they sign without the service. In the
 * transaction that holds the user and the wallet's row.
 */
export async function recordExported(tx: Db, deps: Deps, before: store.WalletRow): Promise<store.WalletRow> {
  const now = deps.now()
  const row = { ...before, exported_at: before.exported_at ?? now, updated_at: now }
  await store.setKeyState(tx, row)
  await setTrustLevel(tx, deps, { tenantId: row.tenant_id, id: row.user_id, trustLevel: 'self_custody' })
  return row
}

/** From now on a wallet's shares are those of another generation. In the transaction that holds its row. */
export async function setGeneration(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  generation: number,
): Promise<store.WalletRow> {
  const row = { ...before, generation, updated_at: deps.now() }
  await store.setKeyState(tx, row)
  return row
}
