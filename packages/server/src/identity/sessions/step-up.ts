import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { fail } from '../../platform/http/errors.ts'
import type { Caller, CurrentUser } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { signAccessToken } from '../../platform/security/access-token.ts'
import * as steps from './step-up-store.ts'
import { type ExtraWrites, toClaims } from './store.ts'

/** How long a verified second factor or a sign-in counts as fresh. */
const FRESH_MS = 5 * 60_000

const isFresh = (deps: Deps, at: Date | null) => at !== null && deps.now().getTime() - at.getTime() <= FRESH_MS

async function read(deps: Deps, caller: Caller, user: CurrentUser): Promise<steps.StepUpRow> {
  const by = { sessionId: user.sessionId, keyId: caller.keyId }
  const row = await steps.findStepUp(deps.db, caller.tenantId, user.id, by)
  if (row === undefined) throw fail('session_revoked')
  return row
}

/** A server that acts for a user needs no step-up, unless the app requires it. */
const isExempt = (user: CurrentUser, row: steps.StepUpRow) => user.sessionId === null && !row.enforce_for_server

/** @throws stronger_sign_in_required */
function refuseUnproven({ unproven }: steps.StepUpRow): void {
  if (unproven) throw fail('stronger_sign_in_required')
}

function checkRecent(deps: Deps, user: CurrentUser, row: steps.StepUpRow, mfaAt: Date | null): void {
  if (isExempt(user, row)) return
  const required = row.policy === 'always' || (row.mfa_enabled && row.policy !== 'never')
  if (required && isFresh(deps, mfaAt)) return
  if (required) throw fail(row.mfa_enabled ? 'mfa_required' : 'mfa_enrollment_required')
  if (!isFresh(deps, row.signed_in_at)) throw fail('reauthentication_required')
}

function checkStepUp(deps: Deps, user: CurrentUser, row: steps.StepUpRow, mfaAt: Date | null): void {
  refuseUnproven(row)
  checkRecent(deps, user, row, mfaAt)
}

/**
 * For operations that a stolen access token alone must not allow: requires a second factor verified within five minutes or,
 * without a factor, a sign-in within five minutes (product.md, section 2, rule 5). A second factor that the session's issuer
 * has verified counts too.
 * @throws stronger_sign_in_required, mfa_required, mfa_enrollment_required, reauthentication_required
 */
export async function requireStepUp(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  const row = await read(deps, caller, user)
  const isIssuerLater = (row.issuer_mfa_at?.getTime() ?? 0) > (row.mfa_at?.getTime() ?? 0)
  checkStepUp(deps, user, row, isIssuerLater ? row.issuer_mfa_at : row.mfa_at)
}

/**
 * For handing a session on, which a stolen access token alone must not allow either. A session that began with a weak way in
 * is handed on as it is: it stays weak. @throws mfa_required, mfa_enrollment_required, reauthentication_required
 */
export async function requireRecentSignIn(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  const row = await read(deps, caller, user)
  checkRecent(deps, user, row, row.mfa_at)
}

/**
 * As `requireStepUp`, for operations on key shares. No issuer's word counts: it could say so of every user.
 * @throws stronger_sign_in_required, mfa_required, mfa_enrollment_required, reauthentication_required
 */
export async function requireOwnStepUp(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  const row = await read(deps, caller, user)
  checkStepUp(deps, user, row, row.mfa_at)
}

/**
 * For everything that a way in which somebody else controls may not reach, where the account has a passkey or a second
 * factor: requires that the session began with, or has shown, one of them. A server that acts for a user has other rules.
 * @throws stronger_sign_in_required
 */
export async function requireProven(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  if (user.sessionId !== null) refuseUnproven(await read(deps, caller, user))
}

/**
 * For completing an operation that a step-up allowed some minutes ago: requires that the session has not ended since and, if
 * the user has a second factor by now, that it was verified in the session. Call it in the transaction that completes the
 * operation. @throws session_revoked, stronger_sign_in_required, mfa_required
 */
export async function requireUpheld(
  deps: Deps,
  caller: Caller,
  of: { userId: Id<'usr'>; appId: Id<'app'>; sessionId: Id<'ses'> },
): Promise<void> {
  if (!(await steps.lockSessionForShare(deps.db, caller.tenantId, of.sessionId))) throw fail('session_revoked')
  const row = await read(deps, caller, { id: of.userId, appId: of.appId, sessionId: of.sessionId, ended: false })
  refuseUnproven(row)
  if (row.mfa_enabled && row.policy !== 'never' && row.mfa_at === null) throw fail('mfa_required')
}

/** For setting up a second factor: requires a sign-in within five minutes, so that the thief of a token cannot enrol a factor. @throws stronger_sign_in_required, reauthentication_required */
export async function requireFreshSignIn(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  const row = await read(deps, caller, user)
  refuseUnproven(row)
  if (!isExempt(user, row) && !isFresh(deps, row.signed_in_at)) throw fail('reauthentication_required')
}

/** For disabling the second factor: requires a verification within five minutes, without exceptions. @throws mfa_required */
export async function requireVerification(deps: Deps, caller: Caller, user: CurrentUser): Promise<void> {
  const row = await read(deps, caller, user)
  if (!isFresh(deps, row.mfa_at)) throw fail('mfa_required')
}

/** A session that has shown a passkey. Its access token is new and has the extended `amr`. */
export interface ProvenSession {
  accessToken: string
  expiresInSeconds: number
}

/**
 * Records that the user has shown a passkey in their session, which counts as a sign-in for the step-up. One statement, which
 * `extraWrites` belong to. Null if a condition does not hold or the session has ended.
 */
export async function recordPasskey(
  deps: Deps,
  of: { tenantId: Id<'ten'>; sessionId: Id<'ses'>; methods: string[] },
  extraWrites: ExtraWrites,
): Promise<ProvenSession | null> {
  const row = await steps.recordPasskey(deps.db, of.tenantId, of.sessionId, of.methods, deps.now(), extraWrites)
  if (row === undefined) return null
  const accessToken = await signAccessToken(deps, toClaims(row), row.access_seconds)
  return { accessToken, expiresInSeconds: row.access_seconds }
}

/** The result of a verified second factor. The access token is new and has the extended `amr`; null if a server acts for the user. */
export interface Verification {
  accessToken: string | null
  expiresInSeconds: number | null
  mfaExpiresAt: Date
}

/** Records that the current user has just verified a second factor (`otp`, or `kba` for a recovery code, RFC 8176). */
export async function recordVerification(
  tx: Db,
  deps: Deps,
  caller: Caller,
  user: CurrentUser,
  method: 'otp' | 'kba',
): Promise<Verification> {
  const now = deps.now()
  const mfaExpiresAt = new Date(now.getTime() + FRESH_MS)
  if (user.sessionId === null) {
    await steps.recordServerVerification(tx, caller.tenantId, caller.keyId, user.id, now)
    return { accessToken: null, expiresInSeconds: null, mfaExpiresAt }
  }
  const row = await steps.recordVerification(tx, caller.tenantId, user.sessionId, method, now)
  if (row === undefined) throw fail('session_revoked')
  const accessToken = await signAccessToken(deps, toClaims(row), row.access_seconds)
  return { accessToken, expiresInSeconds: row.access_seconds, mfaExpiresAt }
}
