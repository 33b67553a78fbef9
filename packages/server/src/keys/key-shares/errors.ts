import { type ErrorTable, failures } from '../../platform/http/errors.ts'
import { CUSTODY_ERRORS } from '../../wallets/custody/service.ts'

/** How many generations of shares a user can store for a self-custody wallet. */
export const GENERATIONS_MAX = 20
/** How many shares of a wallet can be stored in its lifetime, deleted ones included. */
export const RECORDS_MAX = 300
/** The total size of a wallet's ciphertexts, as JSON. Every read of its shares reads all of them. */
export const CIPHERTEXT_BYTES_MAX = 256 * 1024

/** The errors of the key-share endpoints. */
export const KEY_SHARE_ERRORS = {
  ...CUSTODY_ERRORS,
  wallet_frozen: [409, 'This wallet is frozen. Unfreeze it first: POST /wallets/:id/unfreeze.'],
  share_limit: [
    409,
    `A wallet stores at most ${GENERATIONS_MAX} generations and ${RECORDS_MAX} records of shares, and ${CIPHERTEXT_BYTES_MAX / 1024} KiB of ciphertexts. Delete shares that you no longer need.`,
  ],
} as const satisfies ErrorTable

export const fail = failures(KEY_SHARE_ERRORS)
