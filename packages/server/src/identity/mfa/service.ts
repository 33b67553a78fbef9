import { randomBytes } from 'node:crypto'
import { toString as drawQrCode } from 'qrcode'
import type { Deps } from '../../platform/deps.ts'
import type { EventType } from '../../platform/events/event-catalogue.ts'
import { publish } from '../../platform/events/events.ts'
import { type ErrorTable, failures, type HttpError, invalid, notFoundField } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { createChallenge, endChallenge, lockMfaChallenge } from '../../platform/security/challenges.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import {
  forgetVerifications,
  recordVerification,
  requireFreshSignIn,
  requireProven,
  requireVerification,
} from '../sessions/service.ts'
import { findUserRecord } from '../users/service.ts'
import { newRecoveryCode, RECOVERY_CODES, recoveryCodeHash } from './recovery-code.ts'
import type {
  CreateMfaChallenge,
  MfaChallenge,
  MfaSetup,
  MfaStatus,
  MfaVerification,
  RecoveryCodes,
  VerifyMfa,
  VerifyMfaSetup,
} from './schema.ts'
import * as store from './store.ts'
import { base32, otpauthUrl, stepOf } from './totp.ts'

const FAILURES_MAX = 5
const LOCK_MS = 15 * 60_000
const SETUP_MS = 10 * 60_000
const SECRET_BYTES = 20

export const MFA_ERRORS = {
  invalid_code: [400, 'This code is wrong or was already used.'],
  mfa_already_enabled: [409, 'This user already has a second factor. Disable it first.'],
  mfa_not_enabled: [409, 'This user has no second factor.'],
  mfa_setup_not_started: [409, 'There is no set-up to complete. Start one with POST /mfa/setup.'],
  mfa_setup_expired: [410, 'The set-up was not completed within ten minutes. Start again with POST /mfa/setup.'],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
  mfa_locked: [429, 'Too many wrong codes. Wait as long as Retry-After says.'],
} as const satisfies ErrorTable

const fail = failures(MFA_ERRORS)

const ownerOf = ({ caller, user }: Omit<UserCall, 'origin'>): store.Owner => ({
  tenantId: caller.tenantId,
  userId: user.id,
})

/** Runs `body` with the user's factor locked. `factor` is undefined if there is neither a factor nor a set-up. @throws record_tampered */
function withFactor<T>(deps: Deps, call: UserCall, body: (inTx: Deps, held: store.Held) => Promise<T>): Promise<T> {
  return deps.db.tx(async (tx) => {
    const held = await store.lockFactor(tx, ownerOf(call))
    if (held === undefined) throw fail('session_revoked')
    return body({ ...deps, db: tx }, held)
  })
}

async function tell(inTx: Deps, call: UserCall, type: EventType, more: object = {}): Promise<void> {
  const { caller, origin, user } = call
  const data = { userId: user.id, ...more }
  await publish(inTx.db, inTx, { tenantId: caller.tenantId, appId: user.appId, type, data, cause: { caller, origin } })
}

const secretContext = ({ tenantId, userId }: store.Owner) => ['totp secret', tenantId, userId]

/** The name of the entry in the authenticator app. */
async function nameEntry(deps: Deps, { caller, user }: UserCall): Promise<{ issuer: string; label: string }> {
  const app = await signInSettings(deps, caller.tenantId, user.appId)
  const record = await findUserRecord(deps, caller.tenantId, user.id)
  return { issuer: app.name, label: record?.email ?? record?.name ?? user.id }
}

/**
 * Creates a secret for an authenticator app, which its first code must confirm within ten minutes. Replaces an earlier set-up
 * that was not completed, and never an active factor.
 * @throws reauthentication_required, mfa_already_enabled
 */
export async function setUp(deps: Deps, call: UserCall): Promise<MfaSetup> {
  await requireFreshSignIn(deps, call.caller, call.user)
  const secret = randomBytes(SECRET_BYTES)
  const url = otpauthUrl(secret, await nameEntry(deps, call))
  const qrSvg = await drawQrCode(url, { type: 'svg', errorCorrectionLevel: 'M' })
  const sealed = await seal(deps.keys, secret, secretContext(ownerOf(call)))
  const until = new Date(deps.now().getTime() + SETUP_MS)
  await withFactor(deps, call, async ({ db }, held) => {
    if (held.factor !== undefined && held.factor.secret_sealed !== null) throw fail('mfa_already_enabled')
    await store.putPending(db, held, sealed, until)
  })
  return { secret: base32(secret), otpauthUrl: url, qrSvg, expiresAt: until.toISOString() }
}

/** @throws mfa_locked, with the end of the lock in the details */
function refuseLocked(deps: Deps, factor: store.FactorRow): void {
  const leftMs = (factor.locked_until?.getTime() ?? 0) - deps.now().getTime()
  if (factor.locked_until === null || leftMs <= 0) return
  const seconds = Math.ceil(leftMs / 1000)
  const detail = {
    code: 'mfa_locked',
    message: `No code is accepted for ${seconds} seconds.`,
    lockedUntil: factor.locked_until.toISOString(),
  }
  throw fail('mfa_locked', [detail], { 'retry-after': String(seconds) })
}

type HeldFactor = store.Held & { factor: store.FactorRow }

/** Counts a wrong code. The fifth in a row locks. @returns the error to throw, which lets the count commit */
async function countWrong(
  inTx: Deps,
  call: UserCall,
  held: HeldFactor,
  field: 'code' | 'recoveryCode',
): Promise<HttpError> {
  const failuresNow = held.factor.failures + 1
  const locks = failuresNow >= FAILURES_MAX
  const lockedUntil = locks ? new Date(inTx.now().getTime() + LOCK_MS) : null
  await store.recordWrongCode(inTx.db, held, locks ? 0 : failuresNow, lockedUntil)
  if (lockedUntil !== null) await tell(inTx, call, 'mfa.locked', { lockedUntil: lockedUntil.toISOString() })
  const attemptsRemaining = FAILURES_MAX - failuresNow
  const message = locks ? 'No code is accepted for 15 minutes.' : `Attempts remaining: ${attemptsRemaining}.`
  return fail('invalid_code').about(field, message, { attemptsRemaining }).commitOnThrow()
}

/**
 * Completes the set-up with the first code of its secret, which uses up the code, and returns the recovery codes.
 * @throws stronger_sign_in_required, invalid_code, mfa_already_enabled, mfa_setup_not_started, mfa_setup_expired, mfa_locked
 */
export async function verifySetup(deps: Deps, call: UserCall, input: VerifyMfaSetup): Promise<RecoveryCodes> {
  await limitAccount(deps, `mfa ${call.user.id}`)
  const owner = ownerOf(call)
  return withFactor(deps, call, async (inTx, { user, factor }) => {
    const now = inTx.now()
    // The account may have got a passkey since the set-up began.
    await requireProven(inTx, call.caller, call.user)
    if (factor !== undefined && factor.secret_sealed !== null) throw fail('mfa_already_enabled')
    if (factor === undefined || factor.pending_secret_sealed === null || factor.pending_until === null)
      throw fail('mfa_setup_not_started')
    refuseLocked(inTx, factor)
    if (factor.pending_until <= now) throw fail('mfa_setup_expired')
    const secret = await open(inTx.keys, factor.pending_secret_sealed, secretContext(owner))
    const step = stepOf(secret, input.code, now, 0)
    secret.fill(0)
    if (step === null) throw await countWrong(inTx, call, { user, factor }, 'code')
    const recoveryCodes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode)
    const hashes = recoveryCodes.flatMap((code) => recoveryCodeHash(owner.userId, code) ?? [])
    await store.activate(inTx.db, { user, factor }, { step, now, hashes })
    await recordVerification(inTx.db, inTx, call.caller, call.user, 'otp')
    const of = { tenantId: call.caller.tenantId, userId: owner.userId, cause: call }
    await inTx.hooks.recoveryRefuted(inTx.db, inTx, { ...of, by: 'second_factor' })
    await tell(inTx, call, 'mfa.enabled')
    return { recoveryCodes }
  })
}

const methodsOf = (remaining: number): MfaStatus['methods'] => (remaining > 0 ? ['totp', 'recovery_code'] : ['totp'])

/** Creates a challenge that only this user can answer, within five minutes. @throws mfa_not_enabled */
export async function challenge(
  deps: Deps,
  call: Omit<UserCall, 'origin'>,
  input: CreateMfaChallenge,
): Promise<MfaChallenge> {
  const { caller, user } = call
  const factor = await store.findStatus(deps.db, ownerOf(call))
  if (factor === undefined) throw fail('mfa_not_enabled')
  const purpose = input.purpose ?? null
  const { id, expiresAt } = await createChallenge(deps.db, deps.now(), {
    tenantId: caller.tenantId,
    appId: user.appId,
    kind: 'mfa',
    userId: user.id,
    data: { purpose },
  })
  return { challengeId: id, methods: methodsOf(factor.remaining), purpose, expiresAt: expiresAt.toISOString() }
}

/** Whether the code is correct. A correct code is used up. @throws record_tampered */
async function accept(inTx: Deps, call: UserCall, held: HeldFactor, sealed: Buffer, input: VerifyMfa) {
  const owner = ownerOf(call)
  if (input.recoveryCode !== undefined) {
    const hash = recoveryCodeHash(owner.userId, input.recoveryCode)
    const recoveryCodesRemaining = hash && (await store.useRecoveryCode(inTx.db, held, hash, inTx.now()))
    if (recoveryCodesRemaining === null) return false
    await tell(inTx, call, 'mfa.recovery_code_used', { recoveryCodesRemaining })
    return true
  }
  const secret = await open(inTx.keys, sealed, secretContext(owner))
  const step = stepOf(secret, input.code ?? '', inTx.now(), held.factor.last_step)
  secret.fill(0)
  if (step === null) return false
  await store.recordCorrectCode(inTx.db, held, step)
  return true
}

/**
 * Verifies a code or a recovery code, for the session that makes the call or for the key that acts for the user. A wrong
 * code does not use up the challenge. Wrong codes are counted per user, across all challenges.
 * @throws invalid_code, mfa_not_enabled, challenge_expired, mfa_locked, not_found (names `challengeId`)
 */
export async function verify(deps: Deps, call: UserCall, input: VerifyMfa): Promise<MfaVerification> {
  const { challengeId } = input
  if ((input.code === undefined) === (input.recoveryCode === undefined))
    throw invalid('code', 'Send either code or recoveryCode.', 'one_of')
  await limitAccount(deps, `mfa ${call.user.id}`)
  const owner = ownerOf(call)
  return withFactor(deps, call, async (inTx, { user, factor }) => {
    const now = inTx.now()
    const asked = isId('chl', challengeId)
      ? await lockMfaChallenge(inTx.db, { ...owner, appId: call.user.appId, id: challengeId })
      : undefined
    if (asked === undefined || !isId('chl', challengeId)) throw notFoundField('challengeId')
    if (factor === undefined || factor.secret_sealed === null) throw fail('mfa_not_enabled')
    refuseLocked(inTx, factor)
    if (asked.used_at !== null || asked.expires_at <= now) throw fail('challenge_expired')
    const byRecovery = input.recoveryCode !== undefined
    if (!(await accept(inTx, call, { user, factor }, factor.secret_sealed, input)))
      throw await countWrong(inTx, call, { user, factor }, byRecovery ? 'recoveryCode' : 'code')
    await endChallenge(inTx.db, owner.tenantId, challengeId, now)
    const noted = await recordVerification(inTx.db, inTx, call.caller, call.user, byRecovery ? 'kba' : 'otp')
    return {
      verified: true,
      accessToken: noted.accessToken,
      expiresInSeconds: noted.expiresInSeconds,
      mfaExpiresAt: noted.mfaExpiresAt.toISOString(),
    }
  })
}

/** Whether the current user has a second factor, and the accepted methods. */
export async function status(deps: Deps, call: Omit<UserCall, 'origin'>): Promise<MfaStatus> {
  const factor = await store.findStatus(deps.db, ownerOf(call))
  if (factor === undefined) return NO_FACTOR
  return {
    enabled: true,
    methods: methodsOf(factor.remaining),
    recoveryCodesRemaining: factor.remaining,
    enabledAt: factor.enabled_at.toISOString(),
  }
}

const NO_FACTOR: MfaStatus = { enabled: false, methods: [], recoveryCodesRemaining: 0, enabledAt: null }

/** Deletes the factor, its recovery codes and all verifications made with them. @throws mfa_required, mfa_not_enabled */
export async function disable(deps: Deps, call: UserCall): Promise<MfaStatus> {
  const owner = ownerOf(call)
  return withFactor(deps, call, async (inTx, held) => {
    // Before `mfa_required`, because a user without a factor could never verify one.
    if (held.factor === undefined || held.factor.secret_sealed === null) throw fail('mfa_not_enabled')
    await requireVerification(inTx, call.caller, call.user)
    await store.deleteFactor(inTx.db, held)
    await forgetVerifications(inTx.db, owner.tenantId, owner.userId)
    await tell(inTx, call, 'mfa.disabled')
    return NO_FACTOR
  })
}
