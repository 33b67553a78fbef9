import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const WALLET_ERRORS = {
  signature_invalid: [400, 'This signature is not right. Ask for a new challenge and sign its message.'],
  user_session_required: [
    403,
    "This needs the user's own access token; a server can do it in their name only where the app has mpc.allowServer.",
  ],
  custody_unsupported: [400, 'This is not to be had with this custody.'],
  wallet_not_found: [404, 'This user has no wallet.'],
  wallet_exists: [409, 'This user has a wallet already.'],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const satisfies ErrorTable

export const fail = failures(WALLET_ERRORS)
