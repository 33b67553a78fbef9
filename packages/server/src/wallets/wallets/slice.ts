import type { Slice } from '../../platform/slice.ts'
import { walletRoutes } from './routes.ts'
import { freezeWalletOf, WALLET_ERRORS, WALLET_RECORD } from './service.ts'

/** Wallets: one for each user. */
export const walletSlice: Slice = {
  routes: walletRoutes,
  errors: WALLET_ERRORS,
  hooks: { guestEnded: freezeWalletOf },
  records: [WALLET_RECORD],
}
