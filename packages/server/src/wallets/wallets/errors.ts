import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const WALLET_ERRORS = {
  signature_invalid: [400, 'The signature is not valid. Request a new challenge and sign its message.'],
  user_session_required: [
    403,
    "This call needs the user's own access token. A server can act for them only if the app has mpc.allowServer.",
  ],
  custody_unsupported: [400, "This operation is not available for the wallet's custody."],
  wallet_not_found: [404, 'This user has no wallet.'],
  wallet_exists: [409, 'This user already has a wallet.'],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const satisfies ErrorTable

export const fail = failures(WALLET_ERRORS)
