import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { revokeSessions } from './end.ts'
import { readRefreshToken } from './refresh-token-format.ts'
import type { Tokens } from './schema.ts'
import { tokensOf } from './start.ts'
import * as store from './store.ts'

/** How long a used refresh token still returns the next one, in case the response was lost. */
const GRACE_MS = 30_000

/** Handles a valid refresh token that is not the newest of its session, or whose session may not continue. */
async function refreshOutOfTurn(deps: Deps, call: Call, sessionId: Id<'ses'>, generation: number): Promise<Tokens> {
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
 * Exchanges a refresh token for the next one and a new access token. A repeat within 30 seconds, while the next token is
 * unused, gets the same next token. Any other repeat ends the session and emits `session.reuse_detected`.
 * @throws session_invalid, session_expired, session_revoked, user_suspended, guest_expired
 */
export async function refresh(deps: Deps, call: Call, refreshToken: string): Promise<Tokens> {
  const { caller } = call
  const claims = await readRefreshToken(deps, refreshToken)
  if (claims === null) throw fail('session_invalid')
  const { sessionId, generation, keyId } = claims
  const row = await store.advanceSession(deps.db, caller.tenantId, sessionId, caller.appId, generation, deps.now())
  const tokens =
    row === undefined
      ? await refreshOutOfTurn(deps, call, sessionId, generation)
      : await tokensOf(deps, row, row.access_seconds)
  if (!(await stillCounts(deps, keyId))) throw fail('session_invalid')
  return tokens
}

/**
 * Whether a signing key was not revoked while tokens were made for what it stands for. Its successor may have signed them: they would
 * outlive it.
 */
export const stillCounts = async ({ signingKeys }: Pick<Deps, 'signingKeys'>, keyId: string): Promise<boolean> =>
  (await signingKeys.find(keyId)) !== undefined

/** Gives an active session new tokens, which replace the earlier ones. Undefined if the session has ended. */
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
