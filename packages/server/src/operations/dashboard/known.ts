import { randomBytes } from 'node:crypto'
import { publicUrl } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { MEMBER, OPERATOR } from '../../platform/events/events.ts'
import { addressIn } from '../../platform/http/request.ts'
import type { EntranceRequest, Origin } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { KeyHolder } from '../../platform/security/authenticator.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { scopesOf } from '../../platform/security/roles/roles.ts'
import { VERSION } from '../../platform/version.ts'
import { fail } from './errors.ts'
import { checkCsrf, checkOrigin, csrfTokenOf, SESSION_MS, tokenOf, tokensSent } from './request-checks.ts'
import type { Session } from './schema.ts'
import * as store from './store.ts'

/** A session ends after this time without use. */
const UNUSED_MS = 2 * 3_600_000
/** That a session is in use is written down at most this often. */
const TOUCH_MS = 60_000

export const timesOf = (deps: Pick<Deps, 'now'>) => {
  const now = deps.now()
  return { now, usedAfter: new Date(now.getTime() - UNUSED_MS) }
}

/** A valid session, with the requested tenant. */
export interface Known {
  token: string
  row: store.FoundSession
  holder: KeyHolder
  tenant: { id: Id<'ten'>; name: string; defaultAppId: Id<'app'> }
}

/**
 * The app that a member's session shows. A member who has some apps acts in one of them at a time, as a key that is bound to it
 * does, so that every endpoint holds them to it. @throws not_found for another one
 */
function appOf({ member_app_ids: ids }: store.FoundSession, wanted: string | undefined): Id<'app'> | null {
  if (ids === null) return null
  const app = wanted === undefined ? ids[0] : ids.find((id) => id === wanted)
  if (app === undefined) throw fail('not_found')
  return app
}

/** A member as a caller. What belongs to a key belongs to the session and the app that it shows, such as idempotency keys. */
function memberHolder(row: store.FoundSession, tenantId: Id<'ten'>, appId: Id<'app'> | null): KeyHolder {
  const { member_id: id, role, verified_at: verifiedAt } = row
  if (id === null || role === null) throw fail('session_invalid')
  const own = sha256(`${row.hash.toString('hex')} ${appId ?? ''}`).toString('hex', 0, 8)
  return {
    tenantId,
    keyType: 'secret',
    allowedOrigins: [],
    keyId: `${MEMBER}${id}_${own}`,
    name: row.member_name ?? '',
    scopes: scopesOf(role),
    appId,
    allowedIps: [],
    expiresAtMs: null,
    member: { id, role, verifiedAtMs: verifiedAt?.getTime() ?? null },
  }
}

/** The caller that a session acts as: its key or member with their current rights, or the operator. */
function holderOf(row: store.FoundSession, tenantId: Id<'ten'>, app: string | undefined): KeyHolder {
  if (row.member_id !== null) return memberHolder(row, tenantId, appOf(row, app))
  const common = { tenantId, keyType: 'secret', allowedOrigins: [] } as const
  if (row.key_id === null) {
    const keyId: Id<'key'> = `${OPERATOR}${row.hash.toString('hex', 0, 8)}`
    return { ...common, keyId, name: 'Dashboard', scopes: ['*'], appId: null, allowedIps: [], expiresAtMs: null }
  }
  return {
    ...common,
    keyId: row.key_id,
    name: row.key_name ?? '',
    scopes: row.scopes ?? [],
    appId: row.app_id,
    allowedIps: row.allowed_ips ?? [],
    expiresAtMs: row.key_ends_at?.getTime() ?? null,
  }
}

const hasEnded = (row: store.FoundSession, now: Date) =>
  (row.key_id !== null && (row.scopes === null || (row.key_ends_at !== null && row.key_ends_at <= now))) ||
  (row.member_id !== null && row.role === null)

/** What a session shows, apart from its token. */
type Shown = Omit<Known, 'token'>

/** A session with the tenant and the app that were asked for. @throws not_found for those that it may not show */
function shownBy(row: store.FoundSession, app: string | undefined): Shown {
  const { chosen_id: id, chosen_name: name, default_app_id: defaultAppId } = row
  const isOthers = row.tenant_id !== null && row.tenant_id !== id
  if (id === null || name === null || defaultAppId === null || isOthers) throw fail('not_found')
  return { row, holder: holderOf(row, id, app), tenant: { id, name, defaultAppId } }
}

/** The session of a token. @throws session_invalid, not_found (another tenant than it may show), ip_not_allowed */
async function know(deps: Deps, token: string, request: Pick<EntranceRequest, 'headers' | 'address'>): Promise<Known> {
  const hash = sha256(token)
  const times = timesOf(deps)
  const wanted = request.headers['x-halfkey-tenant']
  const row = await store.findSession(deps.db, hash, wanted === undefined ? null : String(wanted), times)
  if (row === undefined || hasEnded(row, times.now)) throw fail('session_invalid')
  const app = request.headers['x-halfkey-app']
  const shown = shownBy(row, app === undefined ? undefined : String(app))
  const { allowedIps } = shown.holder
  if (allowedIps.length > 0 && !addressIn(request.address, allowedIps)) throw fail('ip_not_allowed')
  if (times.now.getTime() - row.last_used_at.getTime() > TOUCH_MS) await store.touchSession(deps.db, hash, times.now)
  return { token, ...shown }
}

/** The session with this hash, of whose browser nothing else is known. Undefined if it has ended. */
export async function knownBy(deps: Deps, hash: Buffer): Promise<Shown | undefined> {
  const times = timesOf(deps)
  const row = await store.findSession(deps.db, hash, null, times)
  return row === undefined || hasEnded(row, times.now) ? undefined : shownBy(row, undefined)
}

/** The checks of every call but the sign-in. @throws as `enterDashboard` */
export function enter(deps: Deps, request: EntranceRequest): Promise<Known> {
  checkOrigin(deps.config, request)
  const token = tokenOf(request.headers)
  checkCsrf(request, token)
  return know(deps, token, request)
}

/** A session as its page sees it. */
export async function describe(deps: Deps, { token, row, holder, tenant }: Known): Promise<Session> {
  const { id, name, defaultAppId } = tenant
  const { member } = holder
  const ids = row.member_app_ids
  return {
    via: member === undefined ? (row.key_id === null ? 'link' : 'key') : 'member',
    member:
      member === undefined
        ? null
        : {
            id: member.id,
            name: row.member_name ?? '',
            email: row.member_email ?? '',
            role: member.role,
            verifiedAt: row.verified_at?.toISOString() ?? null,
          },
    apps: ids === null ? null : await store.listAppNames(deps.db, id, ids),
    keyId: row.key_id,
    keyName: row.key_name,
    scopes: [...holder.scopes],
    appId: holder.appId,
    tenant: { id, name },
    tenants: row.tenant_id === null ? await store.listTenantNames(deps.db) : [{ id, name }],
    csrfToken: csrfTokenOf(token),
    createdAt: row.created_at.toISOString(),
    expiresAt: row.expires_at.toISOString(),
    environment: deps.config.env,
    publicUrl: publicUrl(deps.config),
    version: VERSION,
    defaultAppId: holder.appId ?? defaultAppId,
  }
}

/** What a session stands for: a key, a member, or neither. */
export type Grant = Pick<store.SessionRow, 'tenant_id' | 'key_id' | 'key_hash' | 'member_id' | 'verified_at'>

/** The operator's. */
export const NOBODY = { key_id: null, key_hash: null, member_id: null, verified_at: null } as const

/** Begins the session and ends those that the browser had. In the audit log of the tenant that it shows first. */
export async function begin(
  tx: Db,
  deps: Deps,
  grant: Grant,
  request: EntranceRequest,
  origin: Origin,
): Promise<Known> {
  const token = randomBytes(32).toString('base64url')
  const now = deps.now()
  for (const old of tokensSent(request.headers)) await store.deleteSession(tx, sha256(old))
  await store.insertSession(tx, {
    ...grant,
    hash: sha256(token),
    last_used_at: now,
    expires_at: new Date(now.getTime() + SESSION_MS),
    created_at: now,
    version: 0,
    mac: null,
  })
  const known = await know({ ...deps, db: tx }, token, request)
  await noteAct(tx, deps, known, origin, 'dashboard.signed_in')
  return known
}

/** Notes an act of a session in the audit log. */
export function noteAct(
  tx: Db,
  deps: Deps,
  { row, holder, tenant }: Shown,
  origin: Origin,
  action:
    | 'dashboard.signed_in'
    | 'dashboard.signed_out'
    | 'member.joined'
    | 'member.passkey_added'
    | 'member.passkey_removed'
    | 'member.account_connected'
    | 'member.account_disconnected',
): Promise<void> {
  const cause = { caller: holder, origin }
  return recordAuditOnly(tx, deps, {
    tenantId: tenant.id,
    appId: holder.appId,
    action,
    target: row.member_id ?? row.key_id ?? tenant.id,
    cause,
  })
}
