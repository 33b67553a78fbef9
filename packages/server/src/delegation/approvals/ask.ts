import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import type { TransactionRow } from '../../wallets/transactions/service.ts'
import type { Acting } from '../access.ts'
import type { Toll } from '../budgets/count.ts'
import type { Taken } from '../budgets/turn.ts'
import { fail } from '../errors.ts'
import type { Denial } from '../execute/evaluate.ts'
import { insertReserved } from '../execute/record.ts'
import type { Required } from '../policy/judge.ts'
import * as sessions from '../store.ts'
import { approvalEvent, linkOf } from './approval.ts'
import { type ApprovalRow, approvalIdOf } from './approval-record.ts'
import * as store from './approval-store.ts'
import { quorumsOf, usersIn } from './approvers/quorum.ts'
import { meaningOf, newDocument } from './document.ts'

/** How often one session, and all sessions of a wallet, may ask within an hour, so that nobody is worn down by questions. */
const ASKS_PER_HOUR_MAX = 20
const ASKS_OF_WALLET_PER_HOUR_MAX = 60
/** How many requests of a wallet wait for its owner at a time. */
const OPEN_OF_WALLET_MAX = 20
const HOUR_MS = 60 * 60_000

/** Where nobody can be asked, a rule that wants it refuses. */
export function refusedWithoutOwner({ reasons: [{ rule, message }] }: Required): Denial {
  const why = 'Owners can be asked only for embedded wallets on a ledger in the database of the service.'
  return { code: 'policy_denied', rule, command: null, message: `${message} ${why}`, more: {} }
}

function refuseMore(rule: string, limit: 'session_hour' | 'wallet_hour' | 'wallet_open', message: string): never {
  throw fail('approval_limit_reached').about('commands', message, { rule, limit })
}

/**
 * With the session locked, and then all that asks for its wallet: what is counted stays as it is until the request is written.
 * @throws approval_pending, approval_limit_reached
 */
async function requireMayAsk(tx: Db, deps: Deps, session: Acting, rule: string): Promise<void> {
  const now = deps.now()
  const hourAgo = new Date(now.getTime() - HOUR_MS)
  await store.lockAsking(tx, session)
  const { open, recent } = await store.askedBy(tx, session, hourAgo)
  const same = open.find((one) => one.rule === rule)
  if (same !== undefined)
    throw fail('approval_pending').about(
      'commands',
      `This session's earlier request ${same.id} under the same rule is not decided yet.`,
      { rule, approvalId: same.id, link: linkOf(deps, { app_id: session.app_id, id: same.id }) },
    )
  if (recent >= ASKS_PER_HOUR_MAX)
    refuseMore(rule, 'session_hour', `This session has asked ${ASKS_PER_HOUR_MAX} times within an hour.`)
  const ofWallet = await store.askedOf(tx, session, { since: hourAgo, now })
  if (ofWallet.open >= OPEN_OF_WALLET_MAX)
    refuseMore(rule, 'wallet_open', `${OPEN_OF_WALLET_MAX} requests of this wallet's sessions wait for a decision.`)
  if (ofWallet.recent >= ASKS_OF_WALLET_PER_HOUR_MAX)
    refuseMore(
      rule,
      'wallet_hour',
      `The sessions of this wallet have asked ${ASKS_OF_WALLET_PER_HOUR_MAX} times within an hour.`,
    )
}

/**
 * Asks the owner, or the policy's approvers, instead of executing: reserves the transaction's part of the caps and budgets, and writes the request. Nothing
 * is signed. With the session locked, so that of several calls at once only one asks by a rule.
 * @throws approval_pending, approval_limit_reached
 */
export async function askOwner(
  db: Db,
  deps: Deps,
  call: Call,
  session: Acting,
  asked: { row: TransactionRow; tolls: readonly Toll[]; prepared: Prepared; required: Required },
): Promise<Taken<TransactionRow>> {
  const { tolls, prepared, required } = asked
  const { payment, reasons, lifetimeMs } = required
  const [{ rule }] = reasons
  return db.tx(async (tx) => {
    const now = deps.now()
    const locked = await sessions.lockLive(tx, now, { tenantId: session.tenant_id, appId: null }, session.id)
    if (locked === undefined || locked.version !== session.version) return 'changed'
    await requireMayAsk(tx, deps, session, rule)
    const expiresAt = new Date(Math.min(now.getTime() + lifetimeMs, session.expires_at.getTime()))
    const waiting: TransactionRow = {
      ...asked.row,
      status: 'approval_required',
      expires_at: expiresAt,
      check_at: expiresAt,
    }
    const taken = await insertReserved(tx, deps, session, waiting, tolls)
    if (taken === 'changed' || 'denied' in taken) return taken
    const quorums = quorumsOf(reasons, session.user_id)
    const meaning = meaningOf(waiting.commands_hash, prepared, payment)
    const document = newDocument(waiting, meaning, { rules: reasons, quorums }, expiresAt)
    const row: ApprovalRow = {
      tenant_id: session.tenant_id,
      id: approvalIdOf(waiting.id),
      app_id: session.app_id,
      user_id: session.user_id,
      wallet_id: session.wallet_id,
      delegated_session_id: session.id,
      rule,
      status: 'pending',
      document,
      recipients: document.recipients,
      expires_at: expiresAt,
      reason: null,
      passkey_id: null,
      assertion: null,
      decided_at: null,
      approvers: quorums && usersIn(quorums),
      decided_by: null,
      created_at: now,
      updated_at: now,
      version: 0,
      mac: null,
    }
    if (!(await store.insertApproval(tx, row)))
      throw new Error('a session asks twice by one rule, although it was locked')
    await publish(tx, deps, approvalEvent(deps, row, 'approval.requested', call))
    return taken
  })
}
