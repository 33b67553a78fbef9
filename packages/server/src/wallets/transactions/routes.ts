import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { ListTransactions, Transaction, TransactionSummary } from './schema.ts'
import { getTransaction, listTransactions } from './service.ts'

export const transactionRoutes: Route[] = [
  route(
    'GET /transactions',
    {
      summary: 'List transactions',
      description: 'Transactions of delegated sessions, finished or in progress, newest first, without their effects.',
      callers: secretKey('wallets:read'),
      query: ListTransactions,
      reply: list(TransactionSummary),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listTransactions(deps, caller, query),
  ),
  route(
    'GET /transactions/:id',
    {
      summary: 'Get a transaction',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(Transaction),
      extension: true,
    },
    (deps, { caller, params }) => getTransaction(deps, caller, params.id),
  ),
]
