import { requireStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import { newId } from '../../platform/ids.ts'
import { newDelegateToken } from '../../platform/security/api-key.ts'
import { findWalletOf, listSession, lockWalletOf, requireOwnSession } from '../../wallets/wallets/service.ts'
import { requireApprovers } from '../approvals/approvers/require.ts'
import { canAsk } from '../approvals/verdict.ts'
import { fail, SESSIONS_MAX } from '../errors.ts'
import { checkPolicy } from '../policy/policy.ts'
import { thumbprintFor } from '../proofs/bound-key.ts'
import type { CreateDelegatedSession, DelegatedSessionWithToken } from '../schema.ts'
import { sessionEvent, toSession } from '../session.ts'
import * as store from '../store.ts'

const SECONDS_DEFAULT = 3600

/** @throws validation_failed, naming each wrong part */
export function requireValidPolicy(policy: CreateDelegatedSession['policy']): void {
  const wrong = checkPolicy(policy)
  if (wrong.length > 0) throw fail('validation_failed', wrong)
}

/** Whether anything in a policy may ask for approval. */
const asksOwner = ({ requireApproval = [], conditions = [] }: CreateDelegatedSession['policy']): boolean =>
  requireApproval.length > 0 || conditions.some(({ otherwise }) => otherwise === 'require_approval')

/** Writes a new session, once the wallet's record lists it. @throws wallet_not_found, wallet_frozen, session_limit_reached */
async function add(tx: Db, deps: Deps, row: store.SessionRow, cause: Call): Promise<void> {
  // Those who act for the user have locked the wallet in share.
  await lockOutActs(tx, row.user_id)
  const wallet = await lockWalletOf(tx, row.tenant_id, row.wallet_id)
  if (wallet === undefined) throw fail('wallet_not_found')
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  const active = await store.activeSessions(tx, row.tenant_id, row.wallet_id)
  if (active.filter(({ expires_at }) => expires_at > row.created_at).length >= SESSIONS_MAX)
    throw fail('session_limit_reached')
  const ids = active.map(({ id }) => id)
  await listSession(tx, wallet, ids, row.id)
  await store.insertSession(
    tx,
    row,
    sessionEvent(row.created_at, row, 'delegated_session.created', cause, { boundKeyThumbprint: row.jkt }),
  )
  tx.afterCommit(deps.wake.outbox)
}

/**
 * Creates a delegated session on the current user's wallet. `token` is shown only here.
 * @throws validation_failed, not_found (names `walletId`), wallet_not_found, mfa_required, user_session_required, wallet_frozen,
 * custody_not_delegable, session_limit_reached, approvals_unavailable
 */
export async function createDelegatedSession(
  deps: Deps,
  call: UserCall,
  input: CreateDelegatedSession,
): Promise<DelegatedSessionWithToken> {
  const { caller, origin, user } = call
  requireValidPolicy(input.policy)
  const jkt = thumbprintFor(input)
  const wallet = await findWalletOf(deps.db, caller.tenantId, user.id)
  if (input.walletId !== undefined && wallet?.id !== input.walletId) throw notFoundField('walletId')
  if (wallet === undefined) throw fail('wallet_not_found')
  const ownKey = wallet.custody !== 'embedded'
  if (ownKey) await requireOwnSession(deps, call)
  await requireStepUp(deps, caller, user)
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  if (ownKey && input.serverExecute === true) throw fail('custody_not_delegable')
  if (asksOwner(input.policy) && !canAsk(deps, wallet)) throw fail('approvals_unavailable')
  const now = deps.now()
  const { token, hash } = newDelegateToken()
  const row: store.SessionRow = {
    tenant_id: caller.tenantId,
    id: newId('dse'),
    app_id: wallet.app_id,
    user_id: user.id,
    wallet_id: wallet.id,
    name: input.name?.trim().normalize('NFC') ?? null,
    token_hash: hash,
    jkt,
    mac: null,
    policy: input.policy,
    approvers: await requireApprovers(deps, { tenantId: caller.tenantId, appId: wallet.app_id }, input.policy),
    version: 0,
    server_execute: input.serverExecute ?? (user.sessionId === null && !ownKey && jkt === null),
    max_uses: input.maxUses ?? null,
    uses: 0,
    completed: 0,
    spent: {},
    denials: {},
    wrong_signatures: 0,
    status: 'active',
    last_used_at: null,
    expires_at: new Date(now.getTime() + (input.expiresInSeconds ?? SECONDS_DEFAULT) * 1000),
    revoked_at: null,
    created_at: now,
    updated_at: now,
  }
  await deps.db.tx((tx) => add(tx, deps, row, { caller, origin }))
  return { ...toSession(row, now), token }
}
