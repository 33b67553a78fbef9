import { setTrustLevel } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import { ledgerOf, readiness, walletEvent } from './new-wallet.ts'
import * as store from './store.ts'

/**
 * Records that the user got enough to sign without the service. In the transaction that holds the user and the wallet's
 * row.
 */
export async function recordExported(tx: Db, deps: Deps, before: store.WalletRow): Promise<store.WalletRow> {
  const now = deps.now()
  const row = await store.setKeyState(tx, { ...before, exported_at: before.exported_at ?? now, updated_at: now })
  await setTrustLevel(tx, deps, { tenantId: row.tenant_id, id: row.user_id, trustLevel: 'self_custody' })
  return row
}

/** Makes another generation of shares the current one. In the transaction that holds the wallet's row. */
export async function setGeneration(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  generation: number,
): Promise<store.WalletRow> {
  return store.setKeyState(tx, { ...before, generation, updated_at: deps.now() })
}

/** Makes a `shared` wallet ready after its user proved to have a share. In the transaction that holds its row. */
export async function activateProven(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  cause: EventInput['cause'],
): Promise<store.WalletRow> {
  if (before.status !== 'pending' || before.onboard_at !== null || before.onboard_attempts > 0) return before
  const now = deps.now()
  const ready = readiness(ledgerOf(deps, before.ledger), true, now)
  const row = await store.setReadiness(tx, { ...before, ...ready, updated_at: now })
  if (row.status === 'ready') await publish(tx, deps, walletEvent(row, 'wallet.ready', cause))
  return row
}

/** Makes a self-custody wallet show its newest generation after a share was stored. In the transaction that holds its row. */
export async function recordSharing(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  { threshold, total, generation }: { threshold: number; total: number; generation: number },
): Promise<void> {
  if (before.generation !== null && before.generation >= generation) return
  await store.setSharing(tx, { ...before, threshold, total, generation, updated_at: deps.now() })
}
