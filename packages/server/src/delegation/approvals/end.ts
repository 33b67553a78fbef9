import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { isUntouched, type TransactionRow } from '../../wallets/transactions/service.ts'
import { fail } from '../errors.ts'
import { recordFailed } from '../execute/record.ts'
import { lockSessionAndTransaction } from '../remote/outcome.ts'
import { statusOf } from '../session.ts'
import * as sessions from '../store.ts'
import { approvalEvent } from './approval.ts'
import { approvalIdOf } from './approval-record.ts'
import * as store from './approval-store.ts'

/**
 * Ends a request that nobody decided on, and releases what it held: its time is over, or its session has ended.
 * @returns whether it has ended
 */
export async function endUndecided(deps: Deps, before: TransactionRow): Promise<boolean> {
  return deps.db.tx(async (tx) => {
    const locked = await lockSessionAndTransaction(tx, deps, before, sessions.lockLiveToCount)
    if (locked === undefined) return true
    const { session, row } = locked
    if (row.status !== 'approval_required' || !isUntouched(row, before)) return true
    const now = deps.now()
    const isExpired = row.expires_at === null || row.expires_at <= now
    if (!isExpired && statusOf(session, now) === 'active') return false
    await recordFailed(tx, deps, session, row, fail(isExpired ? 'approval_expired' : 'approval_canceled'))
    const approval = await store.findApprovalToEnd(tx, row.tenant_id, approvalIdOf(row.id))
    if (approval?.status !== 'pending') return true
    const status = isExpired ? 'expired' : 'canceled'
    const ended = await store.storeDecision(tx, { ...approval, status, updated_at: now })
    await publish(tx, deps, approvalEvent(deps, ended, `approval.${status}`, undefined))
    return true
  })
}
