import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a passkey: which key signs in whom. Its row never changes in what the MAC covers. */
export const PASSKEY_RECORD = defineRecord({
  name: 'passkey',
  table: 'passkeys',
  key: ['id'],
  versioned: false,
  columns: {
    app_id: 'text',
    user_id: 'text',
    credential_id: 'bytes',
    public_key: 'bytes',
    rp_id: 'text',
    device_type: 'text',
    approves_at: 'time',
  },
  initial: { approves_at: null },
  notAuthority: {
    sign_count: "a lower one helps only somebody who has a copy of the authenticator's private key",
    aaguid: 'shown only',
    transports: 'a hint for browsers',
    backed_up: 'shown only',
    name: 'shown only',
    last_used_at: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
