import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller, Delegate, Page } from '../../platform/http/route.ts'
import { networkOf } from '../../platform/ports/network.ts'
import type { TransactionSummary } from '../../wallets/transactions/schema.ts'
import { findTransaction, listTransactionsOf, toTransaction } from '../../wallets/transactions/service.ts'
import { withLimits } from '../access.ts'
import { approvalOf } from '../execute/execution.ts'
import { requireDelegate } from '../proofs/bound-key.ts'
import { remainingBeside, requireActive, requireActiveUser, toSession } from '../session.ts'
import * as store from '../store.ts'
import type { ListOwnTransactions, OwnDelegatedSession, OwnTransaction } from './agent-schema.ts'

/** A call by the holder of a session's token. */
export interface DelegateCall {
  caller: Caller
  delegate: Delegate
}

/**
 * The caller's session, while it may read: a frozen wallet does not keep it from that, its end does.
 * @throws not_found, delegated_session_revoked, delegated_session_expired, delegated_session_exhausted, user_suspended,
 * guest_expired
 */
async function findOwn(deps: Deps, { caller, delegate }: DelegateCall): Promise<store.LiveRow> {
  const row = existing(await store.findLiveByToken(deps.db, deps.now(), caller, delegate.tokenHash))
  requireDelegate(row, delegate)
  requireActive(row, deps.now())
  requireActiveUser(row)
  return row
}

/** The session of the token, with what its holder needs to know of the wallet. Throws what `findOwn` does. */
export async function getOwnSession(deps: Deps, call: DelegateCall): Promise<OwnDelegatedSession> {
  const row = await withLimits(deps.db, deps, await findOwn(deps, call))
  const now = deps.now()
  return {
    ...toSession(row, now),
    remaining: remainingBeside(row, row.limits, row.spending?.spent ?? {}, now),
    wallet: {
      id: row.wallet_id,
      partyId: row.party_id,
      ledger: row.ledger,
      network: row.ledger === 'embedded' ? networkOf(row.tenant_id) : null,
      custody: row.custody,
      status: row.frozen ? 'frozen' : row.wallet_status,
    },
  }
}

/** A page of the session's transactions, newest first. Throws what `findOwn` does. */
export async function listOwnTransactions(
  deps: Deps,
  call: DelegateCall,
  query: ListOwnTransactions,
): Promise<Page<TransactionSummary>> {
  const { tenant_id, id } = await findOwn(deps, call)
  const { status, command_id } = query
  const everywhere = { app_id: null, wallet_id: null, user_id: null }
  return listTransactionsOf(deps.db, { ...everywhere, tenant_id, delegated_session_id: id, status, command_id }, query)
}

/** One of the session's transactions. @throws not_found, also for another session's, and what `findOwn` throws */
export async function getOwnTransaction(deps: Deps, call: DelegateCall, id: string): Promise<OwnTransaction> {
  const session = await findOwn(deps, call)
  const row = await findTransaction(deps.db, session.tenant_id, pathId('tx', id))
  const own = existing(row?.delegated_session_id === session.id ? row : undefined)
  return { ...toTransaction(own), approval: approvalOf(deps, own) }
}
