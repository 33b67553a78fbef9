import type { KeyObject } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { equalSecrets, hmacSha256 } from '../../platform/security/crypto.ts'

/** The session of a refresh token, and its generation number in that session. */
export interface RefreshClaims {
  sessionId: Id<'ses'>
  generation: number
}

/** The claims of a token that was read, and the signing key that it was made by. */
export interface ReadRefreshToken extends RefreshClaims {
  keyId: string
}

const PREFIX = 'hk_rt_'
const FORM = /^hk_rt_([A-Za-z0-9_-]{16})\.(ses_[0-9a-z]{26})\.(\d{1,9})\.([A-Za-z0-9_-]{43})$/

function mac(key: KeyObject, sessionId: string, generation: number): Buffer {
  return Buffer.from(hmacSha256(key, `halfkey/v1/refresh ${sessionId} ${generation}`, 'base64'), 'base64')
}

/**
 * A session's refresh token of a generation: key id, session, generation and an HMAC over them. Because it is derived, no
 * token is stored, the next token can be returned again, and a token that was used long ago (a theft) can be told from an
 * invented one (nothing).
 */
export async function newRefreshToken(deps: Deps, { sessionId, generation }: RefreshClaims): Promise<string> {
  const key = await deps.signingKeys.current()
  return `${PREFIX}${key.id}.${sessionId}.${generation}.${mac(key.refreshKey, sessionId, generation).toString('base64url')}`
}

/** The claims of a refresh token. Null if this service did not create the token. */
export async function readRefreshToken(deps: Deps, token: string): Promise<ReadRefreshToken | null> {
  const [, keyId, sessionId, digits, tag] = FORM.exec(token) ?? []
  if (keyId === undefined || sessionId === undefined || tag === undefined || !isId('ses', sessionId)) return null
  const key = await deps.signingKeys.find(keyId)
  const generation = Number(digits)
  if (key === undefined || String(generation) !== digits) return null
  const made = mac(key.refreshKey, sessionId, generation)
  const given = Buffer.from(tag, 'base64url')
  // Several texts decode to the same bytes; only the canonical one is valid.
  if (given.toString('base64url') !== tag || !equalSecrets(made, given)) return null
  return { sessionId, generation, keyId }
}
