import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a key share: its place in the sharing of the key, and whether it counts. */
export const SHARE_RECORD = defineRecord({
  name: 'key_share',
  table: 'key_shares',
  key: ['id'],
  versioned: true,
  columns: {
    wallet_id: 'text',
    generation: 'integer',
    index: 'integer',
    holder: 'text',
    threshold: 'integer',
    total: 'integer',
    scheme: 'text',
    curve: 'text',
    commitments: 'byteses',
    verifying_share: 'bytes',
    protection: 'text',
    status: 'text',
    client_ciphertext: 'json',
  },
  notAuthority: {
    share_sealed: 'authenticated by its own seal, to which the sharing is bound; a rotation of the key wraps it anew',
    last_used_at: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
