import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { eventOf, newEvent, publish } from '../../platform/events/events.ts'
import { existing, fail, notFoundField, pathId } from '../../platform/http/errors.ts'
import { changeMetadata } from '../../platform/http/metadata.ts'
import { type Call, type Caller, type Page, paging } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { forgetApps, listScope, resolveApp } from '../../tenancy/apps/service.ts'
import { tenantContext } from '../../tenancy/tenant/service.ts'
import { endSessionsOf, type SignIn, startSession } from '../sessions/service.ts'
import { foldCase, parseEmail } from './email.ts'
import * as lists from './list-store.ts'
import { lockOwn } from './lock.ts'
import { type NewUser, newUserRow, searchText, trimmed } from './new-user.ts'
import type { CreateUser, ListUsers, SignedIn, UpdateUser, User } from './schema.ts'
import * as store from './store.ts'

export { type Email, parseEmail } from './email.ts'
export { deleteUser } from './erasure.ts'
export { confirmEmail, releaseEmail } from './own-email.ts'
export {
  activeUsers,
  findAnyUser,
  type LockedUser,
  listCredential,
  lockAccount,
  mayRecover,
  setSecondFactor,
  toUser,
  type UserRow,
  unlistCredential,
  userSeen,
} from './store.ts'

/** Unique constraints, and the field of each. */
const UNIQUE_FIELDS: Record<string, string> = { users_email: 'email', users_external_id: 'externalId' }

/** Violated if the app was deleted after it was looked up. */
const APP_CONSTRAINT = 'users_app_fk'

/** Throws the API error for a violated constraint. @throws already_exists, not_found (names `appId`) */
const refuse =
  (deps: Deps) =>
  (error: unknown): never => {
    const constraint = violatedConstraint(error) ?? ''
    if (constraint === APP_CONSTRAINT) {
      forgetApps(deps)
      throw notFoundField('appId')
    }
    const field = UNIQUE_FIELDS[constraint]
    if (field === undefined) throw error
    throw fail('already_exists').about(field, `Another user of this app has this ${field}.`)
  }

async function newRow(deps: Deps, tenantId: Id<'ten'>, input: NewUser): Promise<store.UserRow> {
  const { namespace } = await tenantContext(deps, tenantId)
  return newUserRow({ tenantId, namespace, now: deps.now() }, input)
}

const created = (row: store.UserRow, now: Date, cause: Call) =>
  newEvent(now, eventOf(row, 'user.created', { userId: row.id, email: row.email ?? '', partyId: row.party_id }, cause))

/** Creates a user with its party and its `user.created`, in one statement. @throws already_exists (409, names the field), quota_exceeded */
export async function addUser(deps: Deps, call: Call, input: NewUser): Promise<User> {
  await deps.quotas.require(deps.db, call.caller.tenantId, 'users')
  const row = await newRow(deps, call.caller.tenantId, input)
  await store.insertUser(deps.db, row, created(row, row.created_at, call)).catch(refuse(deps))
  deps.db.afterCommit(deps.wake.outbox)
  return store.toUser(row)
}

/** Creates a user in the app of the call. @throws already_exists, not_found (names `appId`), quota_exceeded */
export async function createUser(deps: Deps, call: Call, input: CreateUser): Promise<User> {
  return addUser(deps, call, { ...input, appId: await resolveApp(deps, call.caller, input.appId) })
}

/** Creates the user of a guest: hidden from lists, and without an event. @throws not_found (names `appId`) */
export async function addGuest(deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<User> {
  const row = await newRow(deps, tenantId, { appId })
  await store.insertGuest(deps.db, row).catch(refuse(deps))
  return store.toUser(row)
}

/**
 * Turns the user of a guest into a regular user: keeps the record, its party and everything that belongs to it, and emits
 * `user.created`. Call it in the transaction that converts the guest. @throws already_exists (409, names the field)
 */
export async function promoteGuest(
  tx: Db,
  deps: Deps,
  call: Call,
  id: Id<'usr'>,
  input: Omit<NewUser, 'id' | 'appId'>,
): Promise<User> {
  // Locked, because the user is counted by its current trust level.
  const before = existing(await store.lockAnyUser(tx, call.caller.tenantId, id))
  // Uses this transaction: while it holds a connection, it must not wait for another one.
  const draft = await newRow({ ...deps, db: tx }, before.tenant_id, { ...input, id, appId: before.app_id })
  const row = {
    ...before,
    email: draft.email,
    email_key: draft.email_key,
    name: draft.name,
    external_id: draft.external_id,
    metadata: draft.metadata,
    search_text: draft.search_text,
    updated_at: deps.now(),
  }
  await store.promoteGuest(tx, row, created(row, row.updated_at, call)).catch(refuse(deps))
  tx.afterCommit(deps.wake.outbox)
  return store.toUser(row)
}

/** Signs a user in and returns the record with the tokens. @throws user_suspended */
export async function signIn(deps: Deps, input: SignIn, isNewUser: boolean): Promise<SignedIn> {
  const tokens = await startSession(deps, { ...input, isNewUser })
  const row = await store.findAnyUser(deps.db, input.tenantId, input.userId)
  if (row === undefined) throw fail('user_suspended')
  return { user: store.toUser(row), isNewUser, ...tokens }
}

/** A user in its API form, also if it is a guest. Undefined if it does not exist. */
export async function findUserRecord(deps: Deps, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<User | undefined> {
  const row = await store.findAnyUser(deps.db, tenantId, id)
  return row && store.toUser(row)
}

/** The user with this email in the app, except guests. @throws validation_failed if it is not an email */
export async function findUserByEmail(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  email: string,
  field = 'email',
): Promise<{ key: string; id: Id<'usr'> | undefined }> {
  const { key } = parseEmail(email, field)
  return { key, id: await store.findUserByEmail(deps.db, tenantId, appId, key) }
}

/** Prevents new sessions of a guest, in the transaction that ends the guest. */
export async function endGuest(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<void> {
  await lockOutActs(tx, id)
  await store.endGuest(tx, tenantId, id)
}

/** Locks a user until the transaction ends: deletion, suspension, conversion and a guest's end wait. */
export function lockUser(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  id: Id<'usr'>,
): Promise<store.LockedUser | undefined> {
  return store.lockUserWithStatus(tx, deps.now(), tenantId, id)
}

/** Stores who can move a user's assets, in the transaction that changes their wallet. */
export async function setTrustLevel(
  tx: Db,
  deps: Deps,
  of: { tenantId: Id<'ten'>; id: Id<'usr'>; trustLevel: User['trustLevel'] },
): Promise<void> {
  await store.setTrustLevel(tx, deps.now(), of)
}

/** @throws not_found, also for users of another tenant or app */
export async function getUser(deps: Deps, caller: Caller, id: string): Promise<User> {
  return store.toUser(existing(await store.findUser(deps.db, caller, pathId('usr', id))))
}

/** A page of the users that a filter finds, newest first; `total` is exact. */
export async function listUsers(deps: Deps, caller: Caller, query: ListUsers): Promise<Page<User>> {
  const { page, pageSize, offset } = paging(query)
  const scope = await listScope(deps, caller, query)
  const { namespace } = await tenantContext(deps, caller.tenantId)
  const search = foldCase(query.search ?? '')
  const filter: lists.UserFilter = {
    ...scope,
    trustLevel: query.trust_level ?? null,
    search: search === '' ? null : lists.searchCondition(search, namespace),
  }
  const { rows, total } = await lists.listUsers(deps.db, filter, query.sort, offset, pageSize)
  return { items: rows.map(store.toUser), total, page, pageSize }
}

function changed(before: store.UserRow, input: UpdateUser): { row: store.UserRow; fields: string[] } {
  const row = { ...before }
  if (input.email !== undefined) {
    const email = input.email === null ? null : parseEmail(input.email)
    row.email = email?.shown ?? null
    row.email_key = email?.key ?? null
    if (row.email_key !== before.email_key) row.email_verified = false
  }
  if (input.name !== undefined) row.name = trimmed(input.name)
  if (input.externalId !== undefined) row.external_id = input.externalId
  if (input.status !== undefined) row.status = input.status
  row.metadata = changeMetadata(before.metadata, input.metadata)
  row.search_text = searchText(row)
  const fields = [
    ...(row.email !== before.email ? ['email'] : []),
    ...(row.name !== before.name ? ['name'] : []),
    ...(row.external_id !== before.external_id ? ['externalId'] : []),
    ...(row.status !== before.status ? ['status'] : []),
    ...(JSON.stringify(row.metadata) !== JSON.stringify(before.metadata) ? ['metadata'] : []),
  ]
  return { row, fields }
}

/** Whoever is suspended cannot cancel a recovery, and a new address has not waited yet: both end one that is pending. */
async function refuteRecovery(
  tx: Db,
  deps: Deps,
  before: store.UserRow,
  row: store.UserRow,
  cause: Call,
): Promise<void> {
  if (!store.mayRecover(before)) return
  const of = { tenantId: row.tenant_id, userId: row.id, cause }
  if (row.email_key !== before.email_key) await deps.hooks.recoveryRefuted(tx, deps, { ...of, by: 'email_changed' })
  else if (row.status === 'suspended') await deps.hooks.recoveryRefuted(tx, deps, { ...of, by: 'suspended' })
}

/** Events do not say what was written. The log does for this, so that a row from before a suspension is found when it comes back. */
async function noteStatus(tx: Db, deps: Deps, before: store.UserRow, row: store.UserRow, cause: Call): Promise<void> {
  if (row.status === before.status) return
  const action = row.status === 'suspended' ? 'user.suspended' : 'user.unsuspended'
  const { tenant_id: tenantId, app_id: appId, id } = row
  await recordAuditOnly(tx, deps, { tenantId, appId, action, target: id, userId: id, cause })
}

/** Changes the given fields. Emits no event if nothing changed. @throws not_found, already_exists */
export async function updateUser(deps: Deps, call: Call, id: string, input: UpdateUser): Promise<User> {
  return deps.db
    .tx(async (tx) => {
      const before = await lockOwn(tx, call.caller, id)
      const { row, fields } = changed(before, input)
      if (fields.length === 0) return store.toUser(before)
      row.updated_at = deps.now()
      await store.updateUser(tx, row)
      if (row.status === 'suspended' && before.status !== 'suspended')
        await endSessionsOf(tx, deps, row.tenant_id, row.id)
      await refuteRecovery(tx, deps, before, row, call)
      await publish(tx, deps, eventOf(row, 'user.updated', { userId: row.id, changed: fields }, call))
      await noteStatus(tx, deps, before, row, call)
      return store.toUser(row)
    })
    .catch(refuse(deps))
}
