import { type LockedUser, lockUser } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, notFoundField } from '../../platform/http/errors.ts'
import type { Caller, CurrentUser, Origin } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { getApp } from '../../tenancy/apps/service.ts'
import { WALLET_ERRORS } from './errors.ts'
import * as store from './store.ts'

const fail = failures(WALLET_ERRORS)

/** Who does it, from where and for whom. */
export interface Call {
  caller: Caller
  origin: Origin
  user: CurrentUser
}

/** @throws user_session_required where a server acts for the user and the app does not let it touch users' keys */
export async function requireOwnSession(deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<void> {
  if (user.sessionId !== null) return
  const { mpc } = await getApp(deps, caller, user.appId)
  if (!mpc.allowServer) throw fail('user_session_required')
}

/**
 * The user, who from here on neither goes nor ends nor gets a wallet by another call.
 * @throws session_revoked, user_suspended, guest_expired
 */
export async function lockOwner(tx: Db, deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<LockedUser> {
  const held = await lockUser(tx, deps, caller.tenantId, user.id)
  if (held === undefined) throw user.sessionId === null ? notFoundField('x-user-id') : fail('session_revoked')
  if (held.suspended) throw fail('user_suspended')
  if (held.ended) throw fail('guest_expired')
  return held
}

/** The current user's wallet if it has this id; undefined for another's and for none. */
export async function findOwnWallet(
  db: Db,
  { caller, user }: Omit<Call, 'origin'>,
  id: string,
): Promise<store.WalletRow | undefined> {
  const row = isId('wal', id) ? await store.findWallet(db, caller.tenantId, id, user.appId) : undefined
  return row?.user_id === user.id ? row : undefined
}

/**
 * The same, locked until the transaction ends, its user held before: what changes a wallet's shares is done here, one call
 * after the other.
 */
export async function lockOwnWallet(
  tx: Db,
  deps: Deps,
  call: Omit<Call, 'origin'>,
  id: string,
): Promise<store.WalletRow | undefined> {
  await lockOwner(tx, deps, call)
  const row = isId('wal', id)
    ? await store.lockWallet(tx, call.caller.tenantId, id as Id<'wal'>, call.user.appId)
    : undefined
  return row?.user_id === call.user.id ? row : undefined
}
