import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of an onboarding: what a user is asked to sign, and the service with them. */
export const ONBOARDING_RECORD = defineRecord({
  name: 'wallet_onboarding',
  table: 'wallet_onboardings',
  key: ['wallet_id'],
  versioned: true,
  columns: { prepared: 'bytes', signatures: 'json', expires_at: 'time' },
  notAuthority: { created_at: 'shown nowhere', updated_at: 'shown nowhere' },
})
