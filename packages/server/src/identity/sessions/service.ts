import type { Deps } from '../../platform/deps.ts'
import { fail, pathId } from '../../platform/http/errors.ts'
import type { Caller, CurrentUser, Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { ListSessions, Session } from './schema.ts'
import * as store from './store.ts'

export { endSession, endSessionsOf, logOut, revokeSessions } from './end.ts'
export { refresh, renewSession, stillCounts } from './refresh.ts'
export { confirmSession, type SignIn, startSession, startSessionWith } from './start.ts'
export {
  type ProvenSession,
  recordPasskey,
  recordVerification,
  requireFreshSignIn,
  requireOwnStepUp,
  requireProven,
  requireRecentSignIn,
  requireStepUp,
  requireUpheld,
  requireVerification,
} from './step-up.ts'
export { FACTOR_METHODS, forgetPasskeys, forgetVerifications, PASSKEY_METHODS } from './step-up-store.ts'
export { deleteOldSessions, type ExtraWrites } from './store.ts'

/** What a session says about how its user signed in. */
export type HowSignedIn = Pick<
  store.SessionRow,
  'amr' | 'signed_in_at' | 'expires_at' | 'weak' | 'mfa_at' | 'passkey_at'
>

/**
 * The session of an access token as the database has it now: the token may be older than what ended it.
 * @throws session_revoked, session_expired
 */
export async function liveSession(
  deps: Deps,
  of: { tenantId: Id<'ten'>; userId: Id<'usr'>; id: Id<'ses'> },
): Promise<HowSignedIn> {
  const row = await store.findSession(deps.db, of)
  if (row === undefined || row.revoked_at !== null) throw fail('session_revoked')
  if (row.expires_at <= deps.now()) throw fail('session_expired')
  return row
}

/** A page of a user's sessions, newest first. */
export async function listSessions(
  deps: Deps,
  tenantId: Id<'ten'>,
  user: Pick<CurrentUser, 'id' | 'sessionId'>,
  query: ListSessions,
): Promise<Page<Session>> {
  return store.listSessions(deps.db, tenantId, user, deps.now(), query)
}

/** The id of a user or guest that the key can see. @throws not_found */
export async function ownUser(deps: Deps, caller: Caller, id: string): Promise<Id<'usr'>> {
  const userId = pathId('usr', id)
  if (!(await store.hasUser(deps.db, caller, userId))) throw fail('not_found')
  return userId
}

/** A page of a user's sessions for a secret key, newest first. @throws not_found */
export async function listSessionsOf(
  deps: Deps,
  caller: Caller,
  userId: string,
  query: ListSessions,
): Promise<Page<Session>> {
  const id = await ownUser(deps, caller, userId)
  return listSessions(deps, caller.tenantId, { id, sessionId: null }, query)
}
