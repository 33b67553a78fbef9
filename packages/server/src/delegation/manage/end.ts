import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { EventInput } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { sessionEvent } from '../service.ts'
import * as store from '../store.ts'

/** Sessions that one statement ends. */
const PORTION = 200

/**
 * Lets nothing be written any more that an active session of a wallet had decided on: who is at it looks again. In the
 * transaction that keeps the user's acts out (`platform/concurrency/user-lock.ts`).
 */
export async function invalidateDecisions(tx: Db, of: { tenantId: Id<'ten'>; walletId: Id<'wal'> }): Promise<void> {
  await store.raiseVersions(tx, of)
}

/**
 * Ends all active sessions of a wallet for good, each with its event: once this has committed, nothing is signed for them.
 * In the transaction that keeps the user's acts out (`platform/concurrency/user-lock.ts`) and holds the wallet. @returns how many there were
 */
export async function endSessionsOf(
  tx: Db,
  deps: Deps,
  of: { tenantId: Id<'ten'>; walletId: Id<'wal'> },
  cause: EventInput['cause'],
): Promise<number> {
  const now = deps.now()
  let ended = 0
  for (let more = true; more; ) {
    const rows = await store.revokeActive(tx, now, of, PORTION)
    const events = rows.map((row) => sessionEvent(now, row, 'delegated_session.revoked', cause))
    if (events.length > 0) await store.publishEvents(tx, events)
    ended += rows.length
    more = rows.length === PORTION
  }
  if (ended > 0) tx.afterCommit(deps.wake.outbox)
  return ended
}
