import { pageCaller } from '../../../identity/sign-in/service.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { publish } from '../../../platform/events/events.ts'
import { equalSecrets, sha256 } from '../../../platform/security/crypto.ts'
import type { LiveRow } from '../../store.ts'
import { DETAILS_TYPE } from '../place.ts'
import { endConnection, INVALID, liveSession, type Refused, refuse, type TokenCall } from './connection.ts'
import type { AgentTokenRow } from './record.ts'
import { lockToken, useToken } from './store.ts'
import {
  createAccessToken,
  hasForm,
  keepRefreshToken,
  type OpenConnection,
  openToken,
  refreshTokenAfter,
} from './tokens.ts'

/** How long a used refresh token still returns the next one, in case the response was lost or two calls refreshed at once. */
const GRACE_MS = 30_000

/** RFC 6749, section 5.1, with what was granted (RFC 9396, section 7). */
export interface Granted {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  refresh_token: string
  authorization_details: object[]
}

async function grant(
  tx: Db,
  deps: Deps,
  connection: OpenConnection,
  session: LiveRow,
  refreshToken: string,
): Promise<Granted> {
  const { accessToken, expiresInSeconds } = await createAccessToken(tx, deps, connection, session.expires_at)
  return {
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: expiresInSeconds,
    refresh_token: refreshToken,
    authorization_details: [
      {
        type: DETAILS_TYPE,
        delegatedSessionId: session.id,
        policy: session.policy,
        maxUses: session.max_uses,
        expiresAt: session.expires_at.toISOString(),
      },
    ],
  }
}

const isAnswered = (row: AgentTokenRow, given: TokenCall['given']) =>
  row.client_id === given.get('client_id') &&
  row.redirect_uri === given.get('redirect_uri') &&
  equalSecrets(
    Buffer.from(sha256(given.get('code_verifier') ?? '').toString('base64url')),
    Buffer.from(row.code_challenge ?? ''),
  )

/**
 * Exchanges a code (RFC 6749, section 4.1.3). A code that is used twice, too late, or with a wrong verifier, redirect or client, ends the
 * session: nobody who should have it will come.
 */
export async function exchangeCode(deps: Deps, call: TokenCall): Promise<Granted | Refused> {
  const code = call.given.get('code')
  if (!hasForm('code', code)) return INVALID
  return deps.db.tx(async (tx) => {
    const row = await lockToken(tx, call, 'code', sha256(code))
    if (row === undefined) return INVALID
    const connection = openToken(row, code)
    if (row.used_at !== null || row.expires_at <= deps.now() || !isAnswered(row, call.given)) {
      await useToken(tx, row, deps.now())
      await endConnection(tx, deps, call, connection)
      return INVALID
    }
    const session = await liveSession(tx, deps, connection)
    if ('error' in session) return session
    await useToken(tx, row, deps.now())
    const refreshToken = refreshTokenAfter(code, connection)
    await keepRefreshToken(tx, refreshToken, connection, session.expires_at)
    const { id: delegatedSessionId, user_id: userId, wallet_id: walletId, name } = session
    const data = { delegatedSessionId, userId, walletId, clientId: row.client_id, name }
    const cause = { caller: pageCaller(call.tenantId, call.appId), origin: call.origin }
    await publish(tx, deps, { tenantId: call.tenantId, appId: call.appId, type: 'agent.connected', data, cause })
    return grant(tx, deps, connection, session, refreshToken)
  })
}

/** The next refresh token, if the one before it may be repeated: it was used a moment ago, and the next one never was. */
async function repeatable(tx: Db, deps: Deps, call: TokenCall, row: AgentTokenRow, next: string): Promise<boolean> {
  if (row.used_at === null || deps.now().getTime() - row.used_at.getTime() > GRACE_MS) return false
  const following = await lockToken(tx, call, 'refresh', sha256(next))
  return following !== undefined && following.used_at === null
}

/**
 * Exchanges a refresh token for the next one and a new access token. A repeat within 30 seconds, while the next token is unused, gets the
 * same next token. Any other repeat ends the session.
 */
export async function refreshConnection(deps: Deps, call: TokenCall): Promise<Granted | Refused> {
  const token = call.given.get('refresh_token')
  if (!hasForm('refresh', token)) return INVALID
  return deps.db.tx(async (tx) => {
    const row = await lockToken(tx, call, 'refresh', sha256(token))
    if (row === undefined || row.client_id !== call.given.get('client_id')) return INVALID
    if (row.expires_at <= deps.now()) return refuse('This connection has expired.')
    const connection = openToken(row, token)
    const next = refreshTokenAfter(token, connection)
    if (row.used_at !== null && !(await repeatable(tx, deps, call, row, next))) {
      await endConnection(tx, deps, call, connection)
      return INVALID
    }
    const session = await liveSession(tx, deps, connection)
    if ('error' in session) return session
    if (row.used_at === null) {
      await useToken(tx, row, deps.now())
      await keepRefreshToken(tx, next, connection, session.expires_at)
    }
    return grant(tx, deps, connection, session, next)
  })
}
