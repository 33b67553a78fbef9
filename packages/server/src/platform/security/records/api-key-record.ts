import { defineRecord } from './kind.ts'

/** The MAC of an API key: what it opens, and what it may do. The authenticator reads keys, and so the kind is declared here. */
export const API_KEY_RECORD = defineRecord({
  name: 'api_key',
  table: 'api_keys',
  key: ['id'],
  versioned: true,
  floor: true,
  columns: {
    type: 'text',
    scopes: 'texts',
    app_id: 'text',
    hash: 'bytes',
    previous_hash: 'bytes',
    previous_until: 'time',
    allowed_ips: 'texts',
    expires_at: 'time',
    revoked_at: 'time',
  },
  notAuthority: {
    name: 'shown only',
    prefix: 'shown only',
    last4: 'shown only',
    metadata: "the tenant's own notes",
    last_used_at: 'shown only',
    created_by: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
