import { stillApproving, verifyApproval } from '../../../identity/passkeys/service.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { publish } from '../../../platform/events/events.ts'
import type { UserCall } from '../../../platform/http/route.ts'
import { fail } from '../../errors.ts'
import { approvalEvent } from '../approval.ts'
import type { ApprovalRow } from '../approval-record.ts'
import type { Approve } from '../approval-schema.ts'
import { challengeOf } from '../document.ts'
import { assertionsOf, insertAssertion } from './assertion-store.ts'

/**
 * Takes the approval of one of several approvers. The approval's transaction is locked, so that approvals are counted one after
 * the other, and those who approved stay as they are until the database transaction ends. Somebody whose approval still counts
 * is not counted twice: nothing is written then.
 * @returns all users whose approvals count now
 * @throws approver_not_named, user_suspended, assertion_invalid, passkey_cannot_approve
 */
export async function approveBeside(
  tx: Db,
  deps: Deps,
  call: UserCall,
  approval: ApprovalRow,
  credential: Approve['credential'],
): Promise<ReadonlySet<string>> {
  const { tenant_id: tenantId, app_id: appId, id } = approval
  const { id: userId } = call.user
  if (approval.approvers?.includes(userId) !== true) throw fail('approver_not_named')
  const earlier = (await assertionsOf(tx, tenantId, [id])).get(id) ?? []
  const passkeys = new Map(earlier.map(({ user_id, passkey_id }) => [user_id, passkey_id]))
  const counted = await stillApproving(tx, deps, tenantId, passkeys, userId)
  if (counted.has(userId)) return counted
  const challenge = challengeOf(approval.document)
  const { passkeyId, ...assertion } = await verifyApproval(tx, deps, { tenantId, appId, userId }, challenge, credential)
  await insertAssertion(tx, {
    tenant_id: tenantId,
    approval_id: id,
    user_id: userId,
    passkey_id: passkeyId,
    assertion,
    approved_at: deps.now(),
    mac: null,
  })
  const approvedBy = [...counted, userId]
  await publish(
    tx,
    deps,
    approvalEvent(deps, approval, 'approval.approved', call, { approverId: userId, passkeyId, approvedBy }),
  )
  return new Set(approvedBy)
}
