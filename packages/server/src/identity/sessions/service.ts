import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { newEvent, publish } from '../../platform/events/events.ts'
import { existing, fail, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, CurrentUser, Page, UserCall } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { signAccessToken } from '../../platform/security/access-token.ts'
import { refuseAccessTokens } from '../../platform/security/revocations.ts'
import { newRefreshToken, readRefreshToken } from './refresh-token.ts'
import type { ListSessions, Session, Tokens } from './schema.ts'
import * as store from './store.ts'

export {
  recordVerification,
  requireFreshSignIn,
  requireStepUp,
  requireUpheld,
  requireVerification,
} from './step-up.ts'

export { deleteOldSessions, type ExtraWrites, forgetVerifications } from './store.ts'

/** How long a refresh token that was used still answers its successor: for an answer that was lost on the way. */
const GRACE_MS = 30_000

/** What a session begins with. */
export interface SignIn extends Call {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
  /** Authentication methods (RFC 8176), and `guest`, `messenger`. */
  amr: string[]
  /** As events and analytics name the way of signing in; null for what is no sign-in of a user: a guest's beginning. */
  method: 'passkey' | 'messenger' | null
  /** When the session ends whatever is done: a guest's. */
  endsAt?: Date | null
  /** Whether it made the user. */
  isNewUser?: boolean
}

type SessionParts = Pick<
  store.SessionRow,
  'tenant_id' | 'id' | 'app_id' | 'user_id' | 'amr' | 'signed_in_at' | 'ends_at' | 'generation'
>

async function tokensOf(deps: Deps, row: SessionParts, accessSeconds: number): Promise<Tokens> {
  return {
    accessToken: await signAccessToken(deps, store.toClaims(row), accessSeconds),
    refreshToken: await newRefreshToken(deps, { sessionId: row.id, generation: row.generation }),
    tokenType: 'Bearer',
    expiresInSeconds: accessSeconds,
    sessionId: row.id,
  }
}

/** A session that did not begin, for its user or a condition did not hold; and whether the first condition did. */
export interface NoSession {
  tokens: null
  firstHeld: boolean
}

/** Begins a session and emits `user.signed_in` where there is a method, in one statement together with `extraWrites`. */
export async function startSessionWith(
  deps: Deps,
  input: SignIn,
  extraWrites: store.ExtraWrites | undefined,
): Promise<{ tokens: Tokens } | NoSession> {
  const { tenantId, appId, userId, caller, origin } = input
  const now = deps.now()
  const row = {
    tenant_id: tenantId,
    id: newId('ses'),
    app_id: appId,
    user_id: userId,
    amr: input.amr,
    signed_in_at: now,
    ends_at: input.endsAt ?? null,
    is_new_user: input.isNewUser ?? false,
    user_agent: origin.userAgent,
    address: origin.address,
  }
  const data = { userId, method: input.method, sessionId: row.id }
  const event =
    input.method === null
      ? null
      : newEvent(now, { tenantId, appId, type: 'user.signed_in', data, cause: { caller, origin } })
  const { accessSeconds, firstHeld } = await store.insertSession(
    deps.db,
    row,
    event,
    (condition) => deps.hooks.userSeen({ tenantId, userId, at: now }, condition),
    extraWrites,
  )
  if (accessSeconds === null) return { tokens: null, firstHeld }
  if (event !== null) deps.db.afterCommit(deps.wake.outbox)
  return { tokens: await tokensOf(deps, { ...row, generation: 0 }, accessSeconds) }
}

/** The same with nothing beside it. @throws user_suspended */
export async function startSession(deps: Deps, input: SignIn): Promise<Tokens> {
  const { tokens } = await startSessionWith(deps, input, undefined)
  if (tokens === null) throw fail('user_suspended')
  return tokens
}

/**
 * Ends a user's sessions, or one of them. Their access tokens are refused: here once it has committed, elsewhere within a
 * second. @returns those that this ended
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

/** Ends all sessions of a user, in the transaction that takes away the right to them: its event stands for all. */
export async function endSessionsOf(tx: Db, deps: Deps, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  await end(tx, deps, tenantId, userId, null)
}

/** Ends a user's sessions, or one of them, with an event each. @returns those that this ended */
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

/** Why a refresh token that we made does not move its session on. */
async function judge(deps: Deps, call: Call, sessionId: Id<'ses'>, generation: number): Promise<Tokens> {
  const { caller } = call
  const now = deps.now()
  return deps.db.tx(async (tx) => {
    const row = await store.classifyRefresh(tx, caller.tenantId, sessionId, caller.appId, now)
    // A later generation than the stored one: the database is older than the token, for example after a restore.
    if (row === undefined || generation > row.generation) throw fail('session_invalid')
    if (row.user_status === 'suspended') throw fail('user_suspended')
    if (row.guest_over) throw fail('guest_expired')
    if (row.revoked_at !== null) throw fail('session_revoked')
    if (row.expires_at <= now) throw fail('session_expired')
    const lost = generation === row.generation - 1 && now.getTime() - row.refreshed_at.getTime() <= GRACE_MS
    if (lost) return tokensOf(deps, row, row.access_seconds)
    await revokeSessions({ ...deps, db: tx }, call, row.user_id, row.id, 'session.reuse_detected')
    throw fail('session_revoked').commitOnThrow()
  })
}

/**
 * Trades a refresh token for its successor and a new access token. A repeat within 30 seconds, while the successor is
 * unused, gets the same successor; any other repeat ends the session and emits `session.reuse_detected`.
 * @throws session_invalid, session_expired, session_revoked, user_suspended, guest_expired
 */
export async function refresh(deps: Deps, call: Call, refreshToken: string): Promise<Tokens> {
  const { caller } = call
  const claims = await readRefreshToken(deps, refreshToken)
  if (claims === null) throw fail('session_invalid')
  const { sessionId, generation } = claims
  const row = await store.advanceSession(deps.db, caller.tenantId, sessionId, caller.appId, generation, deps.now())
  return row === undefined ? judge(deps, call, sessionId, generation) : tokensOf(deps, row, row.access_seconds)
}

/** Moves a live session on to new tokens: what was handed out before gives way. Undefined for one that has ended. */
export async function renewSession(
  deps: Deps,
  tenantId: Id<'ten'>,
  sessionId: Id<'ses'>,
): Promise<{ tokens: Tokens; userId: Id<'usr'>; isNewUser: boolean } | undefined> {
  const now = deps.now()
  const before = await store.classifyRefresh(deps.db, tenantId, sessionId, null, now)
  if (before === undefined) return undefined
  const row = await store.advanceSession(deps.db, tenantId, sessionId, null, before.generation, now)
  if (row === undefined) return undefined
  return { tokens: await tokensOf(deps, row, row.access_seconds), userId: row.user_id, isNewUser: row.is_new_user }
}

/**
 * Turns a guest's session into a user's, as fresh as a sign-in: all of the user's sessions lose the guest's end, and this
 * one, if there is one, gets new tokens. In the transaction that converts the guest.
 */
export async function confirmSession(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  sessionId: Id<'ses'> | null,
): Promise<Tokens | undefined> {
  await store.unboundSessions(tx, tenantId, userId)
  if (sessionId === null) return undefined
  const row = await store.confirmSession(tx, tenantId, sessionId, deps.now())
  return row && tokensOf(deps, row, row.access_seconds)
}

/** Ends the session that calls, or, with `everywhere` or where a server acts for the user, all of the user's. */
export async function logOut(deps: Deps, call: UserCall, everywhere: boolean): Promise<{ revoked: number }> {
  const ended = await revokeSessions(deps, call, call.user.id, everywhere ? null : call.user.sessionId)
  return { revoked: ended.length }
}

/** A page of a user's live sessions, newest first. */
export async function listSessions(
  deps: Deps,
  tenantId: Id<'ten'>,
  user: Pick<CurrentUser, 'id' | 'sessionId'>,
  query: ListSessions,
): Promise<Page<Session>> {
  return store.listSessions(deps.db, tenantId, user, deps.now(), query)
}

/** The id of a user, or a guest, whom the key sees. @throws not_found */
export async function ownUser(deps: Deps, caller: Caller, id: string): Promise<Id<'usr'>> {
  const userId = pathId('usr', id)
  if (!(await store.hasUser(deps.db, caller, userId))) throw fail('not_found')
  return userId
}

/** A user's live sessions for a developer, newest first. @throws not_found */
export async function listSessionsOf(
  deps: Deps,
  caller: Caller,
  userId: string,
  query: ListSessions,
): Promise<Page<Session>> {
  const id = await ownUser(deps, caller, userId)
  return listSessions(deps, caller.tenantId, { id, sessionId: null }, query)
}

/** Ends one of the current user's sessions; one that has ended is answered as it is. @throws not_found */
export async function endSession(deps: Deps, call: UserCall, id: string): Promise<Session> {
  const { tenantId } = call.caller
  const row = existing(await store.findSession(deps.db, tenantId, call.user.id, pathId('ses', id)))
  const [ended] = await revokeSessions(deps, call, call.user.id, row.id)
  return store.toSession(ended ?? row, deps.now(), call.user.sessionId)
}
