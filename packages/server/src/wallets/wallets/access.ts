import { requireProven } from '../../identity/sessions/service.ts'
import { type LockedUser, lockUser } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { getApp } from '../../tenancy/apps/service.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** Every call about one's own wallet is for a user. */
export type Call = UserCall

/**
 * For everything about keys that the user has, alone or in part.
 * @throws user_session_required if a server acts for the user, and the app does not let servers use users' keys;
 * stronger_sign_in_required if somebody else vouched for the user, and the account has a passkey or a second factor
 */
export async function requireOwnSession(deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<void> {
  if (user.sessionId !== null) return requireProven(deps, caller, user)
  const { mpc } = await getApp(deps, caller, user.appId)
  if (!mpc.allowServer) throw fail('user_session_required')
}

/**
 * The user, locked: until the transaction ends they are not deleted, do not expire and get no wallet by another call.
 * @throws session_revoked, user_suspended, guest_expired
 */
export async function lockOwner(tx: Db, deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<LockedUser> {
  const held = await lockUser(tx, deps, caller.tenantId, user.id)
  if (held === undefined) throw user.sessionId === null ? notFoundField('x-user-id') : fail('session_revoked')
  if (held.suspended) throw fail('user_suspended')
  if (held.ended) throw fail('guest_expired')
  return held
}

/** The current user's wallet if it has this id, else undefined. */
export async function findOwnWallet(
  db: Db,
  { caller, user }: Omit<Call, 'origin'>,
  id: string,
  look: typeof store.findWallet = store.findWallet,
): Promise<store.WalletRow | undefined> {
  const row = isId('wal', id) ? await look(db, { tenantId: caller.tenantId, appId: user.appId }, id) : undefined
  return row?.user_id === user.id ? row : undefined
}

/** The same, locked until the transaction ends, after its user: changes of a wallet's shares wait for each other here. */
export async function lockOwnWallet(
  tx: Db,
  deps: Deps,
  call: Omit<Call, 'origin'>,
  id: string,
): Promise<store.WalletRow | undefined> {
  await lockOwner(tx, deps, call)
  return findOwnWallet(tx, call, id, store.lockWallet)
}
