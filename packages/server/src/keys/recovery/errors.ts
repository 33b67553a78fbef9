import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const RECOVERY_ERRORS = {
  user_session_required: [403, "This call needs the user's own access token. A server cannot act for them."],
  custody_unsupported: [400, "This operation is not available for the wallet's custody."],
  wallet_frozen: [409, 'This wallet is frozen. Unfreeze it first: POST /wallets/:id/unfreeze.'],
  share_missing: [409, 'The service no longer has a share of this key.'],
  custody_violation: [409, 'The service would hold enough shares to sign alone.'],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
  reshare_expired: [410, 'This resharing was not confirmed in time. The old shares still work. Start again.'],
} as const satisfies ErrorTable

export const fail = failures(RECOVERY_ERRORS)
