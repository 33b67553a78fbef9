import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page, UserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { ownUser, requireStepUp } from '../sessions/service.ts'
import { lockUser } from '../users/service.ts'
import { tell } from './add.ts'
import { fail } from './errors.ts'
import type { Identity, ListIdentities } from './schema.ts'
import * as store from './store.ts'

export { addIdentity, tell } from './add.ts'
export { IDENTITY_ERRORS } from './errors.ts'
export { attachAccount } from './link.ts'
export { type Account, findUserOf, findWaysIn, lockAccount, removeAccount, type WaysIn } from './store.ts'
export { signInVouched, tokenOnce } from './vouched.ts'

/** A page of the current user's identities, newest first. */
export async function listIdentities(
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  query: ListIdentities,
): Promise<Page<Identity>> {
  return store.listIdentities(deps.db, tenantId, userId, query)
}

/** The same for a developer. @throws not_found */
export async function listIdentitiesOf(
  deps: Deps,
  caller: Caller,
  userId: string,
  query: ListIdentities,
): Promise<Page<Identity>> {
  return listIdentities(deps, caller.tenantId, await ownUser(deps, caller, userId), query)
}

/**
 * The last way to sign in stays: without it, the user could never come back. Call it in the transaction that removes one, with
 * the user locked: of two parallel removals, the second sees the first. @throws last_sign_in_method
 */
export async function requireOtherWayIn(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  if ((await store.countWaysIn(tx, tenantId, userId)) < 2) throw fail('last_sign_in_method')
}

/** Ends all email addresses of a user as ways in. One that replaces them follows in the same transaction. */
export async function unlinkAddresses(tx: Db, deps: Deps, call: Call, userId: Id<'usr'>): Promise<void> {
  for (const row of await store.findAddressesToRemove(tx, call.caller.tenantId, userId)) {
    await store.deleteIdentity(tx, row)
    await tell(tx, deps, call, row, 'identity.unlinked')
  }
}

/**
 * Removes all identities of a guest who has ended, and is locked: nobody can sign in as them again, and what they linked would
 * be refused to its owner for ever. @param cause undefined if their time was over
 */
export async function releaseIdentities(
  tx: Db,
  deps: Deps,
  { tenantId, userId, cause }: { tenantId: Id<'ten'>; userId: Id<'usr'>; cause?: Call | undefined },
): Promise<void> {
  for (const row of await store.findIdentitiesToRemove(tx, tenantId, userId)) {
    await store.deleteIdentity(tx, row)
    await tell(tx, deps, cause, row, 'identity.unlinked')
  }
}

/**
 * Removes an identity from the current user, and returns its final state. Sessions that it began go on.
 * @throws not_found, last_sign_in_method, and the errors of `requireStepUp`
 */
export async function unlinkIdentity(deps: Deps, call: UserCall, id: string): Promise<Identity> {
  const { caller, user } = call
  const find = async (db: Db) =>
    existing(await store.findIdentityToRemove(db, caller.tenantId, user.id, pathId('idn', id)))
  await find(deps.db)
  await requireStepUp(deps, caller, user)
  return deps.db.tx(async (tx) => {
    existing(await lockUser(tx, deps, caller.tenantId, user.id))
    const row = await find(tx)
    // One that signs nobody in can always go.
    if (await store.isWayIn(tx, caller.tenantId, row.id)) await requireOtherWayIn(tx, caller.tenantId, user.id)
    await store.deleteIdentity(tx, row)
    await tell(tx, deps, call, row, 'identity.unlinked')
    return store.toIdentity(row)
  })
}
