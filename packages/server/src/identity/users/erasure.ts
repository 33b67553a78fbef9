/*
 * `deleteUser` deletes what is kept of a user in one transaction: rows that reference the user go by `on delete cascade`
 * (migrations), the rest by `eraseTraces`. What stays, and until when:
 * - `user.created` while it is still to be sent: a retry must be the same bytes. Then `blankErased` takes the email out.
 * - answers kept for a repeat of the request: 24 hours from it. A repeat must not create an erased user again.
 * - beside events, the address from which the user caused them, and what receivers answered: HALFKEY_RETENTION; with a dead
 *   letter's event as long as the dead letter.
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
 * Deletes a user with all that is kept of them, and answers the record's final state. What has to outlive the request
 * is listed at the top of this file. @throws not_found
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

/** The envelope with the data of a user who has no email. */
function blanked(body: string): string {
  const envelope = JSON.parse(body) as { data: Record<string, unknown> }
  return JSON.stringify({ ...envelope, data: { ...envelope.data, email: '' } })
}

/**
 * Takes the email out of the `user.created` of deleted users, as far as nothing of it is left to be sent. The event keeps its
 * id: a delivery that is started again later sends the rest of the data. @returns whether there may be more at once
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

/** Deletes the users of an app that is being deleted, with the challenges that know their emails. */
export async function emptyApp(tx: Db, deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  // Locked, they begin no session that the next statement would not see.
  await store.lockUsersOfApp(tx, tenantId, appId)
  await refuseTokensOfApp(tx, tenantId, appId, deps.now())
  await deleteChallengesOfApp(tx, tenantId, appId)
  await store.deleteUsersOfApp(tx, tenantId, appId)
}

/** Cancels the counts of users who went with their app. */
export async function forgetCounts(tx: Db, _deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store.cancelCounts(tx, tenantId, appId)
}

/** Deletes the counts of an app once it is gone; what a failure leaves behind adds nothing to any sum. */
export async function deleteCounts(deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store
    .deleteCounts(deps.db, tenantId, appId)
    .catch((error: unknown) => deps.log.warn({ err: error }, 'counts of a deleted app could not be deleted'))
}
