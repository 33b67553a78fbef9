import { defineRecord, EVERY_ROW } from '../../platform/security/records/kind.ts'

/** The MAC of a member: who they are, and what they may do. No release wrote one without. */
export const MEMBER_RECORD = defineRecord({
  name: 'member',
  table: 'members',
  key: ['id'],
  versioned: true,
  floor: true,
  alwaysSealed: EVERY_ROW,
  columns: {
    email: 'text',
    email_key: 'text',
    role: 'text',
    app_ids: 'texts',
    status: 'text',
    passkeys: 'texts',
    proven_email: 'text',
    rights_changed_at: 'time',
    identity_id: 'text',
  },
  initial: { proven_email: null, rights_changed_at: null, identity_id: null },
  notAuthority: {
    name: 'shown only',
    invitation_delivery: 'shown only; the link says what it proves',
    invited_by: 'shown only',
    last_signed_in_at: 'shown only',
    removed_at: 'shown only; `status` decides',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})

/** The MAC of a member's passkey: which key proves who somebody is. */
export const MEMBER_PASSKEY_RECORD = defineRecord({
  name: 'member_passkey',
  table: 'member_passkeys',
  key: ['id'],
  versioned: false,
  alwaysSealed: EVERY_ROW,
  columns: { member_id: 'text', credential_id: 'bytes', public_key: 'bytes', rp_id: 'text', device_type: 'text' },
  notAuthority: {
    sign_count: "a lower one helps only somebody who has a copy of the authenticator's private key",
    name: 'shown only',
    last_used_at: 'shown only',
    created_at: 'shown only',
  },
})

/** The MAC of a challenge for a passkey: an answer counts for this challenge, once. */
export const MEMBER_CHALLENGE_RECORD = defineRecord({
  name: 'member_challenge',
  table: 'member_challenges',
  key: ['id'],
  owner: 'none',
  versioned: false,
  alwaysSealed: EVERY_ROW,
  columns: { kind: 'text', challenge: 'text', rp_id: 'text', holder: 'text', expires_at: 'time' },
  notAuthority: {},
})
