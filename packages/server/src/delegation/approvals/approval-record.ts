import type { Id } from '../../platform/ids.ts'
import type { Versioned } from '../../platform/security/records/access.ts'
import { defineRecord } from '../../platform/security/records/kind.ts'
import type { ApprovalDocument } from './document.ts'

/**
 * The MAC of an approval: who is asked what, and what they said. An executed one also says which parties the owner has
 * approved a payment to.
 */
export const APPROVAL_RECORD = defineRecord({
  name: 'approval',
  table: 'approvals',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    wallet_id: 'text',
    delegated_session_id: 'text',
    rule: 'text',
    status: 'text',
    document: 'json',
    recipients: 'texts',
    expires_at: 'time',
    reason: 'text',
    passkey_id: 'text',
    assertion: 'json',
    decided_at: 'time',
    approvers: 'texts',
    decided_by: 'text',
  },
  initial: { approvers: null, decided_by: null },
  notAuthority: {
    created_at: 'limits how often a session asks: whoever changes it asks more often, and the owner decides',
    updated_at: 'shown only',
  },
})

/** `pending` until somebody decides. `executed`: approved, and it happened. `failed`: approved, and it could not happen. */
export type ApprovalStatus = 'pending' | 'executed' | 'denied' | 'expired' | 'canceled' | 'failed'

/** The assertion by which somebody approved, base64url as WebAuthn has it. */
export interface KeptAssertion {
  credentialId: string
  clientDataJSON: string
  authenticatorData: string
  signature: string
}

/** An approval as the table holds it. Its transaction has the same id behind another prefix. */
export interface ApprovalRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'apr'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  wallet_id: Id<'wal'>
  delegated_session_id: Id<'dse'>
  rule: string
  status: ApprovalStatus
  document: ApprovalDocument
  recipients: string[]
  expires_at: Date
  reason: string | null
  passkey_id: Id<'pky'> | null
  assertion: KeptAssertion | null
  decided_at: Date | null
  /** All users whom the document names as approvers, by their ids in order; null if the owner alone is asked. */
  approvers: string[] | null
  /** Where there are approvers: who refused, or whose approval was the last. */
  decided_by: string | null
  created_at: Date
  updated_at: Date
}

/** The approval that a transaction waits for. */
export const approvalIdOf = (transactionId: Id<'tx'>): Id<'apr'> => `apr_${transactionId.slice('tx_'.length)}`

/** The transaction that an approval is about. */
export const transactionIdOf = (approvalId: Id<'apr'>): Id<'tx'> => `tx_${approvalId.slice('apr_'.length)}`
