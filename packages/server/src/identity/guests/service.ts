import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { existing, failures, invalid, pathId } from '../../platform/http/errors.ts'
import { mergeMetadata } from '../../platform/http/metadata.ts'
import type { Call, Caller, MaybeUserCall, Page } from '../../platform/http/route.ts'
import { newId } from '../../platform/ids.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { listScope, METADATA_CLAIM_PREFIX, resolveApp } from '../../tenancy/apps/service.ts'
import { confirmSession, startSession } from '../sessions/service.ts'
import { addGuest, findUserRecord, promoteGuest } from '../users/service.ts'
import { finishExpiry } from './expiry.ts'
import type { ConvertedGuest, ConvertGuest, CreateGuest, Guest, GuestWithTokens, ListGuests } from './schema.ts'
import * as store from './store.ts'

export const GUEST_ERRORS = {
  already_converted: [409, 'This guest was already converted to a user.'],
} as const

const fail = failures(GUEST_ERRORS)

const TTL_MINUTES_DEFAULT = 1440
const MINUTE_MS = 60_000

/** The guests that a call can access: with a publishable key, only the current user's own. @throws not_found */
function reachOf({ caller, user }: Omit<MaybeUserCall, 'origin'>): store.Reach {
  if (caller.keyType === 'publishable' && user === null) throw fail('not_found')
  return { tenantId: caller.tenantId, appId: caller.appId, userId: user?.id ?? null }
}

async function create(deps: Deps, { caller, origin }: Call, input: CreateGuest): Promise<GuestWithTokens> {
  const appId = await resolveApp(deps, caller, input.appId)
  await deps.quotas.require(deps.db, caller.tenantId, 'users')
  const metadata = mergeMetadata({}, input.metadata)
  return deps.db.tx(async (tx) => {
    const inTx = { ...deps, db: tx }
    const { tenantId } = caller
    const now = deps.now()
    const user = await addGuest(inTx, tenantId, appId)
    const row: store.GuestRow = {
      tenant_id: tenantId,
      id: newId('gst'),
      app_id: appId,
      user_id: user.id as store.GuestRow['user_id'],
      party_id: user.partyId,
      status: 'active',
      metadata,
      expires_at: new Date(now.getTime() + (input.ttlMinutes ?? TTL_MINUTES_DEFAULT) * MINUTE_MS),
      created_at: now,
      updated_at: now,
    }
    await store.insertGuest(tx, row)
    const data = { guestId: row.id, userId: row.user_id, partyId: row.party_id }
    await publish(tx, deps, eventOf(row, 'guest.created', data, { caller, origin }))
    const session = {
      tenantId,
      appId,
      userId: row.user_id,
      amr: ['guest'],
      method: null,
      endsAt: row.expires_at,
      isNewUser: true,
    }
    const tokens = await startSession(inTx, { ...session, caller, origin })
    return { ...store.toGuest(row, now), ...tokens }
  })
}

/**
 * Starts a guest session: creates a user hidden from lists, and a session that ends with the guest.
 * @throws not_found (names `appId`), quota_exceeded, sign_in_refused, sign_in_hook_failed
 */
export function createGuest(deps: Deps, call: Call, input: CreateGuest): Promise<GuestWithTokens> {
  return permitting(deps, (permitted) => create(permitted, call, input))
}

/** A page of guest sessions, newest first. */
export async function listGuests(deps: Deps, caller: Caller, query: ListGuests): Promise<Page<Guest>> {
  const scope = await listScope(deps, caller, query)
  const filter = { ...scope, status: query.status ?? null, now: deps.now() }
  return store.listGuests(deps.db, filter, query)
}

/** Returns a guest, also one that has ended. @throws not_found, also for another user's guest */
export async function getGuest(deps: Deps, call: Omit<MaybeUserCall, 'origin'>, id: string): Promise<Guest> {
  return store.toGuest(existing(await store.findGuest(deps.db, reachOf(call), pathId('gst', id))), deps.now())
}

async function lockOwn(tx: Db, call: MaybeUserCall, id: string): Promise<store.GuestRow> {
  return existing(await store.lockGuest(tx, reachOf(call), pathId('gst', id)))
}

/** Ends a guest session. Returns a session that has already ended unchanged. @throws not_found, already_converted */
export async function expireGuest(deps: Deps, call: MaybeUserCall, id: string): Promise<Guest> {
  return deps.db.tx(async (tx) => {
    const before = await lockOwn(tx, call, id)
    const now = deps.now()
    if (before.status === 'converted') throw fail('already_converted')
    if (before.status === 'expired') return store.toGuest(before, now)
    const row: store.GuestRow = { ...before, status: 'expired', updated_at: now }
    await store.setStatus(tx, row)
    await finishExpiry(tx, deps, row, call)
    return store.toGuest(row, now)
  })
}

/** The session of a converted guest: the one that makes the call or, for a server, a new one. @throws session_revoked */
async function sessionOf(tx: Db, deps: Deps, { caller, origin, user }: MaybeUserCall, row: store.GuestRow) {
  const { tenant_id: tenantId, app_id: appId, user_id: userId } = row
  const of = { tenantId, appId, userId, caller, origin }
  const settled = await confirmSession(tx, deps, of, user?.sessionId ?? null)
  if (settled !== undefined) return settled
  // The user logged out after the access token was checked.
  if (user !== null) throw fail('session_revoked')
  return startSession({ ...deps, db: tx }, { ...of, amr: ['guest'], method: null })
}

const required = (field: string) => ({
  field,
  code: 'required',
  message: 'Send an email or an external id, which identifies the user from now on.',
})

/** Guests must not write what verifiers of ID tokens take from the app. @throws validation_failed */
function refuseOwnClaims({ metadata = {} }: ConvertGuest): void {
  const key = Object.keys(metadata).find((name) => name.startsWith(METADATA_CLAIM_PREFIX))
  if (key !== undefined)
    throw invalid(
      `metadata.${key}`,
      `Keys that begin with "${METADATA_CLAIM_PREFIX}" are for your server: set it with a secret key.`,
      'server_only',
    )
}

async function convert(deps: Deps, call: MaybeUserCall, id: string, input: ConvertGuest): Promise<ConvertedGuest> {
  if (input.email == null && input.externalId == null)
    throw fail('validation_failed', [required('email'), required('externalId')])
  if (call.caller.keyType === 'publishable') refuseOwnClaims(input)
  return deps.db.tx(async (tx) => {
    const before = await lockOwn(tx, call, id)
    const inTx = { ...deps, db: tx }
    const now = deps.now()
    if ((await findUserRecord(inTx, before.tenant_id, before.user_id))?.status === 'suspended')
      throw fail('user_suspended')
    if (before.status === 'converted') throw fail('already_converted')
    if (store.isExpired(before, now)) throw fail('guest_expired')
    await deps.quotas.require(tx, before.tenant_id, 'users')
    const row: store.GuestRow = { ...before, status: 'converted', updated_at: now }
    await promoteGuest(tx, deps, call, row.user_id, input)
    await store.setStatus(tx, row)
    await publish(tx, deps, eventOf(row, 'guest.converted', { guestId: row.id, userId: row.user_id }, call))
    const tokens = await sessionOf(tx, deps, call, row)
    const user = existing(await findUserRecord(inTx, row.tenant_id, row.user_id))
    return { guest: store.toGuest(row, now), user, ...tokens }
  })
}

/**
 * Converts a guest to a user, who keeps id, party and session. Of concurrent calls, only one succeeds. If another user has
 * the email or external id, the call is refused and nothing is merged.
 * @throws not_found, user_suspended, already_converted, guest_expired, quota_exceeded, already_exists, sign_in_refused,
 * sign_in_hook_failed
 */
export function convertGuest(
  deps: Deps,
  call: MaybeUserCall,
  id: string,
  input: ConvertGuest,
): Promise<ConvertedGuest> {
  return permitting(deps, (permitted) => convert(permitted, call, id, input))
}
