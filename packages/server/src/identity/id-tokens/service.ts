import { randomUUID, sign } from 'node:crypto'
import { promisify } from 'node:util'
import type { Deps } from '../../platform/deps.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { issuerOf, METADATA_CLAIM_PREFIX, RESERVED_CLAIMS } from '../../tenancy/apps/service.ts'
import { liveSession, requireProven } from '../sessions/service.ts'
import { currentKey, ensureKey, ID_TOKEN_SECONDS } from './keys.ts'
import { shownMethods } from './methods.ts'
import type { CreateIdToken, IdToken } from './schema.ts'
import * as store from './store.ts'

export { rotateIdTokenKeys } from './keys.ts'

/** Of the claims from a user's metadata, as JSON. */
const CLAIM_BYTES_MAX = 1024

export const ID_TOKEN_ERRORS = {
  guest_not_allowed: [
    403,
    'Guests get no ID token, and neither does a session in which nobody has signed in since it began as a guest. Convert the guest, and let the user sign in.',
  ],
  id_token_claims_too_large: [
    409,
    `The claims that this user's metadata gives the ID token have more than ${CLAIM_BYTES_MAX} bytes. Shorten the metadata, or name fewer claims in the app's \`openid.claims\`.`,
  ],
} as const

const fail = failures(ID_TOKEN_ERRORS)

const signBytes = promisify(sign)

const seconds = (date: Date) => Math.floor(date.getTime() / 1000)

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** The app of the user who calls. */
const appOf = ({ caller, user }: Pick<UserCall, 'caller' | 'user'>): OfApp => ({
  tenantId: caller.tenantId,
  appId: user.appId,
})

/** Makes the app's first key, outside of any transaction. @throws KeyServiceError */
export async function prepareIdToken(deps: Deps, call: Pick<UserCall, 'caller' | 'user'>): Promise<void> {
  await ensureKey(deps, appOf(call))
}

/** The user of a token, and how and until when they are signed in. */
type Subject = store.SubjectRow & { methods: string[]; signedInAt: Date; expiresAt: Date }

/**
 * The user and session that a token is to name, as the database has them now.
 * @throws session_missing, session_revoked, session_expired, user_suspended, guest_not_allowed, stronger_sign_in_required
 */
async function liveSubject(deps: Deps, { caller, user }: Pick<UserCall, 'caller' | 'user'>): Promise<Subject> {
  if (user.sessionId === null)
    throw fail('session_missing').about('authorization', 'This call needs an access token: `x-user-id` is not enough.')
  const { tenantId } = caller
  const row = await store.findSubject(deps.db, tenantId, user.id)
  if (row === undefined) throw fail('session_revoked')
  if (row.status === 'suspended') throw fail('user_suspended')
  if (row.status !== 'active') throw fail('session_revoked')
  const session = await liveSession(deps, { tenantId, userId: user.id, id: user.sessionId })
  if (row.guest) throw fail('guest_not_allowed')
  // A verifier cannot ask for a passkey that it does not know of, so an account that has one is not named without it.
  await requireProven(deps, caller, user)
  const methods = shownMethods(session)
  // Nobody signed in there as a guest. Of other sessions, no column with a MAC says how they began: those that a release before
  // this one began with a passkey, and those whose user has removed a passkey since.
  if (methods.length === 0)
    throw fail(session.amr.includes('guest') ? 'guest_not_allowed' : 'stronger_sign_in_required')
  return { ...row, methods, signedInAt: session.signed_in_at, expiresAt: session.expires_at }
}

/** The app's own claims. What the user's metadata does not have is absent. @throws id_token_claims_too_large */
function customClaims({ metadata, openid }: Subject): Record<string, string> {
  // Some may be reserved since the app named them.
  const names = openid.claims.filter((claim) => !RESERVED_CLAIMS.has(claim))
  const pairs = names.flatMap((claim) => {
    const key = METADATA_CLAIM_PREFIX + claim
    return Object.hasOwn(metadata, key) ? [[claim, metadata[key] as string] as const] : []
  })
  const claims = Object.fromEntries(pairs)
  if (Buffer.byteLength(JSON.stringify(claims)) > CLAIM_BYTES_MAX) throw fail('id_token_claims_too_large')
  return claims
}

/** @throws validation_failed unless the app may name this audience */
function audienceOf(appId: string, { openid }: Subject, audience: string = appId): string {
  if (audience !== appId && !openid.audiences.includes(audience))
    throw invalid('audience', "Must be one of the app's `openid.audiences`, or the app's id.")
  return audience
}

/**
 * Makes an ID token (OpenID Connect Core, section 2) of the user who calls, for a verifier that their app names. RS256, because
 * every verifier knows it.
 * @throws session_missing, session_revoked, session_expired, user_suspended, guest_not_allowed, stronger_sign_in_required,
 * validation_failed, id_token_claims_too_large, KeyServiceError
 */
export async function createIdToken(
  deps: Deps,
  call: Pick<UserCall, 'caller' | 'user'>,
  input: CreateIdToken,
): Promise<IdToken> {
  const of = appOf(call)
  const row = await liveSubject(deps, call)
  const issuedAt = seconds(deps.now())
  // Never after the session, which ends when it is not refreshed.
  const expiresAt = Math.min(issuedAt + ID_TOKEN_SECONDS, seconds(row.expiresAt))
  const payload = {
    // First, so that no claim of the app's could replace one of these.
    ...customClaims(row),
    iss: issuerOf(deps, of.appId),
    sub: call.user.id,
    aud: audienceOf(of.appId, row, input.audience),
    azp: of.appId,
    iat: issuedAt,
    exp: expiresAt,
    // Verifiers that take a token once know it by this.
    jti: randomUUID(),
    auth_time: seconds(row.signedInAt),
    amr: row.methods,
    ...(row.email !== null && row.email_verified ? { email: row.email, email_verified: true } : {}),
    ...(input.nonce === undefined ? {} : { nonce: input.nonce }),
  }
  const key = await currentKey(deps, of)
  const text = `${encoded({ alg: 'RS256', kid: key.id, typ: 'JWT' })}.${encoded(payload)}`
  const signature = await signBytes('RSA-SHA256', Buffer.from(text), key.privateKey)
  return { idToken: `${text}.${signature.toString('base64url')}`, expiresInSeconds: expiresAt - issuedAt }
}
