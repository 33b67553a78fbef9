import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { EventInput } from '../../platform/events/events.ts'
import type { Call } from '../../platform/http/route.ts'
import { isMarked } from '../../platform/security/records/access.ts'
import { lookAtAwaiting, signedAndOpen, type TransactionRow } from '../../wallets/transactions/service.ts'
import { unlistEverywhere, unlistSessions } from '../../wallets/wallets/service.ts'
import type { RevokedDelegatedSession } from '../schema.ts'
import { sessionEvent, statusOf, toSession } from '../session.ts'
import * as store from '../store.ts'
import * as ends from './end-store.ts'
import { findVisible, type Viewer } from './read.ts'

/** How many sessions one statement revokes. */
export const REVOKE_BATCH = 200
/** How many sessions one run of the sweep ends. */
const SWEEP_BATCH = 100

/** Takes a session off its wallet's list: its row does not count any more, nor an earlier one. */
function unlist(tx: Db, seen: store.SessionRow): Promise<void> {
  const { tenant_id: tenantId, wallet_id: walletId, id } = seen
  return isMarked(seen) ? unlistEverywhere(tx, tenantId, id) : unlistSessions(tx, { tenantId, walletId, sessionId: id })
}

/**
 * Ends a session for good: after the response, nothing is signed for it. `inFlight` lists what was signed before and may
 * still happen. A session that has already ended is returned unchanged. @throws not_found
 */
export async function revokeDelegatedSession(
  deps: Deps,
  call: Viewer & Call,
  id: string,
): Promise<RevokedDelegatedSession> {
  const seen = await findVisible(store.findSessionToEnd, deps.db, call, id)
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, seen.user_id)
    await unlist(tx, seen)
    const before = await findVisible(store.lockSessionToEnd, tx, call, id)
    const now = deps.now()
    const open = await signedAndOpen(tx, before.tenant_id, before.id)
    const row = statusOf(before, now) === 'active' ? await revoke(tx, deps, before, call) : before
    // A delegate can complete a co-signed transaction and submit it itself, except on a transactional ledger.
    const mayHappen = ({ status, ledger }: TransactionRow) =>
      status === 'submitted' || !deps.ledgers.get(ledger)?.transactional
    return { ...toSession(row, now), inFlight: open.filter(mayHappen).map(toInFlight) }
  })
}

/** A transaction that may still happen, as a revocation lists it. */
export function toInFlight(
  row: Pick<TransactionRow, 'id' | 'command_id' | 'ledger' | 'expires_at'>,
): RevokedDelegatedSession['inFlight'][number] {
  return {
    transactionId: row.id,
    commandId: row.command_id,
    ledger: row.ledger,
    expiresAt: row.expires_at?.toISOString() ?? null,
  }
}

/** Revokes an active session, in the transaction that holds its row. */
export async function revoke(
  tx: Db,
  deps: Deps,
  before: store.SessionRow,
  cause: EventInput['cause'],
): Promise<store.SessionRow> {
  const now = deps.now()
  const row: store.SessionRow = { ...before, status: 'revoked', revoked_at: now, updated_at: now }
  await ends.endSession(tx, row, sessionEvent(now, row, 'delegated_session.revoked', cause))
  await lookAtAwaiting(tx, [row.id], now)
  tx.afterCommit(deps.wake.outbox)
  return row
}

/**
 * Revokes all active sessions of a wallet: once this has committed, nothing is signed for them. The transaction must
 * hold the user's lock (`platform/concurrency/user-lock.ts`). @returns how many there were
 */
export async function endSessionsOf(
  tx: Db,
  deps: Deps,
  of: ends.SessionsWallet,
  cause: EventInput['cause'],
): Promise<number> {
  const now = deps.now()
  let revoked = 0
  await unlistSessions(tx, of)
  for (let more = true; more; ) {
    const rows = await ends.revokeActive(tx, now, of, REVOKE_BATCH)
    await publishRevoked(tx, deps, rows, cause)
    revoked += rows.length
    more = rows.length === REVOKE_BATCH
  }
  return revoked
}

/** Publishes that sessions were revoked, in the transaction that did it. */
export async function publishRevoked(
  tx: Db,
  deps: Deps,
  rows: readonly store.SessionRow[],
  cause: EventInput['cause'],
): Promise<void> {
  if (rows.length === 0) return
  const now = deps.now()
  await ends.publishEvents(
    tx,
    rows.map((row) => sessionEvent(now, row, 'delegated_session.revoked', cause)),
  )
  // What they wait for is released by the worker, which looks at it at once.
  await lookAtAwaiting(
    tx,
    rows.map(({ id }) => id),
    now,
  )
  tx.afterCommit(deps.wake.outbox)
}

/** Ends one batch of the sessions that have expired, of all tenants. @returns whether there may be more */
export async function sweepDelegatedSessions(deps: Deps): Promise<boolean> {
  return deps.db.tx(async (tx) => {
    const now = deps.now()
    const rows = await ends.expireDue(tx, now, SWEEP_BATCH)
    for (const row of rows)
      await ends.publishEvents(tx, [sessionEvent(now, row, 'delegated_session.expired', undefined)])
    if (rows.length > 0) tx.afterCommit(deps.wake.outbox)
    return rows.length === SWEEP_BATCH
  })
}
