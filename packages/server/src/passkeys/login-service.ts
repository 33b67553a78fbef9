import { generateChallenge, isoBase64URL } from '@simplewebauthn/server/helpers'
import { resolveApp, signInSettings } from '../apps/service.ts'
import { CHALLENGE_MS, createChallenge } from '../core/challenges.ts'
import { hmacSha256 } from '../core/crypto.ts'
import type { Deps } from '../core/deps.ts'
import { failures, type HttpError, notFoundField } from '../core/errors.ts'
import type { Caller, Origin } from '../core/http.ts'
import { type Id, isId } from '../core/ids.ts'
import { limitAccount } from '../core/limits.ts'
import { isAllowedOrigin } from '../core/web-origin.ts'
import { startSession } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { findUserByEmail } from '../users/service.ts'
import { type StoredCredential, verifyAssertion } from './ceremony.ts'
import type { LoginChallenge, LoginOptions, LoginVerify } from './schema.ts'
import { PASSKEY_ERRORS, PASSKEYS_MAX } from './service.ts'
import * as store from './store.ts'

const fail = failures(PASSKEY_ERRORS)

type Call = { caller: Caller; origin: Origin }

/** The credential that an email without passkeys is answered with: the same at each asking, and nobody's. */
async function decoy(deps: Deps, appId: Id<'app'>, emailKey: string, rpId: string): Promise<store.CredentialRow> {
  const { refreshKey } = await deps.signingKeys.current()
  const id = hmacSha256(refreshKey, `halfkey/v1/passkey-decoy ${appId} ${emailKey}`, 'base64')
  return { credential_id: Buffer.from(id, 'base64'), transports: ['hybrid', 'internal'], rp_id: rpId }
}

/** Whose passkeys an email asks for, and which. What is asked of the database does not depend on whether there are any. */
async function credentialsOf(
  deps: Deps,
  tenantId: Id<'ten'>,
  app: { id: Id<'app'>; rpId: string },
  email: string,
): Promise<{ userId: Id<'usr'> | null; rpId: string; credentials: store.CredentialRow[] }> {
  const { key, id: userId = null } = await findUserByEmail(deps, tenantId, app.id, email)
  limitAccount(deps, `${app.id} ${key}`)
  const all = await store.listCredentials(deps.db, tenantId, userId, PASSKEYS_MAX)
  const none = await decoy(deps, app.id, key, app.rpId)
  // A passkey can't move to another relying party: who has none of the app's present one goes by the one they have.
  const rpId = all.some((one) => one.rp_id === app.rpId) ? app.rpId : (all[0]?.rp_id ?? app.rpId)
  return { userId, rpId, credentials: all.length === 0 ? [none] : all.filter((one) => one.rp_id === rpId) }
}

/**
 * Makes the challenge for signing in: by whatever passkey the authenticator finds, or, with an email, by that user's.
 * @throws validation_failed, not_found (names `app_id`), rate_limited
 */
export async function loginOptions(deps: Deps, { caller, origin }: Call, query: LoginOptions): Promise<LoginChallenge> {
  const appId = await resolveApp(deps, caller, query.app_id, 'app_id')
  const { passkey } = await signInSettings(deps, caller.tenantId, appId, 'app_id')
  const asked =
    query.email === undefined
      ? { userId: null, rpId: passkey.rpId, credentials: [] }
      : await credentialsOf(deps, caller.tenantId, { id: appId, rpId: passkey.rpId }, query.email)
  const data: store.LoginData = {
    challenge: isoBase64URL.fromBuffer(await generateChallenge()),
    rpId: asked.rpId,
    origin: caller.keyType === 'publishable' ? origin.webOrigin : null,
    userVerification: passkey.userVerification,
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
 * What an assertion by a credential that nobody has is verified by, in vain: an answer without a verification comes
 * sooner, and would tell decoys from passkeys. The point is the generator of P-256 (SEC 2, section 2.4.2).
 */
const NOBODY: StoredCredential = {
  publicKey: Buffer.from(
    'a50102032620012158206b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2962258204fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
    'hex',
  ),
  signCount: 0,
  deviceType: 'singleDevice',
}

/** Whether the passkey is one that this challenge asks for, and its owner the one whom the authenticator names. */
function isAskedFor(taken: store.TakenLogin, passkey: store.FoundPasskey, userHandle: string | null): boolean {
  if (passkey.rpId !== taken.data.rpId) return false
  if (taken.data.emailFirst && passkey.owner.id !== taken.userId) return false
  if (userHandle === null) return taken.data.emailFirst
  return Buffer.from(userHandle, 'base64url').equals(Buffer.from(passkey.owner.id))
}

function assertionInvalid(): HttpError {
  const detail = { field: 'credential', code: 'assertion_invalid', message: 'Could not be verified.' }
  return fail('assertion_invalid', [detail]).keepingEffects()
}

/** The challenge, taken, and the passkey that the answer names. @throws not_found, challenge_expired */
async function take(deps: Deps, { caller }: Call, input: LoginVerify): Promise<store.TakenLogin> {
  const taken = isId('chl', input.challengeId)
    ? await store.takeLogin(deps.db, deps.now(), {
        tenantId: caller.tenantId,
        appId: caller.appId,
        id: input.challengeId,
        credentialId: Buffer.from(input.credential.id, 'base64url'),
      })
    : undefined
  if (taken === undefined) throw notFoundField('challengeId')
  if (taken.over) throw fail('challenge_expired').keepingEffects()
  return taken
}

/**
 * Signs a user in by a passkey. Two statements: one takes the challenge and reads, one counts the use and begins the
 * session.
 * @throws not_found (names `challengeId`), challenge_expired, assertion_invalid, user_suspended, guest_expired, rate_limited
 */
export async function loginVerify(deps: Deps, call: Call, input: LoginVerify): Promise<SignedIn> {
  const { caller, origin } = call
  const { credential } = input
  const taken = await take(deps, call, input)
  const { appId, passkey } = taken
  if (passkey !== null) limitAccount(deps, passkey.owner.id)
  const expected = {
    ceremony: taken.data,
    isAllowedOrigin: (one: string) => isAllowedOrigin(deps.config, taken.allowedOrigins, one),
    log: deps.log,
  }
  const assertion = await verifyAssertion(credential, expected, passkey ?? NOBODY)
  const userHandle = credential.response.userHandle ?? null
  if (assertion === null || passkey === null || !isAskedFor(taken, passkey, userHandle)) throw assertionInvalid()
  const { owner } = passkey
  const now = deps.now()
  const endsAt = store.guestEnd(owner)
  if (owner.status !== 'active') throw fail('user_suspended').keepingEffects()
  if (endsAt !== null && endsAt <= now) throw fail('guest_expired').keepingEffects()
  const tokens = await startSession(
    deps,
    {
      tenantId: caller.tenantId,
      appId,
      userId: owner.id,
      amr: assertion.userVerified ? ['hwk', 'user'] : ['hwk'],
      method: 'passkey',
      endsAt,
      caller,
      origin,
    },
    store.countedUse(
      { tenantId: caller.tenantId, userId: owner.id, id: passkey.id },
      { signCount: assertion.signCount, backedUp: assertion.backedUp, at: now },
    ),
  )
  // Between the two statements another assertion counted, or the user was suspended.
  if (tokens === null) throw assertionInvalid()
  return { user: { ...passkey.user, lastSeenAt: now.toISOString() }, isNewUser: false, ...tokens }
}
