import { currentUser, eitherKey, IdParam, list, one, type Route, route, secretKey } from '../platform/http/route.ts'
import { listDenials, listDenialsOf } from './denials/denials.ts'
import { ENDED, EXECUTE_REFUSALS } from './errors.ts'
import { beginExecution, finishExecution, type StartedExecution } from './execute/begin.ts'
import { queryContracts } from './execute/query.ts'
import { createDelegatedSession, requireValidPolicy } from './manage/create.ts'
import { getDelegatedSession, listDelegatedSessions } from './manage/read.ts'
import { revokeDelegatedSession } from './manage/revoke.ts'
import { revokeSessionsOfApp, revokeSessionsOfWallet } from './manage/revoke-all.ts'
import { RevokedSessions } from './manage/revoke-schema.ts'
import {
  Contracts,
  CreateDelegatedSession,
  DelegatedSession,
  DelegatedSessionWithToken,
  Denial,
  Execute,
  Execution,
  ListDelegatedSessions,
  ListDenials,
  ListDenialsOfSession,
  QueryContracts,
  RevokedDelegatedSession,
  ValidatePolicy,
  ValidPolicy,
} from './schema.ts'

export const delegatedSessionRoutes: Route[] = [
  route(
    'GET /delegated-sessions',
    {
      summary: 'List delegated sessions',
      description: 'Newest first, including ended ones.',
      callers: secretKey('delegated_sessions:read'),
      query: ListDelegatedSessions,
      reply: list(DelegatedSession),
      extension: true,
    },
    (deps, { caller, query }) => listDelegatedSessions(deps, caller, query),
  ),
  route(
    'POST /delegated-sessions',
    {
      summary: 'Create a delegated session',
      description:
        "Anyone who has `token` can execute transactions from the current user's wallet and query its contracts, within the policy. Everything that no `allow` rule covers is denied, `deny` rules win, and only the assets in `spend` can move, up to their amounts. Needs a step-up.",
      callers: currentUser(),
      body: CreateDelegatedSession,
      reply: one(DelegatedSessionWithToken),
      status: 201,
      secret: true,
      errors: [
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
        'user_session_required',
        'stronger_sign_in_required',
        'wallet_not_found',
        'wallet_frozen',
        'custody_not_delegable',
        'session_limit_reached',
        'approvals_unavailable',
      ],
    },
    (deps, { caller, origin, user, body }) => createDelegatedSession(deps, { caller, origin, user }, body),
  ),
  route(
    'POST /delegated-sessions/validate',
    {
      summary: 'Validate a policy',
      description: 'Makes the same checks as creating a session, and creates nothing.',
      callers: secretKey('delegated_sessions:read'),
      body: ValidatePolicy,
      reply: one(ValidPolicy),
      reads: true,
      extension: true,
    },
    async (_deps, { body }) => {
      requireValidPolicy(body.policy)
      return { valid: true as const, policy: body.policy }
    },
  ),
  route(
    'GET /denials',
    {
      summary: 'List refused attempts',
      description:
        'Attempts of delegated sessions that their policies refused: one record for each session, rule and minute, newest first. Records are kept for 30 days, at most 1 000 for each session.',
      callers: secretKey('delegated_sessions:read'),
      query: ListDenials,
      reply: list(Denial),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listDenials(deps, caller, query),
  ),
  route(
    'GET /delegated-sessions/:id/denials',
    {
      summary: 'List refused attempts of a session',
      description: 'Like `GET /denials`, only for this session.',
      callers: eitherKey('delegated_sessions:read', 'owner_or_delegate'),
      params: IdParam,
      query: ListDenialsOfSession,
      reply: list(Denial),
      replica: true,
      extension: true,
    },
    (deps, { caller, user, delegate, params, query }) =>
      listDenialsOf(deps, { caller, user, delegate }, params.id, query),
  ),
  route(
    'GET /delegated-sessions/:id',
    {
      summary: 'Get a delegated session',
      callers: eitherKey('delegated_sessions:read', 'owner_or_delegate'),
      params: IdParam,
      reply: one(DelegatedSession),
    },
    (deps, { caller, user, delegate, params }) => getDelegatedSession(deps, { caller, user, delegate }, params.id),
  ),
  route(
    'DELETE /delegated-sessions/:id',
    {
      summary: 'Revoke a delegated session',
      description:
        'After the response, nothing is signed for the session. `inFlight` lists transactions on a remote ledger that were signed before and may still happen.',
      callers: eitherKey('delegated_sessions:write', 'owner_or_delegate'),
      params: IdParam,
      reply: one(RevokedDelegatedSession),
    },
    (deps, { caller, origin, user, delegate, params }) =>
      revokeDelegatedSession(deps, { caller, origin, user, delegate }, params.id),
  ),
  route(
    'POST /wallets/:id/sessions/revoke-all',
    {
      summary: "Revoke all of a wallet's sessions",
      description:
        "Ends every active delegated session of the wallet. After the response, nothing is signed for any of them. A session that is created at the same time either ends too or is created after the response. For the wallet's owner, and for a server.",
      callers: eitherKey('delegated_sessions:write', 'optional'),
      params: IdParam,
      reply: one(RevokedSessions),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => revokeSessionsOfWallet(deps, { caller, origin, user }, params.id),
  ),
  route(
    'POST /apps/:id/sessions/revoke-all',
    {
      summary: "Revoke all of an app's sessions",
      description:
        'Ends every delegated session of the app that was created before this call. It ends them in portions and responds when the last one has ended: after the response, nothing is signed for any of them. If there is no response, repeat the call. A session that is created during the call may remain.',
      callers: secretKey('delegated_sessions:write'),
      params: IdParam,
      reply: one(RevokedSessions),
      extension: true,
    },
    {
      // Each portion commits by itself: no transaction holds the rows of a whole app.
      effect: async () => ({}),
      finish: (deps, { caller, origin, params }) => revokeSessionsOfApp(deps, { caller, origin }, params.id),
    },
  ),
  route(
    'POST /delegated-sessions/:id/execute',
    {
      summary: 'Execute a transaction',
      description:
        "All commands happen or none does. The policy is checked against the commands, and again against the effects of the prepared transaction. The same `commandId` returns the first result, so repeat a call if its response was lost. With `dryRun` nothing changes, and `decision` says what the policy would decide and why. For a `shared` wallet, also send `commitments`; the response has the service's part of the signature, made once for these commands and commitments. For `shared` and `self_custody` wallets, the response is `signature_required`: send the signature of the digest with `signingRequestId`. If a rule of `requireApproval` asks for the owner, the response is `approval_required`: nothing is signed until the owner approves, and a repeat with the same `commandId` says what became of it.",
      callers: eitherKey('delegated_sessions:execute', 'delegate'),
      params: IdParam,
      body: Execute,
      reply: one(Execution),
      // Keyed by token and key, so that callers without them cannot make callers with them wait.
      turn: ({ caller, delegate, params }) =>
        `${caller.tenantId} ${params.id} ${caller.keyId} ${delegate?.tokenHash.toString('base64') ?? ''} ${delegate?.jkt ?? ''}`,
      errors: [...EXECUTE_REFUSALS],
    },
    {
      effect: (deps, { caller, origin, delegate, params, body }) =>
        beginExecution(deps, { caller, origin, delegate }, params.id, body),
      finish: (deps, { caller, origin, delegate, params, body }, begun, replayed) =>
        finishExecution(deps, { caller, origin, delegate }, params.id, body, {
          begun: begun as StartedExecution,
          replayed,
        }),
      // A transaction in progress has another response later.
      isFinal: ({ status }) => !['received', 'reserved', 'submitted'].includes(status),
    },
  ),
  route(
    'POST /delegated-sessions/:id/query',
    {
      summary: 'Query contracts',
      description:
        "Active contracts that the session's wallet sees, newest first. Only templates that the policy lists under `query`.",
      callers: eitherKey('delegated_sessions:execute', 'delegate'),
      params: IdParam,
      body: QueryContracts,
      reply: one(Contracts),
      reads: true,
      errors: [...ENDED, 'policy_denied', 'user_suspended', 'guest_expired', 'ledger_unavailable'],
    },
    {
      // Nothing is changed. The ledger may be remote, and no database transaction may wait for it.
      effect: async () => ({}),
      finish: (deps, { caller, delegate, params, body }) => queryContracts(deps, { caller, delegate }, params.id, body),
    },
  ),
]
