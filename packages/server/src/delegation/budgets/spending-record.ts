import type { Id } from '../../platform/ids.ts'
import type { Versioned } from '../../platform/security/records/access.ts'
import { defineRecord } from '../../platform/security/records/kind.ts'
import type { Spent } from '../policy/windows.ts'

/** The MAC of what a wallet's sessions have spent: whoever lowers it could spend it again. */
export const SPENDING_RECORD = defineRecord({
  name: 'wallet_spending',
  table: 'wallet_spending',
  key: ['wallet_id'],
  versioned: true,
  columns: { spent: 'json' },
  notAuthority: { updated_at: 'shown only' },
})

/** What all sessions of a wallet together have spent or reserved, by the key of a budget. */
export interface SpendingRow extends Versioned {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  spent: Spent
}
