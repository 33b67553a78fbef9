import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { newEvent } from '../../platform/events/events.ts'
import { fail } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { signAccessToken } from '../../platform/security/access-token.ts'
import { requirePermit } from './before-create/require.ts'
import { newRefreshToken } from './refresh-token-format.ts'
import type { Tokens } from './schema.ts'
import * as store from './store.ts'

/** The input for starting a session. */
export interface SignIn extends Call {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
  /** Authentication methods (RFC 8176), and `guest`, `messenger`, `email`, `exchange`, `provider`, `wallet`. */
  amr: string[]
  /** The sign-in method in events and analytics. Null if a guest starts, which is not a sign-in of a user. */
  method: 'passkey' | 'messenger' | 'email' | 'exchange' | 'provider' | 'wallet' | null
  /**
   * Set if somebody else vouched for the user, such as an issuer or who runs their mailbox, or if what they showed may be another page's doing: the session is weak until the user shows a passkey or a second factor.
   * `mfaAt`: when they verified a second factor of their own; null if they do not say so.
   */
  vouched?: { mfaAt: Date | null }
  /** When the session of a guest ends at the latest. */
  endsAt?: Date | null
  /** Whether the sign-in created the user. */
  isNewUser?: boolean
}

type SessionParts = Parameters<typeof store.toClaims>[0] & Pick<store.SessionRow, 'generation'>

/** The tokens of a session at its current generation. */
export async function tokensOf(deps: Deps, row: SessionParts, accessSeconds: number): Promise<Tokens> {
  return {
    accessToken: await signAccessToken(deps, store.toClaims(row), accessSeconds),
    refreshToken: await newRefreshToken(deps, { sessionId: row.id, generation: row.generation }),
    tokenType: 'Bearer',
    expiresInSeconds: accessSeconds,
    sessionId: row.id,
  }
}

/** No session was started because of the user or a condition. `firstHeld`: whether the first condition held. */
export interface NoSession {
  tokens: null
  firstHeld: boolean
}

/**
 * Starts a session and, if there is a method, emits `user.signed_in`, in one statement together with `extraWrites`. Call it within
 * `permitting`. @throws SessionNeedsPermit before anything is written
 */
export async function startSessionWith(
  deps: Deps,
  input: SignIn,
  extraWrites: store.ExtraWrites | undefined,
): Promise<{ tokens: Tokens } | NoSession> {
  const { tenantId, appId, userId, caller, origin } = input
  await requirePermit(deps, input)
  const now = deps.now()
  const row = {
    tenant_id: tenantId,
    id: newId('ses'),
    app_id: appId,
    user_id: userId,
    amr: input.amr,
    signed_in_at: now,
    ends_at: input.endsAt ?? null,
    weak: input.vouched !== undefined,
    issuer_mfa_at: input.vouched?.mfaAt ?? null,
    passkey_at: input.method === 'passkey' ? now : null,
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
  return { tokens: await tokensOf(deps, { ...row, mfa_at: null, passkey_at: null, generation: 0 }, accessSeconds) }
}

/** The same without additional writes. @throws user_suspended */
export async function startSession(deps: Deps, input: SignIn): Promise<Tokens> {
  const { tokens } = await startSessionWith(deps, input, undefined)
  if (tokens === null) throw fail('user_suspended')
  return tokens
}

/**
 * Turns a guest's session into a user's, as fresh as a sign-in. All of the user's sessions lose the guest's end, and this
 * session, if given, gets new tokens. Call it in the transaction that converts the guest, within `permitting`.
 */
export async function confirmSession(
  tx: Db,
  deps: Deps,
  user: Pick<SignIn, 'tenantId' | 'appId' | 'userId' | 'caller' | 'origin'>,
  sessionId: Id<'ses'> | null,
): Promise<Tokens | undefined> {
  const { tenantId, userId } = user
  await requirePermit({ ...deps, db: tx }, { ...user, amr: ['guest'], method: null })
  await store.unboundSessions(tx, tenantId, userId)
  if (sessionId === null) return undefined
  const row = await store.confirmSession(tx, tenantId, sessionId, deps.now())
  return row && tokensOf(deps, row, row.access_seconds)
}
