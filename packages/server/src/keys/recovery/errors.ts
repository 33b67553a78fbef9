import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const RECOVERY_ERRORS = {
  user_session_required: [403, "This needs the user's own access token; a server can't do it in their name."],
  custody_unsupported: [400, 'This is not to be had with this custody.'],
  wallet_frozen: [409, 'This wallet is frozen.'],
  share_missing: [409, 'The service has no share of this key any more.'],
  custody_violation: [409, 'The service would hold enough shares to sign alone. It must never.'],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
  reshare_expired: [410, 'This resharing was not confirmed in time. The shares are those from before: start again.'],
} as const satisfies ErrorTable

export const fail = failures(RECOVERY_ERRORS)
