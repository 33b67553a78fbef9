import { defineRecord } from '../../platform/security/records/kind.ts'

/** The MAC of a challenge by email: whose address a code proves, and how many guesses are left. */
export const EMAIL_CHALLENGE_RECORD = defineRecord({
  name: 'email_challenge',
  table: 'email_challenges',
  key: ['id'],
  versioned: true,
  columns: {
    app_id: 'text',
    purpose: 'text',
    email: 'text',
    email_key: 'text',
    user_id: 'text',
    session_id: 'text',
    code_hmac: 'bytes',
    wrong_answers: 'integer',
    expires_at: 'time',
    ended_at: 'time',
  },
  notAuthority: { email_id: 'which email was sent', created_at: 'counts for limits of an address' },
})
