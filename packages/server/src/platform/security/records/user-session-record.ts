import { defineRecord } from './kind.ts'

/**
 * The MAC of a user's session: whose it is, what was shown in it and when, and whether it was revoked. Declared here, because whoever
 * signs an access token reads it, too.
 */
export const USER_SESSION_RECORD = defineRecord({
  name: 'session',
  table: 'sessions',
  key: ['id'],
  since: 2,
  versioned: true,
  columns: {
    app_id: 'text',
    user_id: 'text',
    weak: 'boolean',
    is_new_user: 'boolean',
    signed_in_at: 'time',
    mfa_at: 'time',
    passkey_at: 'time',
    issuer_mfa_at: 'time',
    revoked_at: 'time',
  },
  notAuthority: {
    amr: 'of use only to somebody who has a token of this session',
    generation: 'which refresh token is the newest, for somebody who has one of this session',
    refreshed_at: 'how long a lost answer is repeated, for somebody who has the refresh token before it',
    ends_at: 'when a guest ends; their wallet is frozen then, which has a MAC',
    expires_at: 'until when a refresh token counts, for somebody who has it',
    user_agent: 'shown only',
    address: 'shown only',
  },
})
