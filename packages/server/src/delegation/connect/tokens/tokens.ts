import { createSecretKey } from 'node:crypto'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import type { Id } from '../../../platform/ids.ts'
import { type AgentTokenKind, isAgentToken, newAgentToken } from '../../../platform/security/api-key.ts'
import { decrypt, encrypt, hmacSha256Bytes, sha256 } from '../../../platform/security/crypto.ts'
import type { AgentTokenRow } from './record.ts'
import { findAccessToken, insertToken } from './store.ts'

export { deleteOldAgentTokens } from './store.ts'

/** How long a client has to exchange a code. */
const CODE_MS = 60_000
/** How long an access token counts. */
const ACCESS_MS = 15 * 60_000

const BOX_KEY = 'halfkey/v1/agent-token-box'
const NEXT_REFRESH = 'halfkey/v1/agent-refresh '

const hmac = (secret: string, text: string): Buffer => hmacSha256Bytes(createSecretKey(Buffer.from(secret)), text)

/** Whose a box is: it opens in no other row. */
const boundTo = ({
  tenant_id,
  kind,
  delegated_session_id,
}: Pick<AgentTokenRow, 'tenant_id' | 'kind' | 'delegated_session_id'>) =>
  Buffer.from(JSON.stringify([tenant_id, kind, delegated_session_id]))

/** What a connection is, and what its client repeats. */
type Connection = Pick<AgentTokenRow, 'tenant_id' | 'app_id' | 'delegated_session_id' | 'client_id'>

/** A connection with the token of its delegated session, which never leaves the service. */
export interface OpenConnection extends Connection {
  sessionToken: string
}

/**
 * The row of a code or token. The session's token is encrypted under a key that follows from it, so the database alone, even with
 * the key-encryption key, does not have it.
 */
function rowOf(
  token: string,
  { sessionToken, ...connection }: OpenConnection,
  what: Pick<AgentTokenRow, 'kind' | 'expires_at'> & Partial<Pick<AgentTokenRow, 'redirect_uri' | 'code_challenge'>>,
): Omit<AgentTokenRow, 'mac'> {
  const { tenant_id, app_id, delegated_session_id, client_id } = connection
  const of = { tenant_id, kind: what.kind, delegated_session_id }
  return {
    tenant_id,
    app_id,
    delegated_session_id,
    client_id,
    redirect_uri: null,
    code_challenge: null,
    ...what,
    hash: sha256(token),
    box: encrypt(hmac(token, BOX_KEY), Buffer.from(sessionToken), boundTo(of)),
    used_at: null,
  }
}

/** The connection of a code or token that was given out. */
export function openToken(row: AgentTokenRow, token: string): OpenConnection {
  const { tenant_id, app_id, delegated_session_id, client_id } = row
  const sessionToken = decrypt(hmac(token, BOX_KEY), row.box, boundTo(row)).toString()
  return { tenant_id, app_id, delegated_session_id, client_id, sessionToken }
}

/** Makes the code for a session that has just been created. */
export async function createCode(
  db: Db,
  { now }: Pick<Deps, 'now'>,
  connection: OpenConnection,
  of: { redirectUri: string; codeChallenge: string },
): Promise<string> {
  const code = newAgentToken('code')
  const expires_at = new Date(now().getTime() + CODE_MS)
  const bound = { redirect_uri: of.redirectUri, code_challenge: of.codeChallenge }
  await insertToken(db, rowOf(code, connection, { kind: 'code', expires_at, ...bound }))
  return code
}

/** An access token of a connection, and how long it counts: never longer than its session. */
export async function createAccessToken(
  db: Db,
  { now }: Pick<Deps, 'now'>,
  connection: OpenConnection,
  sessionEnds: Date,
): Promise<{ accessToken: string; expiresInSeconds: number }> {
  const at = now().getTime()
  const expires_at = new Date(Math.min(at + ACCESS_MS, sessionEnds.getTime()))
  const accessToken = newAgentToken('access')
  await insertToken(db, rowOf(accessToken, connection, { kind: 'access', expires_at }))
  return { accessToken, expiresInSeconds: Math.floor((expires_at.getTime() - at) / 1000) }
}

/**
 * The refresh token that follows another one, or the code. It is derived, so that a client whose answer was lost gets the same one
 * again; with the session's token, so that nobody derives it from an old one.
 */
export const refreshTokenAfter = (previous: string, { sessionToken }: OpenConnection): string =>
  newAgentToken('refresh', hmac(sessionToken, NEXT_REFRESH + sha256(previous).toString('hex')))

/** Stores a refresh token of a connection. It counts as long as its session. */
export const keepRefreshToken = (db: Db, token: string, connection: OpenConnection, sessionEnds: Date): Promise<void> =>
  insertToken(db, rowOf(token, connection, { kind: 'refresh', expires_at: sessionEnds }))

/** Whether a text can be a code or token of this kind. */
export const hasForm = (kind: AgentTokenKind, text: string | undefined): text is string =>
  text !== undefined && isAgentToken(kind, text)

/** The session's token that an access token stands for at an app's `/mcp`; undefined if it does not count there. */
export async function sessionTokenFor(deps: Deps, appId: string, accessToken: string): Promise<string | undefined> {
  if (!isAgentToken('access', accessToken)) return undefined
  const row = await findAccessToken(deps.db, sha256(accessToken))
  if (row === undefined || row.app_id !== (appId as Id<'app'>) || row.expires_at <= deps.now()) return undefined
  return openToken(row, accessToken).sessionToken
}
