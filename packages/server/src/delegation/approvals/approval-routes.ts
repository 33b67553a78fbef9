import { currentUser, eitherKey, IdParam, list, one, type Route, route } from '../../platform/http/route.ts'
import { Approval, ApprovalDetails, Approve, Deny, ListApprovals } from './approval-schema.ts'
import { approve, refuse } from './decide.ts'
import { getApproval, listApprovals } from './read.ts'

const ENDED = [
  'approval_decided',
  'approval_expired',
  'approval_canceled',
  'session_missing',
  'stronger_sign_in_required',
] as const

/** What a delegated session asks its wallet's owner, or the approvers of its policy, for. */
export const approvalRoutes: Route[] = [
  route(
    'GET /approvals',
    {
      summary: 'List approvals',
      description:
        'What delegated sessions have asked for, newest first: with a publishable key those of the current user, with a secret key those of all users. With `role=approver` those in which a policy names the user.',
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
        'With everything that an approver has to know to decide, and with the options for their passkey. For the owner, for those who have to approve, and for a server.',
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
        "For the wallet's owner, or the users whom the policy names, with their access token and a passkey that verified them. The passkey must be at least 24 hours old, and no server may have taken part in its creation. If others have to approve as well, the approval is stored, and the status stays `pending`. With the last one, the transaction is prepared again. If it does exactly what `document` says, it is signed and executed, in the same database transaction as this approval. If it no longer does, the approval has failed. A repeat returns the first result.",
      callers: currentUser(),
      params: IdParam,
      body: Approve,
      reply: one(Approval),
      errors: [
        ...ENDED,
        'assertion_invalid',
        'passkey_cannot_approve',
        'approver_not_named',
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
        "For the wallet's owner, and for each user whom the policy names, with their access token. One refusal is enough. Needs no passkey. What was held of caps and budgets is released.",
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
