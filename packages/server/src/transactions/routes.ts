import { IdParam, list, one, type Route, route, secretKey } from '../core/http.ts'
import { ListTransactions, Transaction } from './schema.ts'
import { getTransaction, listTransactions } from './service.ts'

export const transactionRoutes: Route[] = [
  route(
    'GET /transactions',
    {
      summary: 'List transactions',
      description: 'What delegated sessions executed or are about to, newest first.',
      callers: secretKey('wallets:read'),
      query: ListTransactions,
      reply: list(Transaction),
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
