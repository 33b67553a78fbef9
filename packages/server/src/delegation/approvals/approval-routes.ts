import { currentUser, eitherKey, IdParam, list, one, type Route, route } from '../../platform/http/route.ts'
import { Approval, ApprovalDetails, Approve, Deny, ListApprovals } from './approval-schema.ts'
import { approve, refuse } from './decide.ts'
import { getApproval, listApprovals } from './read.ts'

const ENDED = ['approval_decided', 'approval_expired', 'approval_canceled', 'session_missing'] as const

/** What a delegated session asks its wallet's owner for. */
export const approvalRoutes: Route[] = [
  route(
    'GET /approvals',
    {
      summary: 'List approvals',
      description:
        'What delegated sessions have asked for, newest first: with a publishable key those of the current user, with a secret key those of all users.',
      callers: eitherKey('delegated_sessions:read', 'optional'),
      query: ListApprovals,
      reply: list(Approval),
      errors: ['session_missing', 'not_found'],
      extension: true,
    },
    (deps, { caller, origin, user, query }) => listApprovals(deps, { caller, origin, user }, query),
  ),
  route(
    'GET /approvals/:id',
    {
      summary: 'Get an approval',
      description:
        'With everything that the owner has to know to decide, and for the owner with the options for their passkey. For the owner, and for a server.',
      callers: eitherKey('delegated_sessions:read', 'optional'),
      params: IdParam,
      reply: one(ApprovalDetails),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => getApproval(deps, { caller, origin, user }, params.id),
  ),
  route(
    'POST /approvals/:id/approve',
    {
      summary: 'Approve',
      description:
        "For the wallet's owner, with their access token and a passkey that verified them. The passkey must be at least 24 hours old, and no server may have taken part in its creation. The transaction is prepared again. If it does exactly what `document` says, it is signed and executed, in the same database transaction as the approval. If it no longer does, the approval has failed. A repeat returns the first result.",
      callers: currentUser(),
      params: IdParam,
      body: Approve,
      reply: one(Approval),
      errors: [
        ...ENDED,
        'assertion_invalid',
        'passkey_cannot_approve',
        'approval_outdated',
        'approvals_unavailable',
        'policy_denied',
        'spend_limit_exceeded',
        'budget_exceeded',
        'authorization_missing',
        'contract_not_found',
        'contract_archived',
        'template_unknown',
        'choice_unknown',
        'arguments_invalid',
        'transaction_failed',
        'duplicate_command',
        'delegated_session_revoked',
        'delegated_session_expired',
        'delegated_session_exhausted',
        'wallet_frozen',
        'wallet_not_ready',
        'ledger_unavailable',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => approve(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'POST /approvals/:id/deny',
    {
      summary: 'Refuse an approval',
      description:
        "For the wallet's owner, with their access token. Needs no passkey. What was held of caps and budgets is released.",
      callers: currentUser(),
      params: IdParam,
      body: Deny,
      reply: one(Approval),
      errors: [...ENDED],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => refuse(deps, { caller, origin, user }, params.id, body),
  ),
]
