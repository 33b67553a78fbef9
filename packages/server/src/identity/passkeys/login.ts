import type { Deps } from '../../platform/deps.ts'
import { type HttpError, notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { CHALLENGE_MS, createChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { hmacSha256 } from '../../platform/security/crypto.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { isAllowedOrigin } from '../../platform/security/web-origin.ts'
import { resolveApp, signInSettings } from '../../tenancy/apps/service.ts'
import { type ProvenSession, recordPasskey, type SignIn, startSessionWith } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { findUserByEmail } from '../users/service.ts'
import { fail, PASSKEYS_MAX } from './errors.ts'
import type { LoginChallenge, LoginOptions, LoginVerify } from './schema.ts'
import * as store from './store.ts'
import { newCeremony, type StoredCredential, verifyAssertion } from './webauthn/ceremony.ts'

/** A credential for emails without passkeys. It belongs to no user, and is always the same for the same email. */
async function decoy(deps: Deps, appId: Id<'app'>, emailKey: string, rpId: string): Promise<store.CredentialRow> {
  const { refreshKey } = await deps.signingKeys.oldest()
  const id = hmacSha256(refreshKey, `halfkey/v1/passkey-decoy ${appId} ${emailKey}`, 'base64')
  return { credential_id: Buffer.from(id, 'base64'), transports: ['hybrid', 'internal'], rp_id: rpId }
}

/** The user with an email, and their passkeys. The same statements run whether there are any or not. */
async function credentialsOf(
  deps: Deps,
  tenantId: Id<'ten'>,
  app: { id: Id<'app'>; rpId: string },
  email: string,
  address: string,
): Promise<{ userId: Id<'usr'> | null; rpId: string; credentials: store.CredentialRow[] }> {
  const { key, id: userId = null } = await findUserByEmail(deps, tenantId, app.id, email)
  await limitAccount(deps, `${app.id} ${key} ${networkOf(address)}`)
  const all = await store.listCredentials(deps.db, tenantId, userId, PASSKEYS_MAX)
  const none = await decoy(deps, app.id, key, app.rpId)
  // A passkey cannot move to another relying party. A user without one of the app's current relying party uses an older one.
  const rpId = all.some((one) => one.rp_id === app.rpId) ? app.rpId : (all[0]?.rp_id ?? app.rpId)
  return { userId, rpId, credentials: all.length === 0 ? [none] : all.filter((one) => one.rp_id === rpId) }
}

/**
 * Creates the challenge for signing in: with any passkey of the authenticator or, with an email, with that user's passkeys.
 * @throws validation_failed, not_found (names `app_id`), rate_limited
 */
export async function loginOptions(deps: Deps, call: Call, query: LoginOptions): Promise<LoginChallenge> {
  const { caller, origin } = call
  const appId = await resolveApp(deps, caller, query.app_id, 'app_id')
  const { passkey } = await signInSettings(deps, caller.tenantId, appId, 'app_id')
  const asked =
    query.email === undefined
      ? { userId: null, rpId: passkey.rpId, credentials: [] }
      : await credentialsOf(deps, caller.tenantId, { id: appId, rpId: passkey.rpId }, query.email, origin.address)
  const data: store.LoginData = {
    ...(await newCeremony(call, { ...passkey, rpId: asked.rpId })),
    emailFirst: query.email !== undefined,
  }
  const { id, expiresAt } = await createChallenge(deps.db, deps.now(), {
    tenantId: caller.tenantId,
    appId,
    kind: 'passkey_login',
    userId: asked.userId,
    data,
  })
  return {
    challengeId: id,
    expiresAt: expiresAt.toISOString(),
    publicKey: {
      challenge: data.challenge,
      timeout: CHALLENGE_MS,
      rpId: data.rpId,
      allowCredentials: asked.credentials.map(store.toDescriptor),
      userVerification: data.userVerification,
    },
  }
}

/**
 * Assertions of unknown credentials are verified against this one, and fail. Without a verification, the response would be
 * faster and would reveal decoys. The point is the generator of P-256 (SEC 2, section 2.4.2).
 */
const NOBODY: StoredCredential = {
  publicKey: Buffer.from(
    'a50102032620012158206b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2962258204fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
    'hex',
  ),
  signCount: 0,
  deviceType: 'singleDevice',
}

/** Whether the challenge accepts this passkey, and the authenticator's user handle is that of its owner. */
function isAskedFor(attempt: store.LoginAttempt, passkey: store.FoundPasskey, userHandle: string | null): boolean {
  if (passkey.rpId !== attempt.data.rpId) return false
  if (attempt.data.emailFirst && passkey.ownerId !== attempt.userId) return false
  if (userHandle === null) return attempt.data.emailFirst
  return Buffer.from(userHandle, 'base64url').equals(Buffer.from(passkey.ownerId))
}

/** Finds the challenge that the answer is verified against. @throws not_found (names `challengeId`), challenge_expired */
async function attemptAt(
  deps: Deps,
  { caller }: Call,
  challengeId: Id<'chl'>,
  input: LoginVerify,
): Promise<store.LoginAttempt> {
  const { tenantId, appId } = caller
  const credentialId = Buffer.from(input.credential.id, 'base64url')
  const attempt = await store.findLogin(deps.db, deps.now(), { tenantId, appId, id: challengeId, credentialId })
  if (attempt === undefined) throw notFoundField('challengeId')
  if (attempt.over) throw fail('challenge_expired')
  return attempt
}

/** The verified assertion and its passkey. Null if the answer is not valid. */
async function judged(deps: Deps, attempt: store.LoginAttempt, { credential }: LoginVerify) {
  const { passkey } = attempt
  const expected = {
    ceremony: attempt.data,
    isAllowedOrigin: (one: string) => isAllowedOrigin(deps.config, attempt, one),
    log: deps.log,
  }
  const assertion = await verifyAssertion(credential, expected, passkey ?? NOBODY)
  const userHandle = credential.response.userHandle ?? null
  if (assertion === null || passkey === null || !isAskedFor(attempt, passkey, userHandle)) return null
  return { assertion, passkey }
}

/** Authentication methods (RFC 8176). */
const methodsOf = ({ userVerified }: { userVerified: boolean }) => (userVerified ? ['hwk', 'user'] : ['hwk'])

/** The owner is there, with a passkey: they did not lose it, so a recovery that is pending ends. Rare, so no other sign-in pays for it. */
async function refuteRecovery(deps: Deps, cause: Call, { ownerId: userId, mayRecover }: store.FoundPasskey) {
  if (!mayRecover) return
  const of = { tenantId: cause.caller.tenantId, userId, by: 'passkey', cause } as const
  await deps.db.tx((tx) => deps.hooks.recoveryRefuted(tx, deps, of))
}

/** Begins a session and, if one begins, ends a recovery that is pending: whom the app's server refuses has not come back. */
function startAndRefute(
  deps: Deps,
  session: SignIn,
  passkey: store.FoundPasskey,
  counted: ReturnType<typeof store.countedUse>,
) {
  if (!passkey.mayRecover) return startSessionWith(deps, session, counted)
  return deps.db.tx(async (tx) => {
    const inTx = { ...deps, db: tx }
    const begun = await startSessionWith(inTx, session, counted)
    if (begun.tokens !== null) await refuteRecovery(inTx, session, passkey)
    return begun
  })
}

const assertionInvalid = () => fail('assertion_invalid').about('credential', 'Could not be verified.').commitOnThrow()

/** Takes the challenge, which the refusal commits. @returns the error to throw */
async function refusal(
  deps: Deps,
  { caller }: Call,
  id: Id<'chl'>,
  code: 'assertion_invalid' | 'user_suspended' | 'guest_expired',
): Promise<HttpError> {
  const { tenantId, appId } = caller
  const taken = await takeChallenge(deps.db, deps.now(), { tenantId, appId, kind: 'passkey_login', id })
  // Another answer took the challenge first.
  if (taken?.over !== false) return fail('challenge_expired').commitOnThrow()
  return code === 'assertion_invalid' ? assertionInvalid() : fail(code).commitOnThrow()
}

/**
 * Signs a user in with a passkey. Two statements: one reads, one takes the challenge, records the use and starts the session.
 * @throws not_found (names `challengeId`), challenge_expired, assertion_invalid, user_suspended, guest_expired, rate_limited,
 * sign_in_refused, sign_in_hook_failed
 */
export async function loginVerify(deps: Deps, call: Call, input: LoginVerify): Promise<SignedIn> {
  const { caller, origin } = call
  const { challengeId } = input
  if (!isId('chl', challengeId)) throw notFoundField('challengeId')
  const attempt = await attemptAt(deps, call, challengeId, input)
  // Counted by the credential id of the request, even if it does not exist: otherwise the limit would reveal which exist.
  await limitAccount(deps, `${attempt.appId} ${input.credential.id} ${networkOf(origin.address)}`)
  const right = await judged(deps, attempt, input)
  if (right === null) throw await refusal(deps, call, challengeId, 'assertion_invalid')
  const { assertion, passkey } = right
  const { ownerId: userId, endsAt } = passkey
  const now = deps.now()
  if (passkey.user.status !== 'active') throw await refusal(deps, call, challengeId, 'user_suspended')
  if (endsAt !== null && endsAt <= now) throw await refusal(deps, call, challengeId, 'guest_expired')
  const session: SignIn = {
    tenantId: caller.tenantId,
    appId: attempt.appId,
    userId,
    amr: methodsOf(assertion),
    method: 'passkey',
    endsAt,
    caller,
    origin,
  }
  const counted = store.countedUse(
    { tenantId: caller.tenantId, userId, id: passkey.passkeyId, challengeId },
    { signCount: assertion.signCount, backedUp: assertion.backedUp, at: now },
  )
  // The same time in all rows and in the response.
  const begun = await permitting(deps, (permitted) =>
    startAndRefute({ ...permitted, now: () => now }, session, passkey, counted),
  )
  if (begun.tokens === null) {
    // After the read, another answer took the challenge, another assertion raised the counter, or the user was suspended.
    if (!begun.firstHeld) throw fail('challenge_expired').commitOnThrow()
    throw assertionInvalid()
  }
  return { user: { ...passkey.user, lastSeenAt: now.toISOString() }, isNewUser: false, ...begun.tokens }
}

/**
 * Shows a passkey of the current user in their session, which then counts as begun with it. The challenge is one of
 * `loginOptions`.
 * @throws session_missing (a server acts for the user), not_found (names `challengeId`), challenge_expired, assertion_invalid,
 * user_suspended, guest_expired, rate_limited
 */
export async function provePasskey(deps: Deps, call: UserCall, input: LoginVerify): Promise<ProvenSession> {
  const { caller, origin, user } = call
  const { challengeId } = input
  const { sessionId } = user
  if (!isId('chl', challengeId)) throw notFoundField('challengeId')
  const attempt = await attemptAt(deps, call, challengeId, input)
  if (attempt.appId !== user.appId) throw notFoundField('challengeId')
  if (sessionId === null)
    throw fail('session_missing').about('authorization', 'This call needs an access token: `x-user-id` is not enough.')
  await limitAccount(deps, `${attempt.appId} ${input.credential.id} ${networkOf(origin.address)}`)
  const right = await judged(deps, attempt, input)
  if (right === null || right.passkey.ownerId !== user.id)
    throw await refusal(deps, call, challengeId, 'assertion_invalid')
  const { assertion, passkey } = right
  await refuteRecovery(deps, call, passkey)
  const now = deps.now()
  const counted = store.countedUse(
    { tenantId: caller.tenantId, userId: user.id, id: passkey.passkeyId, challengeId },
    { signCount: assertion.signCount, backedUp: assertion.backedUp, at: now },
  )
  const of = { tenantId: caller.tenantId, sessionId, methods: methodsOf(assertion) }
  const proven = await recordPasskey({ ...deps, now: () => now }, of, counted)
  // After the read, another answer took the challenge, another assertion raised the counter, or the session ended.
  if (proven === null) throw fail('challenge_expired').commitOnThrow()
  return proven
}
