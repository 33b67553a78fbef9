import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a link that signs in to the dashboard. */
export const LINK_RECORD = defineRecord({
  name: 'dashboard_link',
  table: 'dashboard_links',
  key: ['hash'],
  owner: 'maybe',
  versioned: true,
  columns: {
    expires_at: 'time',
    used_at: 'time',
    member_id: 'text',
    invites: 'boolean',
    made_by: 'text',
    proves_email: 'text',
  },
  initial: { member_id: null, invites: false, made_by: null, proves_email: null },
  notAuthority: { created_at: 'shown only' },
})

/** The MAC of a session of the dashboard. */
export const DASHBOARD_SESSION_RECORD = defineRecord({
  name: 'dashboard_session',
  table: 'dashboard_sessions',
  key: ['hash'],
  owner: 'maybe',
  versioned: true,
  columns: { key_id: 'text', key_hash: 'bytes', expires_at: 'time', member_id: 'text', verified_at: 'time' },
  initial: { member_id: null, verified_at: null },
  notAuthority: {
    last_used_at: 'ends an unused session early; `expires_at` ends it in any case',
    created_at: 'shown only',
  },
})
