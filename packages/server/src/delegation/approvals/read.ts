import { approvingPasskeys } from '../../identity/passkeys/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, invalid, pathId } from '../../platform/http/errors.ts'
import type { MaybeUserCall, Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
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
import { assertionsOf } from './approvers/assertion-store.ts'
import { challengeOf } from './document.ts'

/** An approval, for its owner, its approvers and a server. @throws not_found, also for approvals of other users */
export async function findVisible(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<ApprovalRow> {
  const row = existing(await store.findApproval(deps.db, caller, pathId('apr', id)))
  const isOf = user !== null && (user.id === row.user_id || row.approvers?.includes(user.id))
  if (user === null ? caller.keyType !== 'secret' : !isOf) throw fail('not_found')
  return row
}

/** Approvals as lists have them. */
async function shown(db: Db, deps: Deps, tenantId: Id<'ten'>, rows: readonly ApprovalRow[]): Promise<Approval[]> {
  const ids = rows.flatMap(({ id, approvers }) => (approvers === null ? [] : [id]))
  const assertions = await assertionsOf(db, tenantId, ids)
  return rows.map((row) => toApproval(deps, row, assertions.get(row.id) ?? []))
}

/** An approval as lists have it. */
export async function showApproval(db: Db, deps: Deps, row: ApprovalRow): Promise<Approval> {
  const [approval] = await shown(db, deps, row.tenant_id, [row])
  return existing(approval)
}

/** A page of approvals, newest first: the current user's, or what a server asks for. @throws session_missing */
export async function listApprovals(deps: Deps, call: MaybeUserCall, query: ListApprovals): Promise<Page<Approval>> {
  const { caller, user } = call
  if (user === null && caller.keyType !== 'secret') throw fail('session_missing')
  const { tenantId: tenant_id, appId: app_id } = await listScope(deps, caller, query)
  const { wallet_id, delegated_session_id, status } = query
  const ofUser = user?.id ?? query.user_id
  const isApprover = query.role === 'approver'
  if (isApprover && ofUser === undefined) throw invalid('user_id', 'Is required beside `role`.', 'required')
  // Another user than the current one has none that they could see.
  if (user !== null && query.user_id !== undefined && query.user_id !== user.id) throw fail('not_found')
  const filter = {
    tenant_id,
    app_id,
    user_id: isApprover ? null : ofUser,
    wallet_id,
    delegated_session_id,
    status,
  }
  const page = await store.listApprovals(deps.db, filter, isApprover ? (ofUser ?? null) : null, query)
  return { ...page, items: await shown(deps.db, deps, tenant_id, page.items) }
}

/** Whether a user's passkey is asked for: they are to approve, and have no approval that counts. */
async function isAsked(deps: Deps, row: ApprovalRow, userId: Id<'usr'>): Promise<boolean> {
  if (row.approvers === null) return row.user_id === userId
  if (!row.approvers.includes(userId)) return false
  const given = (await assertionsOf(deps.db, row.tenant_id, [row.id])).get(row.id) ?? []
  const own = given.find(({ user_id }) => user_id === userId)
  if (own === undefined) return true
  const all = await approvingPasskeys(deps.db, { tenantId: row.tenant_id, userId }, deps.now())
  return !all.some(({ passkeyId }) => passkeyId === own.passkey_id)
}

/** The options with which an approver's browser asks for a passkey; null if none can approve, or is needed. */
async function optionsFor(deps: Deps, row: ApprovalRow, userId: Id<'usr'>): Promise<ApprovalDetails['publicKey']> {
  if (!(await isAsked(deps, row, userId))) return null
  const { tenant_id: tenantId, app_id: appId } = row
  const all = await approvingPasskeys(deps.db, { tenantId, userId }, deps.now())
  const { passkey } = await signInSettings(deps, tenantId, appId)
  // A passkey cannot move to another relying party. A user without one of the app's current relying party uses an older one.
  const rpId = all.some((one) => one.rpId === passkey.rpId) ? passkey.rpId : all[0]?.rpId
  if (rpId === undefined) return null
  return {
    challenge: challengeOf(row.document).toString('base64url'),
    timeout: CHALLENGE_MS,
    rpId,
    allowCredentials: all
      .filter((one) => one.rpId === rpId)
      .map(({ rpId: _, passkeyId: __, ...descriptor }) => descriptor),
    userVerification: 'required',
  }
}

/** One approval with everything that those who decide have to know. @throws not_found */
export async function getApproval(deps: Deps, call: MaybeUserCall, id: string): Promise<ApprovalDetails> {
  const row = await findVisible(deps, call, id)
  const { tenant_id: tenantId, delegated_session_id: sessionId } = row
  const now = deps.now()
  const found = existing(await sessions.findLive(deps.db, now, { tenantId, appId: null }, sessionId))
  const session = await withLimits(deps.db, deps, found)
  const transaction = existing(await findTransaction(deps.db, tenantId, transactionIdOf(row.id)))
  const approval = await showApproval(deps.db, deps, row)
  const isOver = approval.status === 'pending' && sessionStatusOf(session, now) !== 'active'
  const status = isOver ? 'canceled' : approval.status
  const remaining = remainingBeside(session, session.limits, session.spending?.spent ?? {}, now)
  // Once it is decided, what is left is told to the owner alone.
  const isOwner = call.user === null || call.user.id === row.user_id
  return {
    ...approval,
    status,
    sessionName: session.name,
    operations: transaction.operations,
    effects: transaction.effects,
    remaining: isOwner || status === 'pending' ? remaining : { ...remaining, uses: null, spend: [], budgets: [] },
    document: row.document,
    publicKey: call.user !== null && status === 'pending' ? await optionsFor(deps, row, call.user.id) : null,
  }
}
