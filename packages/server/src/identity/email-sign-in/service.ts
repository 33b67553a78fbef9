import type { Deps } from '../../platform/deps.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import { setEmailUser } from '../emails/service.ts'
import { requireUpheld } from '../sessions/service.ts'
import type { SignedIn, User } from '../users/schema.ts'
import { findUserRecord, lockUser, parseEmail, signIn } from '../users/service.ts'
import { withRightAnswer } from './answer.ts'
import { fail } from './errors.ts'
import { giveAddress, settleOwner } from './owner.ts'
import type { LinkEmail, VerifyEmail } from './schema.ts'
import * as store from './store.ts'

export { withRightAnswer } from './answer.ts'
export { changeEmail } from './change.ts'
export { EMAIL_SIGN_IN_ERRORS } from './errors.ts'
export { confirmedOwner } from './owner.ts'
export { requireRecoverable, startEmail } from './start.ts'
export { deleteOldChallenges } from './store.ts'

async function verify(deps: Deps, call: Call, input: VerifyEmail): Promise<SignedIn> {
  const { challengeId, code } = input
  return withRightAnswer(deps, call, { challengeId, code, purpose: 'sign_in', userId: null }, async (tx, challenge) => {
    const inTx = { ...deps, db: tx }
    const { tenant_id: tenantId, app_id: appId } = challenge
    const app = await signInSettings(inTx, tenantId, appId)
    if (!app.email.enabled) throw fail('email_sign_in_disabled')
    const { userId, isNewUser } = await settleOwner(tx, deps, call, app, challenge, input.newAccount ?? false)
    await setEmailUser(tx, tenantId, challenge.email_id, userId)
    const method = 'email' as const
    return signIn(
      inTx,
      { tenantId, appId, userId, amr: [method], method, vouched: { mfaAt: null }, ...call },
      isNewUser,
    )
  })
}

/**
 * Signs in who has shown an address to be theirs.
 * @throws not_found (names `challengeId`), challenge_expired, invalid_code, email_locked, email_not_linked,
 * sign_up_disabled, email_sign_in_disabled, user_suspended, quota_exceeded, sign_in_refused,
 * sign_in_hook_failed (these two leave the code unused)
 */
export function verifyEmail(deps: Deps, call: Call, input: VerifyEmail): Promise<SignedIn> {
  return permitting(deps, (permitted) => verify(permitted, call, input))
}

/**
 * Makes an address that the current user has shown to be theirs a way to sign in.
 * @throws not_found (names `challengeId`), challenge_expired, invalid_code, email_locked, already_exists (names `email`),
 * session_revoked, mfa_required
 */
export async function linkEmail(deps: Deps, call: UserCall, input: LinkEmail): Promise<User> {
  const { caller, user } = call
  const { challengeId, code } = input
  return withRightAnswer(deps, call, { challengeId, code, purpose: 'link', userId: user.id }, async (tx, challenge) => {
    const inTx = { ...deps, db: tx }
    const { tenant_id: tenantId, app_id: appId, session_id: sessionId } = challenge
    if (sessionId !== user.sessionId) throw fail('session_revoked')
    const holder = await store.lockHolder(tx, { tenantId, appId, key: challenge.email_key, userId: null })
    if (holder !== undefined && holder.id !== user.id)
      throw fail('already_exists').about('email', 'Another user has this email.')
    const owner = await lockUser(tx, deps, tenantId, user.id)
    if (owner === undefined) throw fail('session_revoked')
    if (sessionId !== null) await requireUpheld(inTx, caller, { userId: user.id, appId, sessionId })
    const before = await findUserRecord(inTx, tenantId, user.id)
    if (before === undefined) throw fail('session_revoked')
    if (before.email !== null && parseEmail(before.email).key !== challenge.email_key) throw fail('challenge_expired')
    await giveAddress(tx, deps, call, challenge, user.id)
    await setEmailUser(tx, tenantId, challenge.email_id, user.id)
    return (await findUserRecord(inTx, tenantId, user.id)) as User
  })
}
