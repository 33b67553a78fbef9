import type { Id } from '../../platform/ids.ts'
import type { Sealed } from '../../platform/security/records/access.ts'
import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of an entry of a wallet's address book: whom its sessions may pay, and from when. The wallet's record lists the entries. */
export const RECIPIENT_RECORD = defineRecord({
  name: 'wallet_recipient',
  table: 'wallet_recipients',
  key: ['id'],
  versioned: false,
  columns: { wallet_id: 'text', recipient: 'text', label: 'text', counts_from: 'time' },
  notAuthority: { created_at: 'shown only' },
})

/** An entry of a wallet's address book. It is never changed. */
export interface RecipientRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'rcp'>
  wallet_id: Id<'wal'>
  /** A party. */
  recipient: string
  label: string
  /** From then on it counts. */
  counts_from: Date
  created_at: Date
}
