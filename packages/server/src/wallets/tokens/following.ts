import type { Db } from '../../platform/db/db.ts'
import type { WalletRow } from '../wallets/service.ts'
import type { WalletHoldings } from './schema.ts'
import * as store from './store.ts'

/** How far a wallet's ledger was read; null if its holdings, or its offers, cannot be read. */
export async function readFollowing(
  tx: Db,
  { tenant_id: tenantId, id: walletId, ledger }: WalletRow,
  kind: store.Kind,
): Promise<Pick<WalletHoldings, 'state' | 'asOf'> | null> {
  const view = await store.findView(tx, { tenantId, walletId, kind })
  if (view?.problem != null) return null
  const cursor = await store.findCursor(tx, ledger)
  const isCurrent = cursor !== undefined && cursor.stale_since === null && view?.generation === cursor.generation
  if (!isCurrent) return { state: 'reading', asOf: null }
  return { state: 'current', asOf: { offset: cursor.ledger_offset, at: cursor.ledger_at?.toISOString() ?? null } }
}
