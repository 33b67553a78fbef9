import type { Slice } from '../../platform/slice.ts'
import { transactionRoutes } from './routes.ts'
import { TRANSACTION_RECORD } from './transaction-record.ts'

/** Transactions of delegated sessions. */
export const transactionSlice: Slice = {
  routes: transactionRoutes,
  records: [TRANSACTION_RECORD],
}
