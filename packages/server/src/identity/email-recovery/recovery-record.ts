import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a recovery by email: whose it is, and from when on it gives them a new passkey. */
export const RECOVERY_RECORD = defineRecord({
  name: 'email_recovery',
  table: 'email_recoveries',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    email_key: 'text',
    status: 'text',
    available_at: 'time',
    expires_at: 'time',
    told_at: 'time',
    reminded_at: 'time',
  },
  notAuthority: {
    language: 'of the notices',
    due_at: 'a recovery whose notices are not sent never becomes ready',
    ended_at: 'shown only',
    ended_by: 'shown only',
    passkey_id: 'shown only',
    created_at: 'counts for the limit of requests',
    updated_at: 'shown only',
  },
})
