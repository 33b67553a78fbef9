import type { Id } from '../../../platform/ids.ts'
import type { Sealed } from '../../../platform/security/records/access.ts'
import { defineRecord, EVERY_ROW } from '../../../platform/security/records/kind.ts'
import type { KeptAssertion } from '../approval-record.ts'

/** The MAC of an approver's assertion: who approved what, with which passkey. */
export const ASSERTION_RECORD = defineRecord({
  name: 'approval_assertion',
  table: 'approval_assertions',
  key: ['approval_id', 'user_id'],
  versioned: false,
  columns: { passkey_id: 'text', assertion: 'json', approved_at: 'time' },
  notAuthority: {},
  // No release wrote such rows without one.
  alwaysSealed: EVERY_ROW,
})

/** The assertion by which one approver approved. It is never changed. */
export interface AssertionRow extends Sealed {
  tenant_id: Id<'ten'>
  approval_id: Id<'apr'>
  user_id: Id<'usr'>
  passkey_id: Id<'pky'>
  assertion: KeptAssertion
  approved_at: Date
}
