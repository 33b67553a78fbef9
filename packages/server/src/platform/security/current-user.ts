import { sql } from '../db/db.ts'
import type { Deps } from '../deps.ts'
import { fail, invalid, notFoundField } from '../http/errors.ts'
import type { Caller, CurrentUser, Delegate, UserUse } from '../http/route.ts'
import { isId } from '../ids.ts'
import { type AccessClaims, verifyAccessToken } from './access-token.ts'
import { allows, delegateTokenHash } from './api-key.ts'
import type { KeyHolder } from './authenticator.ts'
import { addressesOf, proofInvalid, verifyProof } from './dpop/proof.ts'
import { guestOver } from './guest-over.ts'
import { readJoined } from './records/access.ts'
import { recordColumns } from './records/kind.ts'
import { USER_RECORD } from './records/user-record.ts'
import { USER_SESSION_RECORD } from './records/user-session-record.ts'

/** The headers that say which user a call acts for. */
export interface UserHeaders {
  authorization?: string | undefined
  'x-user-id'?: string | string[] | undefined
  /** A proof of possession of a delegated session's key. */
  dpop?: string | string[] | undefined
}

/** A request, as far as it says for whom it acts. */
interface ActingRequest {
  headers: UserHeaders
  method: string
  /** As received, without the query. */
  path: string
  /** base64url of SHA-256 of the body as received, where a proof came with it; null without a body. */
  bodyHash: string | null
}

/** Checks a session that may have ended. @returns whether its guest has ended @throws session_revoked, user_suspended */
async function isOver(deps: Deps, claims: AccessClaims): Promise<boolean> {
  const row = await readJoined<{ revoked: boolean; status: string; guestOver: boolean }>(
    deps.db,
    [USER_SESSION_RECORD, USER_RECORD],
    sql`
    select s.revoked_at is not null as revoked, u.status, ${guestOver(deps.now())} as "guestOver",
      ${recordColumns(USER_SESSION_RECORD, 's')}, ${recordColumns(USER_RECORD, 'u')}
    from sessions s join users u on u.tenant_id = s.tenant_id and u.id = s.user_id
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where s.tenant_id = ${claims.tenantId} and s.id = ${claims.sessionId}`,
  )
  if (row === undefined) throw fail('session_revoked')
  if (row.status === 'suspended') throw fail('user_suspended')
  if (row.guestOver) return true
  if (row.revoked) throw fail('session_revoked')
  return false
}

async function byToken(deps: Deps, caller: Caller, token: string): Promise<CurrentUser> {
  const claims = await verifyAccessToken(deps, token)
  // The key cannot see users of another app or tenant.
  if (claims.tenantId !== caller.tenantId || (caller.appId !== null && claims.appId !== caller.appId))
    throw fail('not_found')
  const suspect =
    (claims.endsAt !== null && claims.endsAt <= deps.now()) ||
    (await deps.revocations.has(claims.tenantId, claims.sessionId))
  return {
    id: claims.userId,
    appId: claims.appId,
    sessionId: claims.sessionId,
    ended: suspect && (await isOver(deps, claims)),
  }
}

async function byId(deps: Deps, caller: Caller, id: string): Promise<CurrentUser> {
  const row = isId('usr', id)
    ? await readJoined<CurrentUser & { status: string }>(
        deps.db,
        [USER_RECORD],
        sql`
        select u.id, u.app_id as "appId", null as "sessionId", u.status, ${guestOver(deps.now())} as ended, ${recordColumns(USER_RECORD, 'u')}
        from users u left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
        where u.tenant_id = ${caller.tenantId} and u.id = ${id} and (${caller.appId}::text is null or u.app_id = ${caller.appId})`,
      )
    : undefined
  if (row === undefined) throw notFoundField('x-user-id')
  if (row.status === 'suspended') throw fail('user_suspended')
  return { id: row.id, appId: row.appId, sessionId: null, ended: row.ended }
}

function bearerOf(authorization: string): string {
  const token = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1]
  if (token === undefined) throw fail('session_invalid')
  return token
}

/** A token of a delegated session as an `Authorization` header has it. */
interface DelegateToken {
  token: string
  hash: Buffer
  /** It comes with a proof of possession: the scheme is `DPoP` instead of `Bearer`. */
  proven: boolean
}

/** The delegated session's token in an `Authorization` header, of either scheme. @throws session_invalid */
export function delegateTokenOf(authorization: string): DelegateToken {
  const [, scheme, token] = /^(Bearer|DPoP) +([A-Za-z0-9]+_[A-Za-z0-9]+)$/i.exec(authorization) ?? []
  const hash = token === undefined ? null : delegateTokenHash(token)
  if (token === undefined || hash === null) throw fail('session_invalid')
  return { token, hash, proven: scheme?.toLowerCase() === 'dpop' }
}

/**
 * The delegated session that calls. A proof is verified and used up, but whether its key is that of the session is for whoever
 * reads the session's record. @throws session_invalid, dpop_proof_invalid
 */
async function delegateOf(deps: Deps, holder: KeyHolder, request: ActingRequest): Promise<Delegate> {
  const { authorization = '', dpop } = request.headers
  const { token, hash, proven } = delegateTokenOf(authorization)
  if (!proven) {
    // Whoever sends a proof relies on it.
    if (dpop !== undefined) throw proofInvalid('scheme')
    return { tokenHash: hash, jkt: null }
  }
  const { method, path, bodyHash } = request
  const isOurs = addressesOf(deps.config, holder.domainOrigins)
  const proof = await verifyProof({ method, path, bodyHash, proof: dpop, isOurs }, token, deps.now())
  await deps.hooks.proofSent(deps, { ...proof, tenantId: holder.tenantId, tokenHash: hash })
  return { tokenHash: hash, jkt: proof.jkt }
}

/** What to do about a missing one. */
export const SEND_DELEGATE_TOKEN = "Send the delegated session's token (`dst_…`) as `Authorization: Bearer`."

/** Resolves the user or delegated session that a call acts for. Throws the errors of `resolveUser` and `delegateOf`. */
export async function resolveActor(
  deps: Deps,
  caller: KeyHolder,
  use: UserUse,
  request: ActingRequest,
): Promise<{ user: CurrentUser | null; delegate: Delegate | null }> {
  const { headers } = request
  const { authorization } = headers
  if (use === 'delegate' || use === 'delegate_only') {
    if (authorization !== undefined) return { user: null, delegate: await delegateOf(deps, caller, request) }
    if (use === 'delegate_only' || caller.keyType === 'publishable')
      throw fail('session_missing').about('authorization', SEND_DELEGATE_TOKEN)
    return { user: null, delegate: null }
  }
  if (use === 'owner_or_delegate') {
    if (caller.keyType === 'secret') return { user: null, delegate: null }
    if (authorization !== undefined && /^(Bearer|DPoP) +dst_/i.test(authorization))
      return { user: null, delegate: await delegateOf(deps, caller, request) }
    return { user: await resolveUser(deps, caller, 'optional', headers), delegate: null }
  }
  return { user: await resolveUser(deps, caller, use, headers), delegate: null }
}

/**
 * Resolves the user that a call acts for: from an access token, or from a secret key and `x-user-id`.
 * @throws session_missing, session_invalid, session_expired, session_revoked (401), user_suspended (403), guest_expired (410)
 */
async function resolveUser(
  deps: Deps,
  caller: Caller,
  use: UserUse,
  headers: UserHeaders,
): Promise<CurrentUser | null> {
  if (use === 'ignored' || (use === 'own_guest' && caller.keyType === 'secret')) return null
  const { authorization, 'x-user-id': actAs } = headers
  if (actAs !== undefined) {
    if (caller.keyType !== 'secret') throw fail('key_type_not_allowed')
    if (authorization !== undefined)
      throw invalid('x-user-id', 'Must not be sent together with an access token. Send one of them.')
    if (!allows(caller.scopes, 'users:act_as'))
      throw fail('insufficient_scope', [
        { code: 'missing_scope', message: 'This call needs the scope users:act_as.', scope: 'users:act_as' },
      ])
  }
  let user: CurrentUser
  if (typeof actAs === 'string') user = await byId(deps, caller, actAs)
  else if (actAs !== undefined) throw invalid('x-user-id', 'Must be given only once.', 'repeated')
  else if (authorization !== undefined) user = await byToken(deps, caller, bearerOf(authorization))
  else if (use === 'required') throw fail('session_missing')
  else return null
  if (user.ended && use !== 'own_guest') throw fail('guest_expired')
  return user
}
