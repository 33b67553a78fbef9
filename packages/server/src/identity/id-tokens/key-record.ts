import { defineRecord, EVERY_ROW } from '../../platform/security/records/kind.ts'

/** The MAC of a key that signs an app's ID tokens: whoever could add one would sign in as anybody at the app's verifiers. */
export const ID_TOKEN_KEY_RECORD = defineRecord({
  name: 'id_token_key',
  table: 'id_token_keys',
  key: ['id'],
  alwaysSealed: EVERY_ROW,
  versioned: true,
  floor: true,
  columns: {
    app_id: 'text',
    private_key_sealed: 'sealed',
    created_at: 'time',
    retires_at: 'time',
    revoked_at: 'time',
  },
  notAuthority: {},
})
