import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a link that signs in to the dashboard. */
export const LINK_RECORD = defineRecord({
  name: 'dashboard_link',
  table: 'dashboard_links',
  key: ['hash'],
  owner: 'maybe',
  versioned: true,
  columns: { expires_at: 'time', used_at: 'time' },
  notAuthority: { created_at: 'shown only' },
})

/** The MAC of a session of the dashboard. */
export const DASHBOARD_SESSION_RECORD = defineRecord({
  name: 'dashboard_session',
  table: 'dashboard_sessions',
  key: ['hash'],
  owner: 'maybe',
  versioned: false,
  columns: { key_id: 'text', key_hash: 'bytes', expires_at: 'time' },
  notAuthority: {
    last_used_at: 'ends an unused session early; `expires_at` ends it in any case',
    created_at: 'shown only',
  },
})
