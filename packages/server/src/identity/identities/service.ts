import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { existing, failures, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page, UserCall } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { ownUser, requireStepUp } from '../sessions/service.ts'
import { lockUser } from '../users/service.ts'
import type { Identity, ListIdentities } from './schema.ts'
import * as store from './store.ts'

export { type Account, findUserOf, findWaysIn, lockAccount, removeAccount, type WaysIn } from './store.ts'

/** How many identities a user can have. */
export const IDENTITIES_MAX = 50

export const IDENTITY_ERRORS = {
  identity_unknown: [
    403,
    'No user has this identity, and this issuer does not create users. A user can link it while they are signed in.',
  ],
  last_sign_in_method: [409, 'Without this, the user could not sign in. Add another way to sign in first.'],
  identity_limit: [409, `A user can have at most ${IDENTITIES_MAX} identities. Unlink one first.`],
} as const

const fail = failures(IDENTITY_ERRORS)

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

/** Makes an account an identity of a user. The account is locked and nobody's. */
export async function addIdentity(
  tx: Db,
  deps: Deps,
  { tenantId, appId, provider, issuer, subject }: store.Account,
  userId: Id<'usr'>,
  username: string | null,
): Promise<store.IdentityRow> {
  const row: store.IdentityRow = {
    tenant_id: tenantId,
    id: newId('idn'),
    app_id: appId,
    user_id: userId,
    provider,
    issuer,
    subject,
    username,
    created_at: deps.now(),
    mac: null,
  }
  await store.insertIdentity(tx, row)
  return row
}

/** Tells that a user has an identity, or has it no more. */
export async function tell(
  tx: Db,
  deps: Deps,
  call: Call,
  row: store.IdentityRow,
  type: 'identity.linked' | 'identity.unlinked',
): Promise<void> {
  const { provider } = row
  const data = { identityId: row.id, userId: row.user_id, provider, issuer: row.issuer === '' ? null : row.issuer }
  await publish(tx, deps, eventOf(row, type, data, call))
}

/**
 * The last way to sign in stays: without it, the user could never come back. Call it in the transaction that removes one, with
 * the user locked: of two parallel removals, the second sees the first. @throws last_sign_in_method
 */
export async function requireOtherWayIn(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  if ((await store.countWaysIn(tx, tenantId, userId)) < 2) throw fail('last_sign_in_method')
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
