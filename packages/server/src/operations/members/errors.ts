import { failures } from '../../platform/http/errors.ts'

/** How many members a tenant can have that are not removed. */
export const MEMBERS_MAX = 1_000

/** Errors of members beyond the common ones. */
export const MEMBER_ERRORS = {
  last_owner: [409, 'This is the last active owner. Make another member an owner first.'],
  own_rights: [409, 'You cannot change your own role or apps. Ask another owner or admin.'],
  member_removed: [409, 'This member was removed. Invite them again.'],
  member_email_not_configured: [
    409,
    'This service has no mail server. Set HALFKEY_SMTP_URL and HALFKEY_MAIL_FROM, or invite with `delivery: link`.',
  ],
  member_limit: [409, `A tenant can have at most ${MEMBERS_MAX} members. Remove one first.`],
} as const

/** Creates one of these errors. */
export const fail = failures(MEMBER_ERRORS)
