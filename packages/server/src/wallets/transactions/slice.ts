import type { Slice } from '../../platform/slice.ts'
import { transactionRoutes } from './routes.ts'

/** Transactions of delegated sessions. */
export const transactionSlice: Slice = {
  routes: transactionRoutes,
}
