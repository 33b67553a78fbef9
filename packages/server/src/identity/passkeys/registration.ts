import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import type { Call, Caller, CurrentUser, MaybeUserCall } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { CHALLENGE_MS, type Challenge, createChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { listDomainOrigins } from '../../platform/security/domain-origins.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { isAllowedOrigin } from '../../platform/security/web-origin.ts'
import { resolveApp, signInSettings } from '../../tenancy/apps/service.ts'
import { requireStepUp, requireUpheld } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { addUser, findUserByEmail, findUserRecord, signIn } from '../users/service.ts'
import { fail, PASSKEYS_MAX } from './errors.ts'
import type { RegisterOptions, RegisterVerify, RegistrationChallenge } from './schema.ts'
import * as store from './store.ts'
import { type Ceremony, type NewCredential, newCeremony, verifyAttestation } from './webauthn/ceremony.ts'
import { ALGORITHMS } from './webauthn/cose-key.ts'

/** The data that a registration challenge stores. */
interface RegistrationData extends Ceremony {
  /** The new user who signs up. Null if the passkey is added to the challenge's user. */
  signUp: { userId: Id<'usr'>; email: string | null; name: string | null } | null
  /** The session that requested the challenge, which is void once it ends. Null for a sign-up and for a server. */
  sessionId: Id<'ses'> | null
  /** A server asked for it. Absent in challenges of an earlier release. */
  byServer?: boolean
  /** The recovery by email that the passkey completes. Absent for any other passkey. */
  recoveryId?: Id<'rcv'>
}

/** How old a passkey is before it approves: a thief of a session cannot add one and approve at once. */
const APPROVES_AFTER_MS = 24 * 60 * 60_000

/** The user of a new credential, with the names that browsers show, and their existing credentials. */
interface Holder {
  appId: Id<'app'>
  id: Id<'usr'>
  name: string | null
  displayName: string | null
  credentials: store.CredentialRow[]
}

async function newHolder(deps: Deps, { caller }: MaybeUserCall, input: RegisterOptions): Promise<Holder> {
  const appId = await resolveApp(deps, caller, input.appId)
  // Checked before the authenticator creates a passkey that would be refused.
  await deps.quotas.require(deps.db, caller.tenantId, 'users')
  const { email = null, name = null } = input
  // Checks only the format. A taken email is reported after a passkey was created, so that nobody can probe for emails.
  if (email !== null) await findUserByEmail(deps, caller.tenantId, appId, email)
  return { appId, id: newId('usr'), name: email ?? name, displayName: name ?? email, credentials: [] }
}

async function knownHolder(deps: Deps, caller: Caller, user: CurrentUser, input: RegisterOptions): Promise<Holder> {
  if (input.appId !== undefined && input.appId !== user.appId) throw notFoundField('appId')
  for (const field of ['email', 'name'] as const)
    if (input[field] !== undefined) throw invalid(field, 'Must not be sent when a passkey is added to a user.')
  await requireStepUp(deps, caller, user)
  return holderOf(deps, caller, user)
}

/** A user as they are. @throws session_revoked (they were deleted), passkey_limit */
async function holderOf(deps: Deps, { tenantId }: Caller, user: Pick<CurrentUser, 'id' | 'appId'>): Promise<Holder> {
  const record = await findUserRecord(deps, tenantId, user.id)
  if (record === undefined) throw fail('session_revoked')
  const credentials = await store.listCredentials(deps.db, tenantId, user.id, PASSKEYS_MAX)
  if (credentials.length === PASSKEYS_MAX) throw fail('passkey_limit')
  const { email, name } = record
  return { appId: user.appId, id: user.id, name: email ?? name, displayName: name ?? email, credentials }
}

/**
 * Creates the challenge for a new passkey: of a user who signs up or, with a current user, of that user.
 * @throws validation_failed, not_found (names `appId`), passkey_limit, and the errors of `requireStepUp`
 */
export async function registerOptions(
  deps: Deps,
  call: MaybeUserCall,
  input: RegisterOptions,
): Promise<RegistrationChallenge> {
  const { caller, user } = call
  const holder = await (user === null ? newHolder(deps, call, input) : knownHolder(deps, caller, user, input))
  return createRegistration(deps, call, holder, {
    signUp: user === null ? { userId: holder.id, email: input.email ?? null, name: input.name ?? null } : null,
    sessionId: user?.sessionId ?? null,
  })
}

/**
 * Creates the challenge for the passkey that completes a recovery by email. Nobody is signed in: `registerVerify` completes it
 * with this challenge alone. @throws session_revoked, passkey_limit
 */
export async function recoveryOptions(
  deps: Deps,
  call: Call,
  { recoveryId, ...user }: { recoveryId: Id<'rcv'>; id: Id<'usr'>; appId: Id<'app'> },
): Promise<RegistrationChallenge> {
  const holder = await holderOf(deps, call.caller, user)
  return createRegistration(deps, call, holder, { signUp: null, sessionId: null, recoveryId })
}

async function createRegistration(
  deps: Deps,
  call: Call,
  holder: Holder,
  of: Pick<RegistrationData, 'signUp' | 'sessionId' | 'recoveryId'>,
): Promise<RegistrationChallenge> {
  const { tenantId, keyType } = call.caller
  const { passkey } = await signInSettings(deps, tenantId, holder.appId)
  const data: RegistrationData = { ...(await newCeremony(call, passkey)), ...of, byServer: keyType === 'secret' }
  const { id, expiresAt } = await createChallenge(deps.db, deps.now(), {
    tenantId,
    appId: holder.appId,
    kind: 'passkey_registration',
    userId: of.signUp === null ? holder.id : null,
    data,
  })
  const own = holder.credentials.filter((one) => one.rp_id === passkey.rpId)
  return {
    challengeId: id,
    expiresAt: expiresAt.toISOString(),
    publicKey: {
      rp: { id: passkey.rpId, name: passkey.rpName },
      user: {
        id: Buffer.from(holder.id).toString('base64url'),
        name: holder.name ?? passkey.rpName,
        displayName: holder.displayName ?? passkey.rpName,
      },
      challenge: data.challenge,
      pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
      timeout: CHALLENGE_MS,
      excludeCredentials: own.map(store.toDescriptor),
      authenticatorSelection: {
        residentKey: 'required',
        requireResidentKey: true,
        userVerification: passkey.userVerification,
      },
      attestation: 'none',
      extensions: { credProps: true },
    },
  }
}

/** Takes the challenge: it cannot be answered again, even if the answer is not valid. @throws not_found, challenge_expired */
async function take(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<Challenge<RegistrationData>> {
  const taken = isId('chl', id)
    ? await takeChallenge<RegistrationData>(deps.db, deps.now(), {
        tenantId: caller.tenantId,
        appId: caller.appId,
        kind: 'passkey_registration',
        id,
      })
    : undefined
  if (taken === undefined || (user !== null && user.id !== taken.userId))
    throw notFoundField('challengeId').commitOnThrow()
  if (taken.over) throw fail('challenge_expired').commitOnThrow()
  return taken
}

/**
 * The owner of the passkey, and when their sessions end. Creates the user of a sign-up, and locks an existing user. Whether
 * the user is suspended is checked when the session starts. @throws already_exists, not_found, guest_expired,
 * passkey_limit, session_revoked, mfa_required
 */
async function settleOwner(
  tx: Db,
  deps: Deps,
  call: MaybeUserCall,
  { appId, userId, data: { signUp, sessionId } }: Challenge<RegistrationData>,
): Promise<{ id: Id<'usr'>; endsAt: Date | null }> {
  if (signUp !== null) {
    const { userId: id, email, name } = signUp
    await addUser({ ...deps, db: tx }, call, { id, appId, email, name })
    return { id, endsAt: null }
  }
  const { tenantId } = call.caller
  const owner = userId === null ? undefined : await store.lockOwner(tx, tenantId, userId)
  if (owner === undefined) throw notFoundField('challengeId')
  if (owner.endsAt !== null && owner.endsAt <= deps.now()) throw fail('guest_expired')
  if (sessionId !== null) await requireUpheld({ ...deps, db: tx }, call.caller, { userId: owner.id, appId, sessionId })
  if ((await store.countPasskeys(tx, tenantId, owner.id)) >= PASSKEYS_MAX) throw fail('passkey_limit')
  return owner
}

const TRANSPORT = /^[a-z][a-z0-9-]*$/

async function addPasskey(
  tx: Db,
  deps: Deps,
  call: MaybeUserCall,
  passkey: { appId: Id<'app'>; userId: Id<'usr'>; data: RegistrationData; made: NewCredential; input: RegisterVerify },
): Promise<Id<'pky'>> {
  const { appId, userId, data: asked, made, input } = passkey
  const { tenantId } = call.caller
  const id = newId('pky')
  const now = deps.now()
  const added = await store.insertPasskey(tx, {
    tenant_id: tenantId,
    id,
    app_id: appId,
    user_id: userId,
    credential_id: made.credentialId,
    public_key: made.publicKey,
    sign_count: made.signCount,
    rp_id: asked.rpId,
    aaguid: made.aaguid,
    transports: [...new Set(input.credential.response.transports)].filter((one) => TRANSPORT.test(one)).sort(),
    device_type: made.deviceType,
    backed_up: made.backedUp,
    name: store.passkeyName(input.deviceName),
    // A server that took part may have made the passkey itself.
    approves_at:
      asked.byServer === false && call.caller.keyType === 'publishable'
        ? new Date(now.getTime() + APPROVES_AFTER_MS)
        : null,
    last_used_at: null,
    created_at: now,
    updated_at: now,
    mac: null,
  })
  if (!added) throw fail('already_exists').about('credential', 'This passkey is already registered.')
  const data = { passkeyId: id, userId }
  await publish(tx, deps, { tenantId, appId, type: 'passkey.registered', data, cause: call })
  return id
}

/** Keeps a passkey that was verified, and signs in with it: in one transaction, which writes all of it or nothing. */
async function signInWith(
  tx: Db,
  deps: Deps,
  call: MaybeUserCall,
  { challenge, made, input }: { challenge: Challenge<RegistrationData>; made: NewCredential; input: RegisterVerify },
): Promise<SignedIn> {
  const { caller, origin } = call
  const { appId, data } = challenge
  const owner = await settleOwner(tx, deps, call, challenge)
  const passkeyId = await addPasskey(tx, deps, call, { appId, userId: owner.id, data, made, input })
  if (data.signUp === null) {
    const recoveryId = data.recoveryId ?? null
    const added = { tenantId: caller.tenantId, userId: owner.id, passkeyId, recoveryId, cause: call }
    await deps.hooks.passkeyAdded(tx, deps, added)
  }
  return signIn(
    { ...deps, db: tx },
    {
      tenantId: caller.tenantId,
      appId,
      userId: owner.id,
      amr: made.userVerified ? ['hwk', 'user'] : ['hwk'],
      method: 'passkey',
      endsAt: owner.endsAt,
      caller,
      origin,
    },
    data.signUp !== null,
  )
}

/**
 * Completes a registration in one transaction: the user (if they sign up), the passkey, a session and the events.
 * @throws not_found (names `challengeId`), challenge_expired, attestation_invalid, already_exists (names `email` or
 * `credential`), user_suspended, guest_expired, passkey_limit, sign_in_refused, sign_in_hook_failed
 */
export async function registerVerify(deps: Deps, call: MaybeUserCall, input: RegisterVerify): Promise<SignedIn> {
  const { caller } = call
  const challenge = await take(deps, call, input.challengeId)
  const { appId, data } = challenge
  const { allowedOrigins } = await signInSettings(deps, caller.tenantId, appId, 'challengeId')
  const origins = { allowedOrigins, domainOrigins: await listDomainOrigins(deps.db, caller.tenantId, appId) }
  const made = await verifyAttestation(input.credential, {
    ceremony: data,
    isAllowedOrigin: (one) => isAllowedOrigin(deps.config, origins, one),
    log: deps.log,
  })
  if (made === null) throw fail('attestation_invalid').about('credential', 'Could not be verified.').commitOnThrow()
  return permitting(deps, (permitted) =>
    permitted.db.tx((tx) => signInWith(tx, permitted, call, { challenge, made, input })),
  )
}
