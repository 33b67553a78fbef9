import type { Slice } from '../../platform/slice.ts'
import { externalWalletRoutes } from './routes.ts'
import { EXTERNAL_WALLET_ERRORS } from './service.ts'

/** Sign-in with a key of the user's own, which a wallet elsewhere holds. */
export const externalWalletSlice: Slice = { routes: externalWalletRoutes, errors: EXTERNAL_WALLET_ERRORS }
