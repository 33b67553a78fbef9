import { detached, hourly } from '../platform/maintenance.ts'
import type { Slice } from '../platform/slice.ts'
import { RECIPIENT_RECORD } from './address-book/recipient-record.ts'
import { recipientRoutes } from './address-book/recipient-routes.ts'
import { agentRoutes } from './agent/agent-routes.ts'
import { APPROVAL_RECORD } from './approvals/approval-record.ts'
import { approvalRoutes } from './approvals/approval-routes.ts'
import { ASSERTION_RECORD } from './approvals/approvers/assertion-record.ts'
import { budgetRoutes } from './budgets/budget-routes.ts'
import { SPENDING_RECORD } from './budgets/spending-record.ts'
import { connectPlainRoutes } from './connect/connect-routes.ts'
import { AGENT_TOKEN_RECORD } from './connect/tokens/record.ts'
import { deleteOldAgentTokens } from './connect/tokens/tokens.ts'
import { deleteOldDenials } from './denials/denials.ts'
import { DELEGATED_SESSION_ERRORS } from './errors.ts'
import { sweepDelegatedSessions } from './manage/revoke.ts'
import { offerRoutes } from './offers/offer-routes.ts'
import { deleteOldProofs, proofSent } from './proofs/use.ts'
import { rehearsalRoutes } from './rehearse/rehearsal-routes.ts'
import { reconcileTransactions } from './remote/reconcile.ts'
import { delegatedSessionRoutes } from './routes.ts'
import { SESSION_RECORD } from './session-record.ts'

/** Delegated sessions: execute and query within a policy. */
export const delegationSlice: Slice = {
  routes: [
    ...agentRoutes,
    ...delegatedSessionRoutes,
    ...rehearsalRoutes,
    ...budgetRoutes,
    ...recipientRoutes,
    ...approvalRoutes,
    ...offerRoutes,
  ],
  plainRoutes: connectPlainRoutes,
  errors: DELEGATED_SESSION_ERRORS,
  hooks: { proofSent },
  records: [SESSION_RECORD, SPENDING_RECORD, RECIPIENT_RECORD, APPROVAL_RECORD, ASSERTION_RECORD, AGENT_TOKEN_RECORD],
  tasks: (deps) => [
    (db) => sweepDelegatedSessions({ ...deps, db }),
    deleteOldProofs,
    hourly(deleteOldAgentTokens),
    hourly((db) => deleteOldDenials(deps, db)),
    detached(deps, (db) => reconcileTransactions({ ...deps, db })),
  ],
}
