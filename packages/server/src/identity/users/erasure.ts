/*
 * `deleteUser` deletes the stored data of a user in one transaction: rows that reference the user by `on delete cascade`
 * (migrations), the rest by `eraseTraces`. Data that stays, and until when:
 * - `user.created`, while it is still to be sent: a retry must have the same bytes. Then `blankErased` removes the email.
 * - responses stored for a repeat of the request: 24 hours after it. A repeat must not create an erased user again.
 * - the address from which the user caused an event, and the responses of receivers: HALFKEY_RETENTION; for the event of a
 *   dead letter, as long as the dead letter.
 * - the address in the audit log's entries about the user: removed by `insight/audit/service.ts` when it reads `user.deleted`.
 * - ids, which hold no personal data: in events, counters, the audit log, and on the ledger.
 */
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { OfApp } from '../../platform/hooks.ts'
import type { Call } from '../../platform/http/route.ts'
import { deleteChallengesOfApp } from '../../platform/security/challenges.ts'
import { refuseTokensOfApp } from '../../platform/security/revocations.ts'
import { endSessionsOf } from '../sessions/service.ts'
import * as store from './erasure-store.ts'
import { lockOwn } from './lock.ts'
import type { User } from './schema.ts'
import { deleteUser as deleteRow, toUser } from './store.ts'

const EVENTS_A_ROUND = 500

/**
 * Deletes a user with all stored data, and returns the record in its final state. The top of this file lists the data that
 * stays for a while. @throws not_found
 */
export async function deleteUser(deps: Deps, call: Call, id: string): Promise<User> {
  return deps.db.tx(async (tx) => {
    const row = await lockOwn(tx, call.caller, id)
    await endSessionsOf(tx, deps, row.tenant_id, row.id)
    await store.eraseTraces(tx, row)
    await deleteRow(tx, row)
    await publish(tx, deps, eventOf(row, 'user.deleted', { userId: row.id }, call))
    return toUser({ ...row, status: 'deleted', updated_at: deps.now() })
  })
}

/** The event's body with an empty email. */
function blanked(body: string): string {
  const envelope = JSON.parse(body) as { data: Record<string, unknown> }
  return JSON.stringify({ ...envelope, data: { ...envelope.data, email: '' } })
}

/**
 * Removes the email from the `user.created` of deleted users, if no delivery of the event is left to send. The event keeps its
 * id: a delivery that is restarted later sends the rest of the data. @returns whether there may be more now
 */
export async function blankErased(db: Db): Promise<boolean> {
  return db.tx(async (tx) => {
    const events = await store.takeErasures(tx, EVENTS_A_ROUND)
    await store.postponeErasures(
      tx,
      events.filter(({ pending }) => pending),
    )
    const settled = events.filter(({ pending }) => !pending)
    await store.blankEvents(
      tx,
      settled.map((event) => ({ ...event, blank: event.body === null ? null : blanked(event.body) })),
    )
    return events.length === EVENTS_A_ROUND
  })
}

/** Deletes the users of an app that is being deleted, and the challenges that contain their emails. */
export async function emptyApp(tx: Db, deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  // Locked users cannot start a session that the next statement would miss.
  await store.lockUsersOfApp(tx, tenantId, appId)
  await refuseTokensOfApp(tx, tenantId, appId, deps.now())
  await deleteChallengesOfApp(tx, tenantId, appId)
  await store.deleteUsersOfApp(tx, tenantId, appId)
}

/** Cancels the counts of users who were deleted with their app. */
export async function forgetCounts(tx: Db, _deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store.cancelCounts(tx, tenantId, appId)
}

/** Deletes the counts of a deleted app. If this fails, the remaining counts add nothing to any sum. */
export async function deleteCounts(deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store
    .deleteCounts(deps.db, tenantId, appId)
    .catch((error: unknown) => deps.log.warn({ err: error }, 'counts of a deleted app could not be deleted'))
}
