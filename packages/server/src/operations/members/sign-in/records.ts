import { defineRecord, EVERY_ROW } from '../../../platform/security/records/kind.ts'

/** The MAC of a way to sign in: whether an owner has turned it on. */
export const MEMBER_SIGN_IN_RECORD = defineRecord({
  name: 'member_sign_in',
  table: 'member_sign_in',
  key: ['method'],
  versioned: true,
  floor: true,
  alwaysSealed: EVERY_ROW,
  columns: {
    enabled: 'boolean',
    provider_id: 'text',
    issuer: 'text',
    client_id: 'text',
    client_secret_sealed: 'sealed',
  },
  notAuthority: {
    name: 'shown only',
    updated_at: 'shown only',
  },
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

/** The MAC of an account at the organisation's login: which member it signs in. */
export const MEMBER_IDENTITY_RECORD = defineRecord({
  name: 'member_identity',
  table: 'member_identities',
  key: ['id'],
  versioned: false,
  alwaysSealed: EVERY_ROW,
  columns: { member_id: 'text', provider_id: 'text', issuer: 'text', subject: 'text' },
  notAuthority: { created_at: 'shown only' },
})
