import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a code by which the hosted page hands a session over. */
export const CODE_RECORD = defineRecord({
  name: 'sign_in_code',
  table: 'sign_in_codes',
  key: ['hash'],
  versioned: false,
  columns: { app_id: 'text', session_id: 'text', redirect_uri: 'text', code_challenge: 'text', expires_at: 'time' },
  notAuthority: { used_at: 'a second use needs the code and the secret that its page keeps' },
})
