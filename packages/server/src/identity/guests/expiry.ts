import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { Call } from '../../platform/http/route.ts'
import { releaseIdentities } from '../identities/service.ts'
import { endSessionsOf } from '../sessions/service.ts'
import { endGuest } from '../users/service.ts'
import type { CleanUpGuests, ExpiredGuests } from './schema.ts'
import * as store from './store.ts'

/** How many guests end in one transaction. */
const PORTION = 100
/** The most guests that one call of the cleanup ends. */
export const CLEANUP_MAX = 1_000

const MINUTE_MS = 60_000

/**
 * Completes the end of a guest, in the transaction that stores it: ends their sessions, releases the accounts that they have
 * linked, freezes their wallet, and emits `guest.expired`.
 */
export async function finishExpiry(tx: Db, deps: Deps, row: store.GuestRow, cause?: Call): Promise<void> {
  // The user first: a concurrent sign-in either ends with the other sessions, or finds that the guest has ended.
  await endGuest(tx, row.tenant_id, row.user_id)
  await endSessionsOf(tx, deps, row.tenant_id, row.user_id)
  await releaseIdentities(tx, deps, { tenantId: row.tenant_id, userId: row.user_id, cause })
  await deps.hooks.guestEnded(tx, deps, { tenantId: row.tenant_id, userId: row.user_id, cause })
  await publish(tx, deps, eventOf(row, 'guest.expired', { guestId: row.id, userId: row.user_id }, cause))
}

/**
 * Ends guests in bulk, in portions of one transaction each, and at most `CLEANUP_MAX` per call. Without
 * `olderThanMinutes`, ends the expired guests, which the sweep would end soon.
 */
export async function cleanUpGuests(deps: Deps, call: Call, input: CleanUpGuests): Promise<ExpiredGuests> {
  const now = deps.now()
  const which: store.ExpiryFilter = {
    tenantId: call.caller.tenantId,
    appId: call.caller.appId,
    createdUntil:
      input.olderThanMinutes === undefined ? null : new Date(now.getTime() - input.olderThanMinutes * MINUTE_MS),
    now,
  }
  if (input.dryRun === true) {
    const expired = await store.countExpiring(deps.db, which)
    return { expired, hasMore: expired > CLEANUP_MAX }
  }
  let expired = 0
  while (expired < CLEANUP_MAX) {
    const ended = await deps.db.tx(async (tx) => {
      const rows = await store.expireMatching(tx, which, Math.min(PORTION, CLEANUP_MAX - expired))
      for (const row of rows) await finishExpiry(tx, deps, row, call)
      return rows.length
    })
    expired += ended
    // Fewer rows than requested do not mean the end: guests that were just converted are skipped.
    if (ended === 0) return { expired, hasMore: false }
  }
  return { expired, hasMore: (await store.countExpiring(deps.db, which)) > 0 }
}

/** Ends a portion of the expired guests of all tenants. @returns whether there may be more */
export async function sweepGuests(deps: Deps): Promise<boolean> {
  return deps.db.tx(async (tx) => {
    const rows = await store.expireDue(tx, deps.now(), PORTION)
    for (const row of rows) await finishExpiry(tx, deps, row)
    return rows.length === PORTION
  })
}
