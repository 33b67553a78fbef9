import { defineRecord } from './kind.ts'

/**
 * The MAC of a user: by which address they sign in, whether they may, and whether they have a second factor. Declared here,
 * because statements of several slices read it beside what it decides on.
 */
export const USER_RECORD = defineRecord({
  name: 'user',
  table: 'users',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    email: 'text',
    email_key: 'text',
    email_verified: 'boolean',
    external_id: 'text',
    party_id: 'text',
    status: 'text',
    guest: 'boolean',
    guest_ended: 'boolean',
    mfa_enabled: 'boolean',
  },
  notAuthority: {
    name: 'shown only',
    trust_level: 'shown and counted: who can sign follows from the wallet',
    metadata: "the tenant's own notes",
    search_text: 'finds users in lists',
    created_event_id: 'which event an erasure blanks',
    last_seen_at: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
