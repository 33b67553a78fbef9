import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { unlinkAddresses } from '../identities/service.ts'
import { requireUpheld } from '../sessions/service.ts'
import type { User } from '../users/schema.ts'
import { findUserRecord, lockUser, parseEmail } from '../users/service.ts'
import { type Answer, withRightAnswers } from './answer.ts'
import { fail } from './errors.ts'
import { giveAddress } from './owner.ts'
import type { ChangeEmail } from './schema.ts'
import * as store from './store.ts'

/** The codes that were typed: that of the new address, and that of the current one. @throws validation_failed for half of an answer */
function answersOf(input: ChangeEmail, userId: UserCall['user']['id']): Answer[] {
  const { challengeId, code, currentChallengeId, currentCode } = input
  const changed: Answer = { challengeId, code, purpose: 'change', userId }
  if (currentChallengeId === undefined && currentCode === undefined) return [changed]
  if (currentChallengeId === undefined) throw invalid('currentChallengeId', 'Required with currentCode.', 'required')
  if (currentCode === undefined) throw invalid('currentCode', 'Required with currentChallengeId.', 'required')
  const fields = { challengeId: 'currentChallengeId', code: 'currentCode' }
  return [changed, { challengeId: currentChallengeId, code: currentCode, purpose: 'change_current', userId, fields }]
}

/** The user as they are, locked, in the session that asked. @throws session_revoked, and the errors of `requireUpheld` */
async function lockOwner(tx: Db, deps: Deps, { caller, user }: UserCall): Promise<User> {
  if ((await lockUser(tx, deps, caller.tenantId, user.id)) === undefined) throw fail('session_revoked')
  const { id: userId, appId, sessionId } = user
  if (sessionId !== null) await requireUpheld({ ...deps, db: tx }, caller, { userId, appId, sessionId })
  const owner = await findUserRecord({ ...deps, db: tx }, caller.tenantId, userId)
  if (owner === undefined) throw fail('session_revoked')
  return owner
}

/**
 * Replaces the address of the current user, who has shown that the new one and, if it was ever confirmed, the old one are theirs.
 * Whoever has a session alone, or one of the two mailboxes, changes nothing.
 * @throws validation_failed, not_found (names the challenge), challenge_expired, invalid_code, email_locked, already_exists
 * (names `email`), session_revoked, mfa_required, stronger_sign_in_required
 */
export async function changeEmail(deps: Deps, call: UserCall, input: ChangeEmail): Promise<User> {
  const { caller, user } = call
  const { tenantId } = caller
  return withRightAnswers(deps, call, answersOf(input, user.id), async (tx, challenges) => {
    const [challenge, current] = challenges as [store.ChallengeRow, store.ChallengeRow?]
    if (challenges.some(({ session_id }) => session_id !== user.sessionId)) throw fail('session_revoked')
    const address = { tenantId, appId: challenge.app_id, key: challenge.email_key, userId: null }
    const holder = await store.lockHolder(tx, address)
    if (holder !== undefined && holder.id !== user.id)
      throw fail('already_exists').about('email', 'Another user has this email.')
    const before = await lockOwner(tx, deps, call)
    if (before.email === null) throw fail('challenge_expired')
    if (current === undefined && before.emailVerified)
      throw invalid('currentCode', 'Required: the user has confirmed the current address.', 'required')
    if (current !== undefined && parseEmail(before.email).key !== current.email_key) throw fail('challenge_expired')
    await unlinkAddresses(tx, deps, call, user.id)
    await giveAddress(tx, deps, call, challenge, user.id)
    return (await findUserRecord({ ...deps, db: tx }, tenantId, user.id)) as User
  })
}
