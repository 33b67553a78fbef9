import { eitherKey, IdParam, list, one, type Route, route } from '../../platform/http/route.ts'
import { TransactionSummary } from '../../wallets/transactions/schema.ts'
import { ListOwnTransactions, OwnDelegatedSession, OwnTransaction } from './agent-schema.ts'
import { getOwnSession, getOwnTransaction, listOwnTransactions } from './own.ts'

const ENDED = [
  'delegated_session_revoked',
  'delegated_session_expired',
  'delegated_session_exhausted',
  'user_suspended',
  'guest_expired',
] as const

const callers = eitherKey('delegated_sessions:read', 'delegate_only')

/** What the holder of a session's token may read: its session and what that did. */
export const agentRoutes: Route[] = [
  route(
    'GET /delegated-sessions/me',
    {
      summary: 'Get your own delegated session',
      description:
        'The session of the token: its policy, what remains of it, when it ends, and the wallet that it acts for. Needs the token and no id.',
      callers,
      reply: one(OwnDelegatedSession),
      errors: ['not_found', ...ENDED],
      extension: true,
    },
    (deps, { caller, delegate }) => getOwnSession(deps, { caller, delegate }),
  ),
  route(
    'GET /delegated-sessions/me/transactions',
    {
      summary: 'List your own transactions',
      description: 'Transactions of the session of the token, newest first, without their effects.',
      callers,
      query: ListOwnTransactions,
      reply: list(TransactionSummary),
      errors: ['not_found', ...ENDED],
      extension: true,
    },
    (deps, { caller, delegate, query }) => listOwnTransactions(deps, { caller, delegate }, query),
  ),
  route(
    'GET /delegated-sessions/me/transactions/:id',
    {
      summary: 'Get one of your own transactions',
      description:
        'With the link for the owner, while it waits for them. Transactions of other sessions are a 404, also those of the same wallet.',
      callers,
      params: IdParam,
      reply: one(OwnTransaction),
      errors: [...ENDED],
      extension: true,
    },
    (deps, { caller, delegate, params }) => getOwnTransaction(deps, { caller, delegate }, params.id),
  ),
]
