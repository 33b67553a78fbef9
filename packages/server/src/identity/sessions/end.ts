import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { refuseAccessTokens } from '../../platform/security/revocations.ts'
import type { Session } from './schema.ts'
import * as store from './store.ts'

/**
 * Ends a user's sessions, or one of them. Their access tokens are refused: in this process after the commit, in others
 * within a second. @returns the sessions that this call ended
 */
async function end(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  sessionId: Id<'ses'> | null,
): Promise<store.SessionRow[]> {
  const ended = await store.revokeSessions(tx, tenantId, userId, sessionId, deps.now())
  const ids = ended.map((row) => row.id)
  if (ids.length > 0) {
    await refuseAccessTokens(tx, tenantId, ids, deps.now())
    tx.afterCommit(() => deps.revocations.add(ids))
  }
  return ended
}

/** Ends all sessions of a user without an event each, in the transaction that deletes or suspends the user or ends the guest. */
export async function endSessionsOf(tx: Db, deps: Deps, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  await end(tx, deps, tenantId, userId, null)
}

/** Ends a user's sessions, or one of them, with an event each. @returns the sessions that this call ended */
export async function revokeSessions(
  deps: Deps,
  call: Call,
  userId: Id<'usr'>,
  sessionId: Id<'ses'> | null,
  type: 'session.revoked' | 'session.reuse_detected' = 'session.revoked',
): Promise<store.SessionRow[]> {
  const { tenantId } = call.caller
  return deps.db.tx(async (tx) => {
    const ended = await end(tx, deps, tenantId, userId, sessionId)
    for (const { id, app_id: appId } of ended)
      await publish(tx, deps, { tenantId, appId, type, data: { sessionId: id, userId }, cause: call })
    return ended
  })
}

/** Ends the session that makes the call. With `everywhere`, or if a server acts for the user, ends all sessions of the user. */
export async function logOut(deps: Deps, call: UserCall, everywhere: boolean): Promise<{ revoked: number }> {
  const ended = await revokeSessions(deps, call, call.user.id, everywhere ? null : call.user.sessionId)
  return { revoked: ended.length }
}

/** Ends one of the current user's sessions. Returns a session that has already ended unchanged. @throws not_found */
export async function endSession(deps: Deps, call: UserCall, id: string): Promise<Session> {
  const { tenantId } = call.caller
  const row = existing(await store.findSessionToEnd(deps.db, tenantId, call.user.id, pathId('ses', id)))
  const [ended] = await revokeSessions(deps, call, call.user.id, row.id)
  return store.toSession(ended ?? row, deps.now(), call.user.sessionId)
}
