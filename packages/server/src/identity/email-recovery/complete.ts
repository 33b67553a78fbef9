import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { Hooks } from '../../platform/hooks.ts'
import type { Id } from '../../platform/ids.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import { requireRecoverable } from '../email-sign-in/service.ts'
import { findUserOf } from '../identities/service.ts'
import { endSessionsOf } from '../sessions/service.ts'
import { lockAccount, type UserRow, unlistCredential } from '../users/service.ts'
import { cancelPending } from './cancel.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** Whether the address that waited is still the confirmed one of the user. */
async function hasAddress(tx: Db, user: UserRow, { app_id: appId, email_key: subject }: store.RecoveryRow) {
  if (!user.email_verified || user.email_key !== subject) return false
  const account = { tenantId: user.tenant_id, appId, provider: 'email', issuer: '', subject } as const
  return (await findUserOf(tx, account, null)) === user.id
}

/**
 * The recovery that a new passkey completes, as it is now: the challenge of the passkey was made minutes ago.
 * @throws challenge_expired, email_sign_in_disabled, email_recovery_disabled
 */
async function requireReady(
  tx: Db,
  deps: Deps,
  of: { tenantId: Id<'ten'>; userId: Id<'usr'>; recoveryId: Id<'rcv'> },
): Promise<store.RecoveryRow> {
  const user = await lockAccount(tx, of.tenantId, of.userId)
  const row = user && (await store.lockPending(tx, user))
  if (user === undefined || row?.id !== of.recoveryId || !store.isReady(row, deps.now()))
    throw fail('challenge_expired')
  requireRecoverable(await signInSettings({ ...deps, db: tx }, of.tenantId, row.app_id))
  // A second factor that the account got meanwhile is not gone round.
  if (user.mfa_enabled || !(await hasAddress(tx, user, row))) throw fail('challenge_expired')
  return row
}

/** Answers the hook of a new passkey: see `Hooks`. */
export const passkeyAdded: Hooks['passkeyAdded'] = async (tx, deps, { passkeyId, recoveryId, ...of }) => {
  if (recoveryId === null) {
    await cancelPending(tx, deps, of, 'passkey')
    return
  }
  const { tenantId, userId, cause } = of
  const row = await requireReady(tx, deps, { tenantId, userId, recoveryId })
  const now = deps.now()
  // A session that is signed in may be the attacker's.
  await endSessionsOf(tx, deps, tenantId, userId)
  await unlistCredential(tx, tenantId, userId, recoveryId)
  const completed = {
    ...row,
    status: 'completed',
    passkey_id: passkeyId,
    ended_at: now,
    due_at: now,
    updated_at: now,
  } as const
  await store.storeRecovery(tx, completed)
  await publish(tx, deps, eventOf(row, 'user.recovery_completed', { userId, recoveryId, passkeyId }, cause))
  tx.afterCommit(deps.wake.tasks)
}

/** Answers the hook of a recovery that is refuted: see `Hooks`. */
export const recoveryRefuted: Hooks['recoveryRefuted'] = async (tx, deps, { by, ...of }) => {
  await cancelPending(tx, deps, of, by)
}
