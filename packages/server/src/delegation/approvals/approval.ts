import { publicUrl } from '../../platform/config.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, eventOf } from '../../platform/events/events.ts'
import { type ApprovalRow, transactionIdOf } from './approval-record.ts'
import type { Approval } from './approval-schema.ts'
import type { AssertionRow } from './approvers/assertion-record.ts'
import { ownerAlone, type Quorum } from './approvers/quorum.ts'

/** Where the owner and other approvers decide. The link holds no secret: whoever opens it signs in first. */
export function linkOf({ config }: Pick<Deps, 'config'>, { app_id, id }: Pick<ApprovalRow, 'app_id' | 'id'>): string {
  return `${publicUrl(config)}/approve?app=${app_id}&id=${id}`
}

/** Its status at `now`. The row of an expired one says `pending` until the worker has released what it held. */
function statusOf({ status, expires_at }: ApprovalRow, now: Date): Approval['status'] {
  return status === 'pending' && expires_at <= now ? 'expired' : status
}

/** Who has to approve: all of these quorums. */
export const approversOf = ({ document, user_id }: ApprovalRow): Quorum[] => document.approvers ?? [ownerAlone(user_id)]

/** Who has approved. Only the row of one that asks the owner alone has a passkey. */
function approvedBy({ user_id, passkey_id, decided_at }: ApprovalRow, assertions: readonly AssertionRow[]) {
  const own = passkey_id === null || decided_at === null ? [] : [{ user_id, approved_at: decided_at }]
  return [...own, ...assertions].map((one) => wire(one, 'user_id approved_at'))
}

const DECIDED: readonly ApprovalRow['status'][] = ['executed', 'denied', 'failed']

/** An approval as lists have it. `assertions`: of its approvers, where the owner is not asked alone. */
export function toApproval(
  deps: Pick<Deps, 'config' | 'now'>,
  row: ApprovalRow,
  assertions: readonly AssertionRow[],
): Approval {
  const { commandId, costs, recipients, rules } = row.document
  const shown = {
    ...row,
    command_id: commandId,
    transaction_id: transactionIdOf(row.id),
    status: statusOf(row, deps.now()),
    rules,
    costs,
    recipients,
    approvers: approversOf(row),
    approved_by: approvedBy(row, assertions),
    decided_by: DECIDED.includes(row.status) ? (row.decided_by ?? row.user_id) : null,
    link: linkOf(deps, row),
  }
  return wire(
    shown,
    `id app_id user_id wallet_id delegated_session_id transaction_id command_id status rules costs recipients approvers
    approved_by decided_by reason passkey_id link expires_at decided_at created_at updated_at`,
  )
}

/** An event about an approval as it is after the change. */
export function approvalEvent(
  deps: Pick<Deps, 'config'>,
  row: ApprovalRow,
  type: `approval.${'requested' | 'approved' | 'granted' | 'denied' | 'expired' | 'canceled'}`,
  cause: EventInput['cause'],
  more: Record<string, unknown> = {},
): EventInput {
  const { commandId, costs, recipients, expiresAt } = row.document
  const data = {
    approvalId: row.id,
    transactionId: transactionIdOf(row.id),
    commandId,
    delegatedSessionId: row.delegated_session_id,
    userId: row.user_id,
    walletId: row.wallet_id,
    rule: row.rule,
    costs,
    recipients,
    approvers: approversOf(row),
    expiresAt,
  }
  const own = {
    'approval.requested': { link: linkOf(deps, row) },
    'approval.approved': {},
    'approval.granted': { passkeyId: row.passkey_id },
    'approval.denied': { reason: row.reason ?? '', deniedBy: row.decided_by ?? row.user_id },
    'approval.expired': {},
    'approval.canceled': {},
  }
  return eventOf(row, type, { ...data, ...own[type], ...more }, cause)
}
