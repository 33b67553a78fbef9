import { publicUrl } from '../../platform/config.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, eventOf } from '../../platform/events/events.ts'
import { type ApprovalRow, transactionIdOf } from './approval-record.ts'
import type { Approval } from './approval-schema.ts'

/** Where the owner decides. The link holds no secret: whoever opens it signs in first. */
export function linkOf({ config }: Pick<Deps, 'config'>, { app_id, id }: Pick<ApprovalRow, 'app_id' | 'id'>): string {
  return `${publicUrl(config)}/approve?app=${app_id}&id=${id}`
}

/** Its status at `now`. The row of an expired one says `pending` until the worker has released what it held. */
function statusOf({ status, expires_at }: ApprovalRow, now: Date): Approval['status'] {
  return status === 'pending' && expires_at <= now ? 'expired' : status
}

/** An approval as lists have it. */
export function toApproval(deps: Pick<Deps, 'config' | 'now'>, row: ApprovalRow): Approval {
  const { commandId, costs, recipients, rules } = row.document
  const shown = {
    ...row,
    command_id: commandId,
    transaction_id: transactionIdOf(row.id),
    status: statusOf(row, deps.now()),
    rules,
    costs,
    recipients,
    link: linkOf(deps, row),
  }
  return wire(
    shown,
    `id app_id user_id wallet_id delegated_session_id transaction_id command_id status rules costs recipients reason
    passkey_id link expires_at decided_at created_at updated_at`,
  )
}

/** An event about an approval as it is after the change. */
export function approvalEvent(
  deps: Pick<Deps, 'config'>,
  row: ApprovalRow,
  type: `approval.${'requested' | 'granted' | 'denied' | 'expired' | 'canceled'}`,
  cause: EventInput['cause'],
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
    expiresAt,
  }
  const more = {
    'approval.requested': { link: linkOf(deps, row) },
    'approval.granted': { passkeyId: row.passkey_id },
    'approval.denied': { reason: row.reason ?? '' },
    'approval.expired': {},
    'approval.canceled': {},
  }
  return eventOf(row, type, { ...data, ...more[type] }, cause)
}
