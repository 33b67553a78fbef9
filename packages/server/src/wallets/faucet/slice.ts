import type { Slice } from '../../platform/slice.ts'
import { faucetRoutes } from './routes.ts'

/** Tokens for development. */
export const faucetSlice: Slice = {
  routes: faucetRoutes,
}
