import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const ONBOARDING_ERRORS = {
  signature_invalid: [400, "The signature is not a valid signature of this payload by the wallet's key."],
  wallet_frozen: [409, 'This wallet is frozen. Unfreeze it first: POST /wallets/:id/unfreeze.'],
  nothing_to_sign: [
    409,
    'Nothing waits for a signature now. Read GET /wallets/:id/onboarding: if its state is pending, try again later.',
  ],
} as const satisfies ErrorTable

export const fail = failures(ONBOARDING_ERRORS)
