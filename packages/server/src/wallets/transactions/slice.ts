import type { Slice } from '../../platform/slice.ts'
import { transactionRoutes } from './routes.ts'

/** What sessions executed or have under way. */
export const transactionSlice: Slice = {
  routes: transactionRoutes,
}
