import { failures } from '../../platform/http/errors.ts'

/** The dashboard's own codes, and the common ones in words that fit its page. */
const DASHBOARD_ERRORS = {
  dashboard_link_invalid: [
    401,
    'This link does not sign in: each works once and for a short time. Run `halfkey dashboard link` for another.',
  ],
  csrf_token_invalid: [403, 'The X-Halfkey-CSRF header is not that of this session. Reload the page.'],
  session_missing: [401, 'Sign in to the dashboard first.'],
  session_invalid: [401, 'This dashboard session has ended. Sign in again.'],
  origin_not_allowed: [403, 'The dashboard is called by its own page only, at the public URL of this service.'],
  key_type_not_allowed: [403, 'The dashboard takes secret keys: a publishable one may do nothing here.'],
} as const

/** Refuses with one of them. */
export const fail = failures(DASHBOARD_ERRORS)
