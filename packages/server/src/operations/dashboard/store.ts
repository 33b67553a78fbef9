import { type Db, sql } from '../../platform/db/db.ts'
import { change, insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readJoined, readRecord, resealed, sealed, type Versioned } from '../../platform/security/records/access.ts'
import { API_KEY_RECORD } from '../../platform/security/records/api-key-record.ts'
import { type RecordRow, recordColumns } from '../../platform/security/records/kind.ts'
import type { Role } from '../../platform/security/roles/roles.ts'
import { MEMBER_RECORD } from '../members/records.ts'
import { DASHBOARD_SESSION_RECORD, LINK_RECORD } from './records.ts'

/** A one-time link as the table holds it. */
export interface LinkRow extends Versioned {
  hash: Buffer
  /** Null for the operator's. */
  tenant_id: Id<'ten'> | null
  expires_at: Date
  used_at: Date | null
  /** Null for the operator's. */
  member_id: Id<'mem'> | null
  /** An invitation: it counts until the member has signed in. */
  invites: boolean
  /** Who made it for the member, as the audit log names actors; null for the operator's. */
  made_by: string | null
  /** The address that it was mailed to, which whoever opens it can read; null for one that was shown to who made it. */
  proves_email: string | null
  created_at: Date
}

/** Writes a new link. */
export async function insertLink(db: Db, row: LinkRow): Promise<void> {
  await db.run(insertion('dashboard_links', await sealed(db, LINK_RECORD, row)))
}

/** Uses a link up. Of several at once one gets it; undefined for a link that is unknown, used or over. */
export async function claimLink(tx: Db, hash: Buffer, now: Date): Promise<LinkRow | undefined> {
  const before = await readRecord<LinkRow>(
    tx,
    LINK_RECORD,
    sql`
    select * from dashboard_links where hash = ${hash} and used_at is null and expires_at > ${now} for update`,
  )
  if (before === undefined) return undefined
  const row = await resealed(tx, LINK_RECORD, { ...before, used_at: now })
  await tx.run(sql`update dashboard_links set ${change(row, 'used_at version mac')} where hash = ${hash}`)
  tx.afterCommit(() => tx.records.committed(LINK_RECORD, row as object as RecordRow))
  return row
}

/** Deletes the links of a member. */
export async function deleteLinksOf(tx: Db, tenantId: Id<'ten'>, memberId: Id<'mem'>): Promise<void> {
  await tx.run(sql`delete from dashboard_links where tenant_id = ${tenantId} and member_id = ${memberId}`)
}

/** Ends the links and sessions of a member, in the transaction that removes them. */
export async function endMember(tx: Db, tenantId: Id<'ten'>, memberId: Id<'mem'>): Promise<void> {
  await deleteLinksOf(tx, tenantId, memberId)
  await tx.run(sql`delete from dashboard_sessions where tenant_id = ${tenantId} and member_id = ${memberId}`)
}

/** A session as the table holds it. */
export interface SessionRow extends Versioned {
  hash: Buffer
  /** Null for an operator's. */
  tenant_id: Id<'ten'> | null
  /** Null for a link's. */
  key_id: Id<'key'> | null
  key_hash: Buffer | null
  /** Null for an operator's and a key's. */
  member_id: Id<'mem'> | null
  /** When the member last proved who they are, by a passkey or a link; null for one who came by an email code. */
  verified_at: Date | null
  last_used_at: Date
  expires_at: Date
  created_at: Date
}

/** Writes a new session. */
export async function insertSession(tx: Db, row: SessionRow): Promise<void> {
  await tx.run(insertion('dashboard_sessions', await sealed(tx, DASHBOARD_SESSION_RECORD, row)))
}

/** A session with the tenant that it is asked for and with what its key may do now. */
export interface FoundSession extends SessionRow {
  /** The tenant; all null where there is none of this id. */
  chosen_id: Id<'ten'> | null
  chosen_name: string | null
  default_app_id: Id<'app'> | null
  /** The key; null where it has none, and where the key or this value of it is gone. */
  key_name: string | null
  scopes: string[] | null
  app_id: Id<'app'> | null
  allowed_ips: string[] | null
  key_ends_at: Date | null
  /** The member; null where it has none, and where the member is not active. */
  role: Role | null
  member_name: string | null
  member_email: string | null
  member_app_ids: Id<'app'>[] | null
}

/**
 * The session of this hash that is not over. `wanted` is the tenant to show; without one it is the session's own, and
 * the oldest for an operator.
 */
export function findSession(
  db: Db,
  hash: Buffer,
  wanted: string | null,
  times: { now: Date; usedAfter: Date },
): Promise<FoundSession | undefined> {
  return readJoined<FoundSession>(
    db,
    [DASHBOARD_SESSION_RECORD, API_KEY_RECORD, MEMBER_RECORD],
    sql`
    select s.*, ${recordColumns(DASHBOARD_SESSION_RECORD, 's')}, ${recordColumns(API_KEY_RECORD, 'k')},
      ${recordColumns(MEMBER_RECORD, 'm')}, t.id as chosen_id, t.name as chosen_name, t.default_app_id,
      k.name as key_name, k.scopes, k.app_id, k.allowed_ips,
      m.role, m.name as member_name, m.email as member_email, m.app_ids as member_app_ids,
      case when k.hash = s.key_hash then k.expires_at else least(k.expires_at, k.previous_until) end as key_ends_at
    from dashboard_sessions s
    left join tenants t
      on t.id = coalesce(${wanted}::text, s.tenant_id, (select o.id from tenants o order by o.id limit 1))
    left join api_keys k on k.tenant_id = s.tenant_id and k.id = s.key_id and k.revoked_at is null
      and (k.hash = s.key_hash or k.previous_hash = s.key_hash)
    left join members m on m.tenant_id = s.tenant_id and m.id = s.member_id and m.status = 'active'
    where s.hash = ${hash} and s.expires_at > ${times.now} and s.last_used_at > ${times.usedAfter}`,
  )
}

/** Notes that a session is in use. */
export async function touchSession(db: Db, hash: Buffer, now: Date): Promise<void> {
  await db.run(sql`update dashboard_sessions set last_used_at = ${now} where hash = ${hash}`)
}

/** Notes that the member of a session has proved who they are, in the transaction that checked it. @returns whether there is one */
export async function renewProof(tx: Db, hash: Buffer, now: Date): Promise<boolean> {
  const before = await readRecord<SessionRow>(
    tx,
    DASHBOARD_SESSION_RECORD,
    sql`select * from dashboard_sessions where hash = ${hash} for update`,
  )
  if (before === undefined) return false
  const row = await resealed(tx, DASHBOARD_SESSION_RECORD, { ...before, verified_at: now })
  await tx.run(sql`update dashboard_sessions set ${change(row, 'verified_at version mac')} where hash = ${hash}`)
  tx.afterCommit(() => tx.records.committed(DASHBOARD_SESSION_RECORD, row as object as RecordRow))
  return true
}

/** Ends a session. @returns whether there was one */
export async function deleteSession(tx: Db, hash: Buffer): Promise<boolean> {
  return (await tx.run(sql`delete from dashboard_sessions where hash = ${hash}`)) > 0
}

/** Ends all sessions, of every tenant, and all links that could begin another. @returns how many of each there were */
export async function deleteAll(tx: Db, now: Date): Promise<{ sessions: number; links: number }> {
  const sessions = await tx.run(sql`delete from dashboard_sessions where expires_at > ${now}`)
  const links = await tx.run(sql`delete from dashboard_links where used_at is null and expires_at > ${now}`)
  return { sessions, links }
}

const TENANTS_MAX = 1_000

/** The tenants that an operator may change to, by name: at most 1 000. */
export function listTenantNames(db: Db): Promise<{ id: Id<'ten'>; name: string }[]> {
  return db.query<{ id: Id<'ten'>; name: string }>(
    sql`select id, name from tenants order by name, id limit ${TENANTS_MAX}`,
  )
}

/** The names of apps, for a member who has some of them. */
export function listAppNames(
  db: Db,
  tenantId: Id<'ten'>,
  ids: readonly Id<'app'>[],
): Promise<{ id: Id<'app'>; name: string }[]> {
  return db.query<{ id: Id<'app'>; name: string }>(
    sql`select id, name from apps where tenant_id = ${tenantId} and id = any(${ids}) order by name, id`,
  )
}

const ROWS_A_DELETION = 5_000

/** Deletes a portion of the sessions and links that are over. @returns whether there may be more */
export async function deleteOld(db: Db, times: { now: Date; usedAfter: Date }): Promise<boolean> {
  const sessions = await db.run(sql`
    delete from dashboard_sessions where hash in (
      select hash from dashboard_sessions where expires_at <= ${times.now} or last_used_at <= ${times.usedAfter}
      limit ${ROWS_A_DELETION})`)
  const links = await db.run(sql`
    delete from dashboard_links where hash in (
      select hash from dashboard_links where expires_at <= ${times.now} limit ${ROWS_A_DELETION})`)
  return sessions === ROWS_A_DELETION || links === ROWS_A_DELETION
}
