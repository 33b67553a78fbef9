import { pageCaller } from '../../../identity/sign-in/service.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import type { OfApp } from '../../../platform/hooks.ts'
import { HttpError } from '../../../platform/http/errors.ts'
import type { Origin } from '../../../platform/http/route.ts'
import { equalSecrets, sha256 } from '../../../platform/security/crypto.ts'
import { revokeDelegatedSession } from '../../manage/revoke.ts'
import { requireLive, statusOf as sessionStatusOf } from '../../session.ts'
import { findLive, type LiveRow } from '../../store.ts'
import { lockToken } from './store.ts'
import { hasForm, type OpenConnection, openToken } from './tokens.ts'

/** A client's call, at an endpoint of an app for tokens. */
export interface TokenCall extends OfApp {
  origin: Origin
  /** The parameters of the body. */
  given: ReadonlyMap<string, string>
}

/** RFC 6749, section 5.2. */
export interface Refused {
  error: 'invalid_request' | 'invalid_client' | 'invalid_grant' | 'unsupported_grant_type' | 'invalid_target'
  description: string
}

/** What a code or token refuses (RFC 6749, section 5.2). */
export const refuse = (description: string): Refused => ({ error: 'invalid_grant', description })

export const INVALID = refuse('This code or token is not valid, or is not for this client.')

/**
 * The session of a connection while it can act; else why it cannot. Called in the transaction that gives out tokens, and not locked: a
 * session that ends meanwhile ends them too.
 */
export async function liveSession(db: Db, deps: Deps, connection: OpenConnection): Promise<LiveRow | Refused> {
  const reach = { tenantId: connection.tenant_id, appId: connection.app_id }
  const row = await findLive(db, deps.now(), reach, connection.delegated_session_id)
  if (row === undefined || !equalSecrets(row.token_hash, sha256(connection.sessionToken))) return INVALID
  try {
    requireLive(row, deps.now())
  } catch (error) {
    if (error instanceof HttpError && error.status < 500) return refuse(error.message)
    throw error
  }
  return row
}

/** Ends a connection with its session: its client says so, or somebody has a code or token who should not. */
export async function endConnection(
  tx: Db,
  deps: Deps,
  { tenantId, appId, origin }: TokenCall,
  connection: OpenConnection,
): Promise<void> {
  const caller = pageCaller(tenantId, appId)
  const delegate = { tokenHash: sha256(connection.sessionToken), jkt: null }
  const call = { caller, origin, user: null, delegate }
  const { delegated_session_id: target } = connection
  await recordAuditOnly(tx, deps, { tenantId, appId, action: 'agent.connection_ended', target, cause: call })
  await revokeDelegatedSession({ ...deps, db: tx }, call, target)
}

/**
 * Ends the connection of an access or refresh token (RFC 7009, section 2.1): all its tokens go, because the connection is one session. A
 * token that does not count any more is not an error.
 */
export async function revokeConnection(deps: Deps, call: TokenCall): Promise<Refused | null> {
  const token = call.given.get('token')
  const kind = (['refresh', 'access'] as const).find((each) => hasForm(each, token))
  if (kind === undefined || token === undefined) return null
  return deps.db.tx(async (tx) => {
    const row = await lockToken(tx, call, kind, sha256(token))
    if (row === undefined || row.expires_at <= deps.now()) return null
    if (row.client_id !== call.given.get('client_id')) return refuse('This token is for another client.')
    const connection = openToken(row, token)
    const { tenantId, appId } = call
    const session = await findLive(tx, deps.now(), { tenantId, appId }, connection.delegated_session_id)
    // Also one that cannot act now, as its wallet is frozen or its user suspended: it could again.
    if (session !== undefined && sessionStatusOf(session, deps.now()) === 'active')
      await endConnection(tx, deps, call, connection)
    return null
  })
}
