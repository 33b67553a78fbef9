import { verifyApproval } from '../../identity/passkeys/service.ts'
import { requireProven } from '../../identity/sessions/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { existing } from '../../platform/http/errors.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { type Command, LedgerError } from '../../platform/ports/ledger.ts'
import { lockTransaction, type TransactionRow } from '../../wallets/transactions/service.ts'
import { type Acting, withLimits } from '../access.ts'
import { beginCounting, isUncounted } from '../budgets/begin-counting.ts'
import { fail } from '../errors.ts'
import { asAnswer, type Denial, deny, evaluateEffects, ledgerFailure } from '../execute/evaluate.ts'
import { ledgerOf, prepareRequest } from '../execute/execution.ts'
import { recordApproved, recordFailed } from '../execute/record.ts'
import { hashOf } from '../execute/request.ts'
import type { Required } from '../policy/judge.ts'
import { paymentOf } from '../policy/payment.ts'
import { requireLive } from '../session.ts'
import * as sessions from '../store.ts'
import { approvalEvent, approversOf } from './approval.ts'
import { type ApprovalRow, type ApprovalStatus, transactionIdOf } from './approval-record.ts'
import type { Approval, Approve, Deny } from './approval-schema.ts'
import * as store from './approval-store.ts'
import { approveBeside } from './approvers/approve-beside.ts'
import { isMet, ownerAlone, quorumWords } from './approvers/quorum.ts'
import { challengeOf, isMeant, meaningOf } from './document.ts'
import { findVisible, showApproval } from './read.ts'
import { released } from './still-allowed.ts'
import { canAsk } from './verdict.ts'

/** An approval with what it is about, locked in the order in which executions lock. */
interface Locked {
  session: Acting
  transaction: TransactionRow
  approval: ApprovalRow
}

async function lock(tx: Db, deps: Deps, seen: ApprovalRow): Promise<Locked> {
  const { tenant_id: tenantId, delegated_session_id: sessionId, id } = seen
  const reach = { tenantId, appId: null }
  const found = existing(await sessions.lockLiveToCount(tx, deps.now(), reach, sessionId))
  const session = await withLimits(tx, deps, found)
  const transaction = existing(await lockTransaction(tx, tenantId, transactionIdOf(id)))
  return { session, transaction, approval: existing(await store.findApproval(tx, reach, id)) }
}

/**
 * Nobody decides twice, or too late: whether the worker has been there or not.
 * @throws approval_decided, approval_expired, approval_canceled
 */
function requireUndecided(deps: Deps, { approval, transaction }: Locked): void {
  const { status, expires_at: expiresAt } = approval
  if (status === 'canceled') throw fail('approval_canceled')
  if (status === 'expired' || (status === 'pending' && expiresAt <= deps.now())) throw fail('approval_expired')
  if (status !== 'pending' || transaction.status !== 'approval_required')
    throw fail('approval_decided').about('id', `Its status is ${status}.`, { status })
}

/**
 * A server cannot decide for a user. What others than the owner say rests on a session that has shown a passkey or a second
 * factor: who reads their mailbox, or issues their tokens, decides nothing. The owner can always refuse.
 * @throws session_missing, not_found, stronger_sign_in_required
 */
async function findOwn(deps: Deps, call: UserCall, id: string, act: 'approve' | 'refuse'): Promise<ApprovalRow> {
  const row = await findVisible(deps, call, id)
  if (call.user.sessionId === null)
    throw fail('session_missing').about('authorization', 'This call needs an access token: `x-user-id` is not enough.')
  const isOwner = call.user.id === row.user_id
  if (row.approvers !== null && !(isOwner && act === 'refuse')) await requireProven(deps, call.caller, call.user)
  return row
}

const decided = (row: ApprovalRow, status: ApprovalStatus, now: Date): ApprovalRow => ({
  ...row,
  status,
  decided_at: now,
  updated_at: now,
})

/**
 * Prepares the transaction anew, holds it against the document and the limits of now, signs and writes it. Nothing beyond the
 * database is asked, so that approving and executing are one transaction: there is no moment between them. `approved`: the users
 * whose approvals count. Other rules may ask by now than those that did at first.
 * @throws LedgerError; approval_outdated; policy_denied, spend_limit_exceeded, budget_exceeded
 */
async function executeApproved(
  tx: Db,
  deps: Deps,
  call: UserCall,
  { session, transaction, approval }: Locked,
  approved: ReadonlySet<string>,
): Promise<void> {
  const ledger = ledgerOf(deps, session)
  const commands = transaction.commands as Command[]
  const prepared = await ledger.prepare(tx, prepareRequest(session, transaction, commands, deps.now()))
  const meaning = meaningOf(hashOf(commands), prepared, paymentOf(prepared, session.party_id))
  if (!isMeant(approval.document, meaning)) throw fail('approval_outdated')
  const evaluated = await evaluateEffects(tx, deps, ledger, released(session, transaction), commands, prepared)
  if ('denial' in evaluated) return deny(tx, deps, call, session, evaluated.denial)
  const missing = deniedWithout(evaluated.required, approval, approved)
  if (missing !== null) return deny(tx, deps, call, session, missing)
  const signatures = await ledger.sign(tx, session.tenant_id, session.party_id, prepared.payload)
  const receipt = await ledger.submit(tx, session.tenant_id, prepared.bytes, signatures, deps.now())
  await recordApproved(tx, deps, session, transaction, { ...evaluated, effects: prepared.effects, receipt }, call)
}

/** Why it is denied although all approved who were asked: a rule asks others by now. Null if they have approved, too. */
function deniedWithout(
  required: Required | null,
  { user_id }: ApprovalRow,
  approved: ReadonlySet<string>,
): Denial | null {
  const open = required?.reasons.find(({ approvers }) => !isMet(approvers ?? ownerAlone(user_id), approved))
  if (open === undefined) return null
  const message = `${open.message} By now this needs the approval of ${quorumWords(open.approvers)}.`
  return { code: 'policy_denied', rule: open.rule, command: null, message, more: {} }
}

/** What ends an approval for good: it does something else now, or the ledger will never accept it. */
function finalRefusal(error: unknown) {
  if (error instanceof LedgerError) return error.retryable ? undefined : ledgerFailure(error)
  return (error as { code?: string }).code === 'approval_outdated' ? fail('approval_outdated') : undefined
}

/** Counting begins before anything is locked: it waits for those who act for the user. */
async function prepareToCount(
  deps: Deps,
  { tenant_id: tenantId, delegated_session_id: id }: ApprovalRow,
): Promise<void> {
  const found = existing(await sessions.findLive(deps.db, deps.now(), { tenantId, appId: null }, id))
  const session = await withLimits(deps.db, deps, found)
  if (isUncounted(session)) await beginCounting(deps.db, session, deps.now())
}

/**
 * Approves with a passkey, and executes if nobody else has to approve: both or neither. A repeat returns what the first call did.
 * @throws not_found, session_missing, stronger_sign_in_required, approver_not_named, approval_decided, approval_expired, approval_outdated, approvals_unavailable,
 * assertion_invalid, passkey_cannot_approve, what `requireLive` throws, and what executing throws
 */
export async function approve(deps: Deps, call: UserCall, id: string, { credential }: Approve): Promise<Approval> {
  const seen = await findOwn(deps, call, id, 'approve')
  if (seen.status === 'executed') return showApproval(deps.db, deps, seen)
  await prepareToCount(deps, seen)
  const approval = await deps.db.tx((tx) => decide(tx, deps, call, seen, credential))
  await deps.failpoint('decided')
  return approval
}

/** Takes one user's approval. @returns the row if this is the last one, and all users whose approvals count now */
async function take(
  tx: Db,
  deps: Deps,
  call: UserCall,
  approval: ApprovalRow,
  credential: Approve['credential'],
): Promise<{ granted: ApprovalRow; approved: ReadonlySet<string> }> {
  if (approval.approvers !== null) {
    const approved = await approveBeside(tx, deps, call, approval, credential)
    return { granted: { ...approval, decided_by: call.user.id }, approved }
  }
  const { tenant_id: tenantId, app_id: appId, user_id: userId } = approval
  const challenge = challengeOf(approval.document)
  const { passkeyId, ...assertion } = await verifyApproval(tx, deps, { tenantId, appId, userId }, challenge, credential)
  return { granted: { ...approval, passkey_id: passkeyId, assertion }, approved: new Set([userId]) }
}

/** The approval as it is after the decision. Throws what `approve` throws. */
async function decide(
  tx: Db,
  deps: Deps,
  call: UserCall,
  seen: ApprovalRow,
  credential: Approve['credential'],
): Promise<Approval> {
  const locked = await lock(tx, deps, seen)
  const { session, transaction, approval } = locked
  if (approval.status === 'executed') return showApproval(tx, deps, approval)
  requireUndecided(deps, locked)
  requireLive(session, deps.now())
  if (!canAsk(deps, session)) throw fail('approvals_unavailable')
  if (isUncounted(session)) throw fail('ledger_unavailable')
  const { granted, approved } = await take(tx, deps, call, approval, credential)
  if (approversOf(approval).some((quorum) => !isMet(quorum, approved))) return showApproval(tx, deps, approval)
  try {
    await executeApproved(tx, deps, call, locked, approved)
  } catch (error) {
    const refusal = finalRefusal(error)
    if (refusal === undefined) throw asAnswer(error)
    await recordFailed(tx, deps, session, transaction, refusal, call)
    await store.storeDecision(tx, decided(granted, 'failed', deps.now()))
    throw refusal.commitOnThrow()
  }
  const row = await store.storeDecision(tx, decided(granted, 'executed', deps.now()))
  await publish(tx, deps, approvalEvent(deps, row, 'approval.granted', call, { approvedBy: [...approved] }))
  await deps.failpoint('approved')
  return showApproval(tx, deps, row)
}

/**
 * Refuses, and releases what was held. Needs no passkey: refusing takes nothing from anybody.
 * @throws not_found, session_missing, stronger_sign_in_required, approval_decided, approval_expired
 */
export async function refuse(deps: Deps, call: UserCall, id: string, { reason }: Deny): Promise<Approval> {
  const seen = await findOwn(deps, call, id, 'refuse')
  return deps.db.tx(async (tx) => {
    const locked = await lock(tx, deps, seen)
    const { session, transaction, approval } = locked
    if (approval.status === 'denied') return showApproval(tx, deps, approval)
    requireUndecided(deps, locked)
    const said = reason?.trim().normalize('NFC') || null
    const who = call.user.id === approval.user_id ? 'The owner' : 'The approver'
    const told = said === null ? `${who} gave no reason.` : `${who}'s reason: ${JSON.stringify(said)}`
    const denial = fail('approval_denied').about('commands', told, { approvalId: approval.id, reason: said })
    await recordFailed(tx, deps, session, transaction, denial, call)
    const row = await store.storeDecision(tx, {
      ...decided(approval, 'denied', deps.now()),
      reason: said,
      decided_by: approval.approvers === null ? null : call.user.id,
    })
    await publish(tx, deps, approvalEvent(deps, row, 'approval.denied', call))
    return showApproval(tx, deps, row)
  })
}
