import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import type { Deps } from '../../platform/deps.ts'
import { failures, type HttpError } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { type IssuerRow, trustedIssuer } from '../../tenancy/apps/issuers/service.ts'
import { claimAt, saysMfa, textAt } from './claims.ts'
import { issuerKeys, type KeyName, type KeySource } from './issuer-keys.ts'
import type { TokenUse } from './store.ts'

export { textAt } from './claims.ts'
export { deleteOldTokens, type TokenUse, tokenUsed, useToken } from './store.ts'

export const FOREIGN_TOKEN_ERRORS = {
  issuer_unavailable: [400, 'The keys of the issuer cannot be fetched at present. Retry in some seconds.'],
  token_invalid: [401, 'This token is not accepted. Its details say why.'],
} as const

const fail = failures(FOREIGN_TOKEN_ERRORS)

/** How far the clocks of the issuer and of this service may differ. */
const LEEWAY_SECONDS = 30
/** A used token is remembered this much longer than it is accepted, because the database's clock may differ. */
const MARGIN_MS = 3_600_000
const SUBJECT_CHARS_MAX = 255
const NAME_CHARS_MAX = 200
const EMAIL_CHARS_MAX = 320
const JTI_CHARS_MAX = 1_024
const KID_CHARS_MAX = 512

/** Members of a header that carry or locate a key: a key comes from the issuer's address and nowhere else (RFC 8725, section 3.10). */
const KEYS_IN_HEADER = ['jwk', 'jku', 'x5c', 'x5u'] as const

const JWT = 'urn:ietf:params:oauth:token-type:jwt'
const ACCESS = 'urn:ietf:params:oauth:token-type:access_token'
const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'

/**
 * What a token says that it is, by its `typ` (RFC 8725, section 3.11; RFC 9068, section 2.1), and as what it may be sent.
 * Tokens for other purposes, such as `logout+jwt` and `dpop+jwt`, are no sign-in.
 */
const TYPES: Readonly<Record<string, readonly string[] | 'any'>> = { '': 'any', jwt: 'any', 'at+jwt': [JWT, ACCESS] }

/** A token as it was sent. */
export interface SubjectToken {
  subject_token: string
  subject_token_type: string
}

/** The app at which a token is used. */
export interface OfApp {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** What a valid token says. */
export interface ForeignToken {
  issuer: IssuerRow
  subject: string
  /** Only one that the issuer has verified. */
  email: string | null
  name: string | null
  /** When the issuer verified a second factor; null if it does not say so. */
  mfaAt: Date | null
  /** Null for a token without a `jti`, which can be used again until it expires. */
  use: TokenUse | null
}

type Reason =
  | 'malformed'
  | 'type'
  | 'issuer'
  | 'algorithm'
  | 'key'
  | 'signature'
  | 'audience'
  | 'expired'
  | 'not_yet_valid'
  | 'claims'
  | 'nonce'
  | 'used'

const WORDS: Record<Reason, string> = {
  malformed: 'It is not a signed JWT in compact form, or its header has members that are not allowed.',
  type: 'Its `typ` is not that of an ID token or access token, or not of the type that was sent.',
  issuer: 'The app does not trust its issuer (`iss`).',
  algorithm: "Its algorithm is not among the issuer's `algorithms`.",
  key: 'The issuer has no key of this name for this algorithm.',
  signature: 'Its signature is not valid.',
  audience: "Its `aud` is not among the issuer's `audiences`.",
  expired: 'It has expired, or is older than `maxTokenAgeSeconds`.',
  not_yet_valid: 'It is not valid yet: `nbf` or `iat` is in the future.',
  claims: 'A claim is missing or not of its type: `exp`, `iat`, or what identifies the user.',
  nonce: 'Its `nonce` is not the SHA-256 of the nonce that was sent.',
  used: 'It was already used. Get a new one from the issuer.',
}

/** The refusal of a token, with its reason for the developer. */
export const tokenInvalid = (reason: Reason): HttpError =>
  fail('token_invalid', [{ field: 'subject_token', code: `token_${reason}`, message: WORDS[reason] }])

/** Whose token is expected, where its keys are, and for whom it may be. */
export type TokenSource = KeySource & Pick<IssuerRow, 'audiences' | 'max_token_age_seconds'>

interface Header extends KeyName {
  typ: string
}

/** The header, if it is of a kind that is accepted at all. Nothing in it is trusted. @throws token_invalid */
function readHeader(token: string): Header {
  let header: Record<string, unknown>
  try {
    header = decodeProtectedHeader(token) as Record<string, unknown>
  } catch {
    throw tokenInvalid('malformed')
  }
  const { alg, kid, typ = '' } = header
  const isPlain = header.crit === undefined && header.b64 === undefined && header.zip === undefined
  if (!isPlain || KEYS_IN_HEADER.some((name) => header[name] !== undefined)) throw tokenInvalid('malformed')
  if (typeof alg !== 'string' || typeof typ !== 'string') throw tokenInvalid('malformed')
  if (kid !== undefined && (typeof kid !== 'string' || kid.length > KID_CHARS_MAX)) throw tokenInvalid('malformed')
  return { alg, kid, typ: typ.toLowerCase().replace(/^application\//, '') }
}

function requireType({ typ }: Header, sentAs: string): void {
  const allowed = Object.hasOwn(TYPES, typ) ? TYPES[typ] : undefined
  if (allowed === undefined || (allowed !== 'any' && !allowed.includes(sentAs))) throw tokenInvalid('type')
}

/** The header and the issuer of a token, before anything in it is verified. @throws token_invalid */
async function inspect(deps: Deps, app: OfApp, sent: SubjectToken): Promise<{ header: Header; issuer: IssuerRow }> {
  const header = readHeader(sent.subject_token)
  requireType(header, sent.subject_token_type)
  let claims: JWTPayload
  try {
    claims = decodeJwt(sent.subject_token)
  } catch {
    throw tokenInvalid('malformed')
  }
  const issuer = typeof claims.iss === 'string' ? await trustedIssuer(deps, app, claims.iss) : undefined
  if (issuer === undefined || issuer.jit === 'refuse') throw tokenInvalid('issuer')
  if (!(issuer.algorithms as readonly string[]).includes(header.alg)) throw tokenInvalid('algorithm')
  return { header, issuer }
}

/**
 * Fetches the key that a token names, if it is not known: the step before the transaction that verifies it.
 * @throws token_invalid
 */
export async function prepareForeignToken(deps: Deps, app: OfApp, sent: SubjectToken): Promise<void> {
  const { header, issuer } = await inspect(deps, app, sent)
  await issuerKeys(deps).prepare(deps, issuer, header)
}

/** The reason for an error of the library. Undefined for one that says nothing about the token. */
function reasonOf(error: unknown): Reason | undefined {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === 'aud') return 'audience'
    const isEarly = error.reason === 'check_failed' && (error.claim === 'nbf' || error.claim === 'iat')
    return isEarly ? 'not_yet_valid' : 'claims'
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature'
  if (error instanceof errors.JOSEError || error instanceof TypeError) return 'malformed'
  return undefined
}

/** Verifies signature, issuer, audience and times. @throws token_invalid, issuer_unavailable */
async function verify(deps: Deps, token: string, header: Header, issuer: TokenSource): Promise<JWTPayload> {
  const key = issuerKeys(deps).find(issuer, header)
  if (key === 'unavailable') throw fail('issuer_unavailable')
  if (key === undefined) throw tokenInvalid('key')
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [header.alg],
      issuer: issuer.issuer,
      audience: issuer.audiences,
      requiredClaims: ['exp', 'iat'],
      maxTokenAge: issuer.max_token_age_seconds,
      clockTolerance: LEEWAY_SECONDS,
      currentDate: deps.now(),
    })
    return payload
  } catch (error) {
    const reason = reasonOf(error)
    if (reason === undefined) throw error
    throw tokenInvalid(reason)
  }
}

/** An ID token's header, if it is of a kind that is accepted at all. @throws token_invalid */
function readIdHeader(token: string): Header {
  const header = readHeader(token)
  requireType(header, ID_TOKEN)
  return header
}

/** Fetches the key that an ID token names, if it is not known: outside of any transaction. @throws token_invalid */
export async function prepareIdToken(deps: Deps, source: KeySource, token: string): Promise<void> {
  await issuerKeys(deps).prepare(deps, source, readIdHeader(token))
}

/**
 * Verifies signature, issuer, audience and times of an ID token (OpenID Connect Core, section 3.1.3.7), and that no other party
 * is authorized by it. Its key must be there: call `prepareIdToken` before. The nonce is for the caller to compare.
 * @throws token_invalid, issuer_unavailable
 */
export async function verifyIdToken(deps: Deps, source: TokenSource, token: string): Promise<JWTPayload> {
  const claims = await verify(deps, token, readIdHeader(token), source)
  if (claims.events !== undefined || claims.cnf !== undefined) throw tokenInvalid('type')
  const isForOthers = Array.isArray(claims.aud) && claims.aud.some((one) => !source.audiences.includes(one))
  if (isForOthers) throw tokenInvalid('audience')
  return claims
}

/** The token's single use. It is remembered for as long as the token would be accepted. */
function useOf({ tenantId, appId }: OfApp, issuer: IssuerRow, { jti, exp = 0, iat = 0 }: JWTPayload): TokenUse | null {
  if (jti === undefined) return null
  if (typeof jti !== 'string' || jti === '' || jti.length > JTI_CHARS_MAX) throw tokenInvalid('claims')
  const untilSeconds = Math.min(exp, iat + issuer.max_token_age_seconds) + LEEWAY_SECONDS
  const expiresAt = new Date(untilSeconds * 1000 + MARGIN_MS)
  return { tenantId, hash: sha256(JSON.stringify([appId, issuer.issuer, jti])), expiresAt }
}

const seconds = (value: unknown): number | undefined => (Number.isFinite(value) ? (value as number) : undefined)

/**
 * Verifies a token of an issuer that the app trusts (RFC 8725). Its key must be there: call `prepareForeignToken` before.
 * Does not use it up. @throws token_invalid, issuer_unavailable
 */
export async function verifyForeignToken(deps: Deps, app: OfApp, sent: SubjectToken): Promise<ForeignToken> {
  const { header, issuer } = await inspect(deps, app, sent)
  const claims = await verify(deps, sent.subject_token, header, issuer)
  // A token that ends sessions (OpenID Connect Back-Channel Logout), and one that only the holder of a key may use
  // (RFC 7800): nobody has shown that key here.
  if (claims.events !== undefined || claims.cnf !== undefined) throw tokenInvalid('type')
  const { claims: places, mfa_claim: mfaClaim } = issuer
  const subject = textAt(claims, places.sub, SUBJECT_CHARS_MAX)
  if (subject === undefined) throw tokenInvalid('claims')
  // Some issuers write booleans as text.
  const isVerified = [true, 'true'].includes(claimAt(claims, places.emailVerified) as boolean | string)
  const email = isVerified ? textAt(claims, places.email, EMAIL_CHARS_MAX) : undefined
  const mfaSeconds = saysMfa(claims, mfaClaim) ? (seconds(claims.auth_time) ?? seconds(claims.iat)) : undefined
  // Never in the future, or it would count for longer.
  const mfaAtMs = mfaSeconds === undefined ? null : Math.min(Math.max(0, mfaSeconds * 1000), deps.now().getTime())
  return {
    issuer,
    subject,
    email: email ?? null,
    name: textAt(claims, places.name, NAME_CHARS_MAX) ?? null,
    mfaAt: mfaAtMs === null ? null : new Date(mfaAtMs),
    use: useOf(app, issuer, claims),
  }
}
