import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a step-up that a secret key made for a user: when that was. */
export const SERVER_VERIFICATION_RECORD = defineRecord({
  name: 'server_verification',
  table: 'server_verifications',
  key: ['key_id', 'user_id'],
  since: 2,
  versioned: false,
  columns: { mfa_at: 'time' },
  notAuthority: {},
})
