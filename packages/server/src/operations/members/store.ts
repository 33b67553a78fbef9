import { and, type Db, sql } from '../../platform/db/db.ts'
import { readRecordPage } from '../../platform/db/page.ts'
import { insertion, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import {
  isMarked,
  readRecord,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import type { Role } from '../../platform/security/roles/roles.ts'
import { MEMBER_RECORD } from './records.ts'
import type { Delivery, ListMembers, Member } from './schema.ts'

/** A row of the table `members`. */
export interface MemberRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'mem'>
  email: string
  email_key: string
  name: string
  role: Role
  app_ids: Id<'app'>[] | null
  status: Member['status']
  passkeys: Id<'pky'>[]
  /** The address whose mailbox the member has read: it counts while it is the member's address. */
  proven_email: string | null
  /** When role or apps last changed: what was asked for before signs in no more. */
  rights_changed_at: Date | null
  /** The account at the organisation's login that signs the member in. */
  identity_id: Id<'idn'> | null
  /** How the last invitation was given out; null if that is not known. */
  invitation_delivery: Delivery | null
  invited_by: string | null
  last_signed_in_at: Date | null
  removed_at: Date | null
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toMember(row: MemberRow): Member {
  return {
    ...wire(row, 'id email name role app_ids status invited_by last_signed_in_at created_at updated_at'),
    emailVerified: hasProvenEmail(row),
    invitationDelivery: row.status === 'invited' ? row.invitation_delivery : null,
  }
}

/** Whether the member has shown that the address is theirs: the one that they have now. */
export const hasProvenEmail = ({ email, proven_email: proven }: MemberRow): boolean => proven === email

/** Changes of a tenant's members wait for each other, so that of two at once each sees what the other did. */
export async function lockMembers(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`select from tenants where id = ${tenantId} for no key update`)
}

/** Inserts a member. @throws the violation of members_email if a member who is not removed has this email */
export async function insertMember(tx: Db, row: MemberRow): Promise<void> {
  await tx.run(insertion('members', await sealed(tx, MEMBER_RECORD, row)))
}

/** A member of a tenant. */
export function findMember(db: Db, tenantId: Id<'ten'>, id: Id<'mem'>): Promise<MemberRow | undefined> {
  return readRecord<MemberRow>(
    db,
    MEMBER_RECORD,
    sql`select * from members where tenant_id = ${tenantId} and id = ${id}`,
  )
}

/** The member with an email who is not removed. */
export function findMemberByEmail(db: Db, tenantId: Id<'ten'>, emailKey: string): Promise<MemberRow | undefined> {
  return readRecord<MemberRow>(
    db,
    MEMBER_RECORD,
    sql`select * from members where tenant_id = ${tenantId} and email_key = ${emailKey} and status <> 'removed'`,
  )
}

/** A member by id, locked until the transaction ends. */
export function lockMember(tx: Db, tenantId: Id<'ten'>, id: Id<'mem'>): Promise<MemberRow | undefined> {
  return readRecord<MemberRow>(
    tx,
    MEMBER_RECORD,
    sql`select * from members where tenant_id = ${tenantId} and id = ${id} for no key update`,
  )
}

/** The same to remove them: the row may have been changed by somebody else, see `readToEnd`. */
export async function lockMemberToEnd(tx: Db, tenantId: Id<'ten'>, id: Id<'mem'>): Promise<MemberRow | undefined> {
  const [row] = await readToEnd<MemberRow>(
    tx,
    MEMBER_RECORD,
    sql`select * from members where tenant_id = ${tenantId} and id = ${id} for no key update`,
  )
  return row
}

/** A page of a tenant's members, newest first. */
export function listMembers(db: Db, tenantId: Id<'ten'>, query: ListMembers): Promise<Page<Member>> {
  const { status, role } = query
  const found = and([sql`tenant_id = ${tenantId}`, matching({ status, role })])
  return readRecordPage(db, MEMBER_RECORD, sql`from members where ${found}`, query, toMember)
}

/** How many members a tenant has that are not removed. */
export function countMembers(tx: Db, tenantId: Id<'ten'>): Promise<number> {
  return tx.count(sql`select count(*) as n from members where tenant_id = ${tenantId} and status <> 'removed'`)
}

/** How many rows are looked at for another owner. */
const OWNERS_MAX = 100

/** Whether somebody is an active owner and no other member is one whose row verifies. */
export async function isLastOwner(tx: Db, { tenant_id: tenantId, id, role, status }: MemberRow): Promise<boolean> {
  if (role !== 'owner' || status !== 'active') return false
  const others = await readToEnd<MemberRow>(
    tx,
    MEMBER_RECORD,
    sql`
    select * from members where tenant_id = ${tenantId} and role = 'owner' and status = 'active' and id <> ${id}
    order by id limit ${OWNERS_MAX}`,
  )
  return others.every(isMarked)
}

/** Stores a change, in the transaction that holds the member. */
export async function updateMember(tx: Db, before: MemberRow): Promise<MemberRow> {
  const row = await resealed(tx, MEMBER_RECORD, before)
  await tx.run(
    update(
      'members',
      row,
      'name role app_ids status passkeys proven_email rights_changed_at identity_id last_signed_in_at removed_at updated_at version mac',
    ),
  )
  tx.afterCommit(() => tx.records.committed(MEMBER_RECORD, row as object as RecordRow))
  return row
}

/** Notes how an invitation was given out. */
export async function noteDelivery(tx: Db, { tenant_id, id }: MemberRow, delivery: Delivery): Promise<void> {
  await tx.run(sql`update members set invitation_delivery = ${delivery} where tenant_id = ${tenant_id} and id = ${id}`)
}

/** The name of a tenant, for emails to its members. */
export async function tenantName(db: Db, tenantId: Id<'ten'>): Promise<string> {
  const row = await db.one<{ name: string }>(sql`select name from tenants where id = ${tenantId}`)
  return row?.name ?? ''
}

/** Notes a sign-in of somebody who was active before it. */
export async function touchMember(tx: Db, tenantId: Id<'ten'>, id: Id<'mem'>, now: Date): Promise<void> {
  await tx.run(sql`update members set last_signed_in_at = ${now} where tenant_id = ${tenantId} and id = ${id}`)
}
