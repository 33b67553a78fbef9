import { type Calls, newUuid, type RequestOptions } from '../http.ts'
import type {
  Approval,
  ApprovalDetails,
  Command,
  Contract,
  Contracts,
  DelegatedSession,
  DelegatedSessionWithToken,
  Denial,
  Execution,
  OwnDelegatedSession,
  OwnTransaction,
  Policy,
  RehearsedPolicy,
  RevokedDelegatedSession,
  Simulation,
  TransactionSummary,
} from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

type ExecuteBody = Body<'/delegated-sessions/{id}/execute', 'post'>
type QueryBody = Body<'/delegated-sessions/{id}/query', 'post'>

/** Adds a random command id to commands without one, so that a repeat after a lost response is not a second transaction. */
function named(body: ExecuteBody): ExecuteBody {
  const { commandId, commands, dryRun } = body
  return commands === undefined || commandId !== undefined || dryRun === true ? body : { ...body, commandId: newUuid() }
}

/** The calls of a session's delegate. */
function delegateCallsOf({ one }: Calls) {
  const query = (id: string, body: QueryBody = {}, options?: RequestOptions): Promise<Contracts> =>
    one('post', '/delegated-sessions/{id}/query', { path: { id }, body, reads: true }, options)

  const execute = (id: string, body: ExecuteBody, options?: RequestOptions): Promise<Execution> =>
    one(
      'post',
      '/delegated-sessions/{id}/execute',
      { path: { id }, body: named(body), reads: body.dryRun === true },
      options,
    )

  return {
    /**
     * Executes commands, all or none, or completes a signing request by `signingRequestId` and `signature`. The same
     * `commandId` returns the first result; by default a random one is sent, the same at each attempt. With the session's
     * token, or with a secret key with `delegated_sessions:execute` where the session has `serverExecute`.
     * @throws policy_denied, spend_limit_exceeded, budget_exceeded, approval_pending, approval_denied, approval_expired, duplicate_command, contract_not_found, contract_archived,
     * delegated_session_revoked, delegated_session_expired, delegated_session_exhausted, wallet_frozen, and more
     */
    execute,

    /** What executing these commands now would do, and in `decision` which rule decides and why. Changes nothing. */
    dryRun: (id: string, commands: Command[], options?: RequestOptions): Promise<Execution> =>
      execute(id, { commands, dryRun: true }, options),

    /** One page of the contracts that the session's wallet sees, newest first; `nextCursor` is for the next page. @throws policy_denied */
    query,

    /** All contracts from `cursor` on: requests the next page when the iteration reaches it. @throws policy_denied */
    async *queryAll(id: string, body: QueryBody = {}, options?: RequestOptions): AsyncGenerator<Contract, void> {
      let cursor = body.cursor ?? null
      do {
        const page = await query(id, { ...body, cursor }, options)
        yield* page.contracts
        cursor = page.nextCursor
      } while (cursor !== null)
    },
  }
}

/** Calls of delegated sessions. Every method may also throw what any call does: see `HalfkeyError`. */
export function delegatedSessionsOf(calls: Calls) {
  const { one, list } = calls
  return {
    /** Lists delegated sessions, newest first, ended ones too. Scope `delegated_sessions:read`. */
    list: (query?: Query<'/delegated-sessions', 'get'>, options?: RequestOptions): List<DelegatedSession> =>
      list('/delegated-sessions', {}, query, options),

    /**
     * Creates a session on the current user's wallet. `token`, with which it executes and queries (`delegateToken` of a
     * client), is in this response only.
     * @throws wallet_not_found, wallet_frozen, custody_not_delegable, mfa_required, reauthentication_required
     */
    create: (body: Body<'/delegated-sessions', 'post'>, options?: RequestOptions): Promise<DelegatedSessionWithToken> =>
      one('post', '/delegated-sessions', { body }, options),

    /** Gets a session. Scope `delegated_sessions:read`, or its owner's access token, or its own token. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<DelegatedSession> =>
      one('get', '/delegated-sessions/{id}', { path: { id } }, options),

    /**
     * Ends a session: after this response, nothing is signed for it. `inFlight` lists transactions that were signed before
     * and may still happen. Scope `delegated_sessions:write`, or its owner's access token, or its own token. @throws not_found
     */
    revoke: (id: string, options?: RequestOptions): Promise<RevokedDelegatedSession> =>
      one('delete', '/delegated-sessions/{id}', { path: { id } }, options),

    /** Checks a policy as `create` does, and creates nothing. Scope `delegated_sessions:read`. @throws validation_failed */
    validate: (policy: Policy, options?: RequestOptions): Promise<{ valid: true; policy: Policy }> =>
      one('post', '/delegated-sessions/validate', { body: { policy }, reads: true }, options),

    /**
     * Lists what a session was refused, newest first: one record for each rule and minute. Scope `delegated_sessions:read`,
     * or its owner's access token, or its own token. @throws not_found
     */
    denials: (
      id: string,
      query?: Query<'/delegated-sessions/{id}/denials', 'get'>,
      options?: RequestOptions,
    ): List<Denial> => list('/delegated-sessions/{id}/denials', { path: { id } }, query, options),

    /**
     * Gets the session of the client's `delegateToken`, without knowing its id: policy, what remains, the wallet it acts for.
     * Scope `delegated_sessions:read`. @throws delegated_session_revoked, delegated_session_expired,
     * delegated_session_exhausted
     */
    me: (options?: RequestOptions): Promise<OwnDelegatedSession> => one('get', '/delegated-sessions/me', {}, options),

    /** Lists that session's transactions, newest first, without effects. Throws what `me` does. */
    transactions: (
      query?: Query<'/delegated-sessions/me/transactions', 'get'>,
      options?: RequestOptions,
    ): List<TransactionSummary> => list('/delegated-sessions/me/transactions', {}, query, options),

    /** Gets one of that session's transactions. @throws not_found, also for another session's, and what `me` throws */
    transaction: (id: string, options?: RequestOptions): Promise<OwnTransaction> =>
      one('get', '/delegated-sessions/me/transactions/{id}', { path: { id } }, options),

    ...delegateCallsOf(calls),
  }
}

/** Calls of refused attempts. Every method may also throw what any call does: see `HalfkeyError`. */
export function denialsOf({ list }: Calls) {
  return {
    /**
     * Lists what delegated sessions were refused, newest first: by user (`userId`), wallet (`walletId`), session
     * (`sessionId`) or all. Kept for 30 days. Scope `delegated_sessions:read`.
     */
    list: (query?: Query<'/denials', 'get'>, options?: RequestOptions): List<Denial> =>
      list('/denials', {}, query, options),
  }
}

/** Calls of approvals. Every method may also throw what any call does: see `HalfkeyError`. */
export function approvalsOf({ one, list }: Calls) {
  return {
    /**
     * Lists what delegated sessions have asked for, newest first: with a user's access token those of their wallet, or with
     * `role: 'approver'` those that name them as an approver; with a secret key those of all users. Scope `delegated_sessions:read`.
     */
    list: (query?: Query<'/approvals', 'get'>, options?: RequestOptions): List<Approval> =>
      list('/approvals', {}, query, options),

    /**
     * Gets one, with all that it does and, for the owner or an approver, in `publicKey` the options for
     * `navigator.credentials.get()`. Scope `delegated_sessions:read`, or the access token of one of them. @throws not_found
     */
    get: (id: string, options?: RequestOptions): Promise<ApprovalDetails> =>
      one('get', '/approvals/{id}', { path: { id } }, options),

    /**
     * Approves and, unless others have to approve too (then `status` stays `pending`), executes the transaction. With the access
     * token of the owner or an approver, and the assertion of a passkey over the challenge of `get`. @throws assertion_invalid,
     * passkey_cannot_approve, approver_not_named, stronger_sign_in_required, approval_decided, approval_expired, approval_outdated,
     * budget_exceeded, spend_limit_exceeded, contract_archived, wallet_frozen, and more
     */
    approve: (id: string, body: Body<'/approvals/{id}/approve', 'post'>, options?: RequestOptions): Promise<Approval> =>
      one('post', '/approvals/{id}/approve', { path: { id }, body }, options),

    /** Refuses. With the access token of the owner or an approver: one refusal is enough. @throws approval_decided, approval_expired, not_found */
    deny: (id: string, body: Body<'/approvals/{id}/deny', 'post'> = {}, options?: RequestOptions): Promise<Approval> =>
      one('post', '/approvals/{id}/deny', { path: { id }, body }, options),
  }
}

/** Calls of policies. Every method may also throw what any call does: see `HalfkeyError`. */
export function policiesOf({ one }: Calls) {
  return {
    /**
     * Says what a policy means: with its defaults, in words, and with what is probably a mistake. Scope `delegated_sessions:read`, or an
     * access token. @throws validation_failed
     */
    validate: (body: Body<'/policies/validate', 'post'>, options?: RequestOptions): Promise<RehearsedPolicy> =>
      one('post', '/policies/validate', { body, reads: true }, options),

    /**
     * Tries a policy on a wallet's last transactions: which it would have allowed, asked the owner for, and refused. Scope
     * `wallets:read`, or the owner's access token. @throws validation_failed, not_found, simulation_unavailable
     */
    simulate: (body: Body<'/policies/simulate', 'post'>, options?: RequestOptions): Promise<Simulation> =>
      one('post', '/policies/simulate', { body, reads: true }, options),
  }
}
