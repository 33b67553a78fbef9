import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a key that clients seal shares to, for the same reason as that of a token-signing key. */
export const ENCRYPTION_KEY_RECORD = defineRecord({
  name: 'encryption_key',
  table: 'encryption_keys',
  key: ['id'],
  owner: 'none',
  versioned: false,
  columns: { private_key_sealed: 'sealed', not_after: 'time' },
  notAuthority: { public_key: 'never read: it is derived from the private key', created_at: 'shown only' },
})
