import { approvingPasskeys } from '../../identity/passkeys/service.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { MaybeUserCall, Page } from '../../platform/http/route.ts'
import { CHALLENGE_MS } from '../../platform/security/challenges.ts'
import { listScope, signInSettings } from '../../tenancy/apps/service.ts'
import { findTransaction } from '../../wallets/transactions/service.ts'
import { withLimits } from '../access.ts'
import { fail } from '../errors.ts'
import { remainingBeside, statusOf as sessionStatusOf } from '../session.ts'
import * as sessions from '../store.ts'
import { toApproval } from './approval.ts'
import { type ApprovalRow, transactionIdOf } from './approval-record.ts'
import type { Approval, ApprovalDetails, ListApprovals } from './approval-schema.ts'
import * as store from './approval-store.ts'
import { challengeOf } from './document.ts'

/** An approval, for its owner and for a server. @throws not_found, also for approvals of other users */
export async function findVisible(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<ApprovalRow> {
  const row = existing(await store.findApproval(deps.db, caller, pathId('apr', id)))
  if (user === null ? caller.keyType !== 'secret' : user.id !== row.user_id) throw fail('not_found')
  return row
}

/** A page of approvals, newest first: the current user's, or what a server asks for. @throws session_missing */
export async function listApprovals(deps: Deps, call: MaybeUserCall, query: ListApprovals): Promise<Page<Approval>> {
  const { caller, user } = call
  if (user === null && caller.keyType !== 'secret') throw fail('session_missing')
  const { tenantId: tenant_id, appId: app_id } = await listScope(deps, caller, query)
  const { wallet_id, delegated_session_id, status } = query
  // Another user than the current one has none that they could see.
  if (user !== null && query.user_id !== undefined && query.user_id !== user.id) throw fail('not_found')
  const filter = { tenant_id, app_id, user_id: user?.id ?? query.user_id, wallet_id, delegated_session_id, status }
  return store.listApprovals(deps.db, filter, query, (row) => toApproval(deps, row))
}

/** The options with which the owner's browser asks for a passkey; null if none can approve. */
async function optionsFor(deps: Deps, row: ApprovalRow): Promise<ApprovalDetails['publicKey']> {
  const { tenant_id: tenantId, app_id: appId, user_id: userId } = row
  const all = await approvingPasskeys(deps.db, { tenantId, appId, userId }, deps.now())
  const { passkey } = await signInSettings(deps, tenantId, appId)
  // A passkey cannot move to another relying party. A user without one of the app's current relying party uses an older one.
  const rpId = all.some((one) => one.rpId === passkey.rpId) ? passkey.rpId : all[0]?.rpId
  if (rpId === undefined) return null
  return {
    challenge: challengeOf(row.document).toString('base64url'),
    timeout: CHALLENGE_MS,
    rpId,
    allowCredentials: all.filter((one) => one.rpId === rpId).map(({ rpId: _, ...descriptor }) => descriptor),
    userVerification: 'required',
  }
}

/** One approval with everything that the owner has to know. @throws not_found */
export async function getApproval(deps: Deps, call: MaybeUserCall, id: string): Promise<ApprovalDetails> {
  const row = await findVisible(deps, call, id)
  const { tenant_id: tenantId, delegated_session_id: sessionId } = row
  const now = deps.now()
  const found = existing(await sessions.findLive(deps.db, now, { tenantId, appId: null }, sessionId))
  const session = await withLimits(deps.db, deps, found)
  const transaction = existing(await findTransaction(deps.db, tenantId, transactionIdOf(row.id)))
  const approval = toApproval(deps, row)
  const isOver = approval.status === 'pending' && sessionStatusOf(session, now) !== 'active'
  const status = isOver ? 'canceled' : approval.status
  return {
    ...approval,
    status,
    sessionName: session.name,
    operations: transaction.operations,
    effects: transaction.effects,
    remaining: remainingBeside(session, session.limits, session.spending?.spent ?? {}, now),
    document: row.document,
    publicKey: call.user !== null && status === 'pending' ? await optionsFor(deps, row) : null,
  }
}
