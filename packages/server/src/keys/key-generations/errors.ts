import { type ErrorTable, failures } from '../../platform/http/errors.ts'
import { CUSTODY_ERRORS } from '../../wallets/custody/service.ts'
import { WALLET_ERRORS } from '../../wallets/wallets/service.ts'

export const KEY_GENERATION_ERRORS = {
  dkg_conflict: [409, 'This key generation is at another step. Read its state and continue from there.'],
  dkg_expired: [410, 'This key generation has expired or was cancelled. Start another one.'],
} as const satisfies ErrorTable

export const fail = failures({ ...CUSTODY_ERRORS, ...WALLET_ERRORS, ...KEY_GENERATION_ERRORS })
