import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of an account elsewhere: whom it signs in. */
export const IDENTITY_RECORD = defineRecord({
  name: 'identity',
  table: 'identities',
  key: ['id'],
  versioned: false,
  columns: { app_id: 'text', user_id: 'text', provider: 'text', issuer: 'text', subject: 'text' },
  notAuthority: { username: 'shown only', created_at: 'shown only' },
})
