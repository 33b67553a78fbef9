import { failures } from '../../platform/http/errors.ts'

/** The dashboard's error codes, and common codes with texts for its page. */
const DASHBOARD_ERRORS = {
  dashboard_link_invalid: [
    401,
    'This link is not valid. Each link works once, and for a short time. Run `halfkey dashboard link` for a new one.',
  ],
  passkey_invalid: [401, 'This passkey does not sign anybody in here. Use another one, or ask an owner for a link.'],
  passkey_challenge_over: [409, 'This took too long, or was answered already. Try again.'],
  passkey_limit: [409, 'You have as many passkeys as one can have. Remove one first.'],
  member_email_code_disabled: [
    404,
    'Members of this tenant do not sign in by an email code. Use a passkey, or open the sign-in address of your tenant.',
  ],
  member_oidc_disabled: [404, 'This tenant has no login of an organisation.'],
  member_oidc_failed: [
    400,
    'The login of your organisation cannot be reached at present. Try again, or use a passkey.',
  ],
  csrf_token_invalid: [403, 'The `X-Halfkey-CSRF` header does not belong to this session. Reload the page.'],
  session_missing: [401, 'Sign in to the dashboard first.'],
  session_invalid: [401, 'This dashboard session has ended. Sign in again.'],
  origin_not_allowed: [403, "Only the dashboard's page may call this, at the public URL of this service."],
  key_type_not_allowed: [403, 'The dashboard needs a secret key. A publishable key has no access.'],
} as const

/** Creates one of these errors. */
export const fail = failures(DASHBOARD_ERRORS)
