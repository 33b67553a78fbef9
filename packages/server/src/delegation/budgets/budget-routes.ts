import { eitherKey, IdParam, one, type Route, route } from '../../platform/http/route.ts'
import { SetBudgets, WalletBudgets } from './budget-schema.ts'
import { getBudgets, setBudgets } from './manage.ts'

export const budgetRoutes: Route[] = [
  route(
    'GET /wallets/:id/budgets',
    {
      summary: "Get a wallet's budgets",
      description:
        "What all delegated sessions of the wallet together may spend, what they have spent, and what is left. For the wallet's owner, and for a server.",
      callers: eitherKey('wallets:read', 'optional'),
      params: IdParam,
      reply: one(WalletBudgets),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => getBudgets(deps, { caller, origin, user }, params.id),
  ),
  route(
    'PUT /wallets/:id/budgets',
    {
      summary: "Set a wallet's budgets",
      description:
        "Replaces the wallet's own budgets. They count what all delegated sessions of the wallet together spend, from when they are set. A budget that stays, even with another amount, keeps its count. Raising or removing a budget needs a step-up of the owner; a server can do so only with budgets that a server has set. After the response, nothing is signed beyond the new budgets. Emits `budget.updated` if something changed.",
      callers: eitherKey('wallets:write', 'optional'),
      params: IdParam,
      body: SetBudgets,
      reply: one(WalletBudgets),
      errors: [
        'budget_of_owner',
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
        'user_session_required',
        'stronger_sign_in_required',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => setBudgets(deps, { caller, origin, user }, params.id, body),
  ),
]
