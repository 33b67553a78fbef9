import { defineRecord, EVERY_ROW } from '../../../platform/security/records/kind.ts'

/** The MAC of a way to sign in: whether an owner has turned it on. */
export const MEMBER_SIGN_IN_RECORD = defineRecord({
  name: 'member_sign_in',
  table: 'member_sign_in',
  key: ['method'],
  versioned: true,
  alwaysSealed: EVERY_ROW,
  columns: { enabled: 'boolean' },
  notAuthority: { updated_at: 'shown only' },
})

/** The MAC of a code by email: who it signs in, in which browser, and how many guesses are left. */
export const MEMBER_CODE_RECORD = defineRecord({
  name: 'member_code',
  table: 'member_codes',
  key: ['id'],
  versioned: true,
  alwaysSealed: EVERY_ROW,
  columns: {
    member_id: 'text',
    email_key: 'text',
    code_hmac: 'bytes',
    browser_hash: 'text',
    wrong_answers: 'integer',
    expires_at: 'time',
    ended_at: 'time',
  },
  notAuthority: { created_at: 'counts for limits of an address' },
})
