import type { Calls, RequestOptions } from '../http.ts'
import type { Transaction, TransactionSummary } from '../models.ts'
import type { Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of transactions. Every method may also throw what any call does: see `HalfkeyError`. */
export function transactionsOf({ one, list }: Calls) {
  return {
    /** Lists the transactions of delegated sessions, newest first, without effects. Scope `wallets:read`. */
    list: (query?: Query<'/transactions', 'get'>, options?: RequestOptions): List<TransactionSummary> =>
      list('/transactions', {}, query, options),

    /** Gets a transaction. Scope `wallets:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Transaction> =>
      one('get', '/transactions/{id}', { path: { id } }, options),
  }
}
