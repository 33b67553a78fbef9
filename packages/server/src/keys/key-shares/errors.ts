import type { ErrorTable } from '../../platform/http/errors.ts'
import { CUSTODY_ERRORS } from '../../wallets/custody/service.ts'

/** How many generations of shares a user can store of a wallet in self-custody. */
export const GENERATIONS_MAX = 20
/** How many shares can be stored of a wallet in its lifetime, those since deleted among them. */
export const RECORDS_MAX = 300
/** What a wallet's ciphertexts take up at most, as JSON: every look at its shares reads them all. */
export const CIPHERTEXT_BYTES_MAX = 256 * 1024

/** What the key-share endpoints refuse beside what all of custody does. */
export const KEY_SHARE_ERRORS = {
  ...CUSTODY_ERRORS,
  wallet_frozen: [409, 'This wallet is frozen.'],
  share_limit: [
    409,
    `A wallet takes at most ${GENERATIONS_MAX} generations and ${RECORDS_MAX} records of shares, and ${CIPHERTEXT_BYTES_MAX / 1024} KiB of ciphertexts. Delete what is of no use any more.`,
  ],
} as const satisfies ErrorTable
