import { defineRecord, type RecordRow } from '../../platform/security/records/kind.ts'

const ENDED = ['completed', 'failed']

/** Whether the outcome of a transaction is not known yet, or is watched: a failed one that could be charged again. */
const isOpen = ({ status, prepared }: RecordRow) => !ENDED.includes(status as string) || prepared !== null

/**
 * The MAC of an open transaction: what was asked for, what is signed for it, and what it has reserved. One that has ended,
 * and is not watched any more, moves nothing and has none.
 */
export const TRANSACTION_RECORD = defineRecord({
  name: 'transaction',
  table: 'transactions',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    wallet_id: 'text',
    party_id: 'text',
    delegated_session_id: 'text',
    ledger: 'text',
    command_id: 'text',
    commands_hash: 'bytes',
    status: 'text',
    spends: 'json',
    commands: 'json',
    prepared: 'bytes',
    signatures: 'json',
    cosigned: 'json',
    expires_at: 'time',
    error: 'json',
  },
  notAuthority: {
    operations: 'shown only: what is signed is read out of the prepared bytes',
    effects: 'shown only: what is signed is read out of the prepared bytes',
    check_at: 'when its outcome is looked for next: never decides what the outcome is',
    remaining: 'shown only: what is left follows from the session',
    session_version: 'a session that is older is refused: whoever changes it takes no more than a deleted row',
    spending_version: 'spending that is older is refused: whoever changes it takes no more than a deleted row',
    update_id: 'where it is on the ledger, once it has ended',
    ledger_offset: 'where it is on the ledger, once it has ended',
    created_at: 'shown only',
    updated_at: 'decides on the pause between two looks for its outcome',
    completed_at: 'shown only',
  },
  only: { rows: "(status not in ('completed', 'failed') or prepared is not null)", holds: isOpen },
})
