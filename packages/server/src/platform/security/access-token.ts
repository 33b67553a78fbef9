import { randomUUID } from 'node:crypto'
import { errors, exportJWK, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import { publicUrl } from '../config.ts'
import type { Deps } from '../deps.ts'
import { fail } from '../http/errors.ts'
import { type Id, isId } from '../ids.ts'
import { sha256 } from './crypto.ts'
import { claimsToSign, unsignedAnswer, unsignedText } from './signers/unsigned-token.ts'
import type { SigningKey, SigningKeys } from './signing-keys.ts'

/** What an access token says (RFC 9068, with `amr` and `auth_time` of OpenID Connect). */
export interface AccessClaims {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
  sessionId: Id<'ses'>
  /** Authentication methods (RFC 8176). */
  amr: readonly string[]
  signedInAt: Date
  /** When a guest's session ends; null for users. */
  endsAt: Date | null
}

const ALGORITHM = 'EdDSA'
const TOKEN_CHARS_MAX = 4096

/** A list of one would do as text. */
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

const seconds = (date: Date) => Math.floor(date.getTime() / 1000)

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A JWT (RFC 7519) in the compact form of RFC 7515, section 7.1, over a payload in base64url. */
async function compact(key: SigningKey, payload: string): Promise<string> {
  const signed = `${encoded({ alg: ALGORITHM, kid: key.id, typ: 'at+jwt' })}.${payload}`
  return `${signed}.${(await key.sign(Buffer.from(signed))).toString('base64url')}`
}

/**
 * Signs the access token in an answer that waits for it, once no transaction is open any more. Every other text in it stays as it is.
 * @throws KeyServiceError, Error if it is not a token that Halfkey made just now for a session that has not ended
 */
export async function signTokens(deps: Deps, body: string): Promise<string> {
  const answer = unsignedAnswer(body)
  if (answer === null) return body
  const key = await deps.signingKeys.current()
  const payload = await claimsToSign(deps, key, answer.data.accessToken)
  return JSON.stringify({ ...answer, data: { ...answer.data, accessToken: await compact(key, payload) } })
}

/**
 * Makes an access token. It is signed in this thread, because a signature takes less time than a round trip to another thread,
 * which a library on WebCrypto needs. Where the key is in a module outside, a text comes instead that `signTokens` turns into
 * the token: the caller may be in a transaction, which must not wait for a module.
 */
export async function signAccessToken(deps: Deps, claims: AccessClaims, lifetimeSeconds: number): Promise<string> {
  const key = await deps.signingKeys.current()
  const now = seconds(deps.now())
  const payload = {
    iss: publicUrl(deps.config),
    sub: claims.userId,
    aud: claims.appId,
    client_id: claims.appId,
    iat: now,
    exp: now + lifetimeSeconds,
    jti: randomUUID(),
    tid: claims.tenantId,
    sid: claims.sessionId,
    amr: claims.amr,
    auth_time: seconds(claims.signedInAt),
    ...(claims.endsAt === null ? {} : { ends: seconds(claims.endsAt) }),
  }
  const text = encoded(payload)
  if (!key.isRemote) return compact(key, text)
  return unsignedText(key, text)
}

/** What the signature of a token vouches for, and by which key. */
interface Verified {
  claims: AccessClaims
  kid: string
  /** Unix seconds. */
  exp: number
}

/** Of the tokens that come again and again within their quarter of an hour, as many as fit into some megabytes. */
const REMEMBERED_MAX = 10_000
/** By SHA-256 of the token. A signature costs more than the rest of a read. */
const remembered = new WeakMap<SigningKeys, LRUCache<string, Verified>>()

function rememberedBy({ signingKeys }: Deps): LRUCache<string, Verified> {
  const known = remembered.get(signingKeys) ?? new LRUCache<string, Verified>({ max: REMEMBERED_MAX })
  remembered.set(signingKeys, known)
  return known
}

function claimsOf(payload: object): AccessClaims {
  const { tid, aud, sub, sid, amr, auth_time: authTime, ends } = payload as Record<string, unknown>
  const claims = { tid: textOf(tid), aud: textOf(aud), sub: textOf(sub), sid: textOf(sid) }
  if (!isId('ten', claims.tid) || !isId('app', claims.aud) || !isId('usr', claims.sub) || !isId('ses', claims.sid))
    throw fail('session_invalid')
  return {
    tenantId: claims.tid,
    appId: claims.aud,
    userId: claims.sub,
    sessionId: claims.sid,
    amr: amr as string[],
    signedInAt: new Date(Number(authTime) * 1000),
    endsAt: ends === undefined ? null : new Date(Number(ends) * 1000),
  }
}

/** Checks everything about a token, but whether its key has retired. @throws session_invalid, session_expired */
async function verify(deps: Deps, token: string): Promise<Verified> {
  try {
    const { payload, protectedHeader } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = typeof kid === 'string' ? await deps.signingKeys.find(kid) : undefined
        if (key === undefined) throw fail('session_invalid')
        return key.publicKey
      },
      {
        algorithms: [ALGORITHM],
        typ: 'at+jwt',
        issuer: publicUrl(deps.config),
        requiredClaims: ['sub', 'aud', 'exp', 'iat', 'sid', 'tid', 'auth_time'],
        currentDate: deps.now(),
      },
    )
    return { claims: claimsOf(payload), kid: String(protectedHeader.kid), exp: Number(payload.exp) }
  } catch (error) {
    if (error instanceof errors.JWTExpired) throw fail('session_expired')
    if (error instanceof errors.JOSEError || error instanceof TypeError) throw fail('session_invalid')
    throw error
  }
}

/**
 * The claims of a token, if Halfkey signed it and it has not expired. Its signature is verified once, its key and its time at each call.
 * Does not query the database: the caller checks whether its session was revoked. @throws session_invalid, session_expired
 */
export async function verifyAccessToken(deps: Deps, token: string): Promise<AccessClaims> {
  if (token.length > TOKEN_CHARS_MAX) throw fail('session_invalid')
  const known = rememberedBy(deps)
  const hash = sha256(token).toString('base64')
  const verified = known.get(hash) ?? (await verify(deps, token))
  const { claims, kid, exp } = verified
  const key = await deps.signingKeys.find(kid)
  if (key === undefined) throw fail('session_invalid')
  const now = deps.now()
  if (exp <= seconds(now)) throw fail('session_expired')
  // Tokens of a retired key have all expired, and expired tokens were reported above. This one cannot be genuine.
  if (key.retiresAtMs !== null && key.retiresAtMs <= now.getTime()) throw fail('session_invalid')
  known.set(hash, verified)
  return claims
}

/** The public keys that verify access tokens: a JWK Set (RFC 7517; RFC 8037 for the curve). */
export async function jwkSet(deps: Deps): Promise<{ keys: object[] }> {
  const published = await deps.signingKeys.published()
  const keys = published.map(async ({ id, publicKey }) => ({
    ...(await exportJWK(publicKey)),
    kid: id,
    alg: ALGORITHM,
    use: 'sig',
  }))
  return { keys: await Promise.all(keys) }
}
