import { defineRecord } from '../platform/security/records/kind.ts'

/** The MAC of a delegated session: what it may do, for whom, and how much of it is used up. */
export const SESSION_RECORD = defineRecord({
  name: 'delegated_session',
  table: 'delegated_sessions',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    wallet_id: 'text',
    token_hash: 'bytes',
    jkt: 'text',
    policy: 'fixed',
    server_execute: 'boolean',
    max_uses: 'integer',
    uses: 'integer',
    completed: 'integer',
    spent: 'json',
    wrong_signatures: 'integer',
    status: 'text',
    expires_at: 'time',
    revoked_at: 'time',
    approvers: 'texts',
  },
  initial: { jkt: null, approvers: null },
  notAuthority: {
    name: 'shown only',
    denials: 'when a denial was last told of: decides on events, not on acts',
    last_used_at: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
