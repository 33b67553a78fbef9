import { eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import { RehearsedPolicy, RehearsePolicy, SimulatePolicy, Simulation } from './rehearsal-schema.ts'
import { simulate } from './simulate.ts'
import { rehearse } from './validate.ts'

/** What a policy means and would have done, before anybody gets a session with it. */
export const rehearsalRoutes: Route[] = [
  route(
    'POST /policies/validate',
    {
      summary: 'Explain a policy',
      description:
        'Makes the same checks as creating a session, and says what each entry of the policy means and what in it is probably a mistake. Creates nothing. With a publishable key for the current user.',
      callers: eitherKey('delegated_sessions:read', 'optional'),
      body: RehearsePolicy,
      reply: one(RehearsedPolicy),
      reads: true,
      errors: ['session_missing'],
      extension: true,
    },
    (deps, { caller, user, body }) => rehearse(deps, { caller, user }, body),
  ),
  route(
    'POST /policies/simulate',
    {
      summary: 'Simulate a policy',
      description:
        "Tries a policy on the last completed transactions of a wallet, the oldest first, as if one session with this policy had made them all. Caps and rates count what the policy would have let pass; what it would have asked the owner for counts as approved. The current address book is used. Budgets of the wallet are ignored. Creates and changes nothing. For the wallet's owner, and for a server.",
      // It shows the wallet's transactions, and who is in its address book.
      callers: eitherKey('wallets:read', 'optional'),
      body: SimulatePolicy,
      reply: one(Simulation),
      reads: true,
      // One at a time for each caller: it may look at much.
      turn: ({ caller, user }) => `${caller.tenantId} ${user?.id ?? caller.keyId} simulate`,
      errors: ['not_found', 'session_missing', 'simulation_unavailable'],
      extension: true,
    },
    (deps, { caller, user, body }) => simulate(deps, { caller, user }, body),
  ),
]
