import { failures } from '../../platform/http/errors.ts'
import { IDENTITY_ERRORS } from '../identities/service.ts'

export const EXTERNAL_WALLET_ERRORS = {
  wallet_signature_invalid: [401, 'The signature is not valid for this message and key. Request a new challenge.'],
  external_wallets_disabled: [
    404,
    'Users of this app cannot sign in with this type of wallet. Add it to externalWallets.types of the app.',
  ],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const

export const fail = failures({ ...IDENTITY_ERRORS, ...EXTERNAL_WALLET_ERRORS })
