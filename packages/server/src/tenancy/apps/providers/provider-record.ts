import { defineRecord } from '../../../platform/security/records/kind.ts'

/** The MAC of a sign-in provider: whose word an app takes for who somebody is, and as which client it asks. */
export const PROVIDER_RECORD = defineRecord({
  name: 'provider',
  table: 'app_providers',
  key: ['id'],
  versioned: true,
  floor: true,
  columns: {
    app_id: 'text',
    preset: 'text',
    issuer: 'text',
    client_id: 'text',
    client_secret_sealed: 'sealed',
    team_id: 'text',
    key_id: 'text',
    native_client_ids: 'texts',
    jit: 'text',
  },
  notAuthority: { name: 'shown only', created_at: 'shown only', updated_at: 'shown only' },
})
