import { defineRecord, EVERY_ROW } from '../../platform/security/records/kind.ts'

/** The MAC of a member: who they are, and what they may do. No release wrote one without. */
export const MEMBER_RECORD = defineRecord({
  name: 'member',
  table: 'members',
  key: ['id'],
  versioned: true,
  alwaysSealed: EVERY_ROW,
  columns: {
    email: 'text',
    email_key: 'text',
    role: 'text',
    app_ids: 'texts',
    status: 'text',
  },
  notAuthority: {
    name: 'shown only',
    invited_by: 'shown only',
    last_signed_in_at: 'shown only',
    removed_at: 'shown only; `status` decides',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
