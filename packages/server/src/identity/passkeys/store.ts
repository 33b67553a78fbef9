import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { readRecordPage } from '../../platform/db/page.ts'
import { insertion, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { challengeOnce } from '../../platform/security/challenges.ts'
import { domainOrigins } from '../../platform/security/domain-origins.ts'
import { guestOver } from '../../platform/security/guest-over.ts'
import {
  readJoined,
  readRecord,
  readRecords,
  readToEnd,
  type Sealed,
  sealed,
} from '../../platform/security/records/access.ts'
import { CHALLENGE_RECORD } from '../../platform/security/records/challenge-record.ts'
import { type RecordRow, recordColumns } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import type { ExtraWrites } from '../sessions/service.ts'
import type { User } from '../users/schema.ts'
import { listCredential, mayRecover, toUser, type UserRow, unlistCredential } from '../users/service.ts'
import { PASSKEY_RECORD } from './passkey-record.ts'
import type { Passkey } from './schema.ts'
import type { Ceremony, StoredCredential } from './webauthn/ceremony.ts'

/** A row of the table `passkeys`. */
export interface PasskeyRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'pky'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  credential_id: Buffer
  public_key: Buffer
  sign_count: number
  rp_id: string
  aaguid: string
  transports: string[]
  device_type: Passkey['deviceType']
  backed_up: boolean
  name: string | null
  /** From when it may approve; null for never. */
  approves_at: Date | null
  last_used_at: Date | null
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toPasskey(row: PasskeyRow): Passkey {
  return wire(
    { ...row, credential_id: row.credential_id.toString('base64url') },
    `id user_id name credential_id rp_id device_type backed_up transports aaguid last_used_at created_at updated_at`,
  )
}

/** A passkey's name as it is stored. Null: no name. */
export const passkeyName = (name: string | null | undefined): string | null => name?.trim().normalize('NFC') ?? null

/** Inserts a passkey. @returns false, and writes no passkey, if the app already has its credential */
export async function insertPasskey(tx: Db, row: PasskeyRow): Promise<boolean> {
  await listCredential(tx, row.tenant_id, row.user_id, row.id)
  const written = await tx.run(sql`
    ${insertion('passkeys', await sealed(tx, PASSKEY_RECORD, row))}
    on conflict (tenant_id, app_id, credential_id) do nothing`)
  return written === 1
}

/** One of a user's passkeys. */
export function findPasskey(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'pky'>,
): Promise<PasskeyRow | undefined> {
  return readRecord<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
}

/** The same to remove it: it may have been changed by somebody else, see `readToEnd`. */
export async function findPasskeyToRemove(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'pky'>,
): Promise<PasskeyRow | undefined> {
  const [row] = await readToEnd<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
  return row
}

/** A page of a user's passkeys, newest first. */
export function listPasskeys(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>, query: PageQuery): Promise<Page<Passkey>> {
  const found = sql`from passkeys where tenant_id = ${tenantId} and user_id = ${userId}`
  return readRecordPage(db, PASSKEY_RECORD, found, query, toPasskey)
}

/** The part of a credential that the options contain. */
export type CredentialRow = Pick<PasskeyRow, 'credential_id' | 'transports' | 'rp_id'>

/** A credential descriptor for the options. */
export function toDescriptor(row: CredentialRow): { id: string; type: 'public-key'; transports: string[] } {
  return { id: row.credential_id.toString('base64url'), type: 'public-key', transports: row.transports }
}

/** What is checked where there is no passkey: the answer must not come sooner than where there is one. */
const NO_PASSKEY = {
  id: 'pky_nobody',
  app_id: 'app_nobody',
  user_id: 'usr_nobody',
  credential_id: Buffer.alloc(32),
  public_key: Buffer.alloc(77),
  rp_id: 'example.com',
  device_type: 'multiDevice',
  approves_at: null,
}

/** A user's credentials, newest first. The same happens if there is no user, and finds none. */
export async function listCredentials(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'> | null,
  limit: number,
): Promise<CredentialRow[]> {
  const rows = await readRecords<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`
    select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId} order by id desc limit ${limit}`,
  )
  if (rows.length === 0) await db.records.mac(PASSKEY_RECORD, { ...NO_PASSKEY, tenant_id: tenantId })
  return rows
}

/** The credential ids of a user's passkeys. */
export async function credentialIdsOf(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<Buffer[]> {
  const rows = await readRecords<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId}`,
  )
  return rows.map(({ credential_id }) => credential_id)
}

/**
 * Those of these users who are active, with their rows locked against changes until the transaction ends. In the order of
 * their ids, so that transactions which lock several do not wait for each other in a circle.
 */
export async function lockActive(
  tx: Db,
  now: Date,
  tenantId: Id<'ten'>,
  userIds: readonly Id<'usr'>[],
): Promise<ReadonlySet<Id<'usr'>>> {
  const rows = await readRecords<UserRow & { over: boolean }>(
    tx,
    USER_RECORD,
    sql`
    select u.*, ${guestOver(now)} as over from users u
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = any(${userIds}::text[]) order by u.id for share of u`,
  )
  return new Set(rows.filter(({ status, over }) => status === 'active' && !over).map(({ id }) => id))
}

/** All passkeys of a user, in the order of their ids, each one that the user's record lists. @throws record_tampered */
export async function passkeysOf(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<PasskeyRow[]> {
  const owner = await readRecord<UserRow>(
    db,
    USER_RECORD,
    sql`select * from users where tenant_id = ${tenantId} and id = ${userId}`,
  )
  if (owner === undefined) return []
  const rows = await readRecords<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId} order by id`,
  )
  for (const { id } of rows)
    await db.records.requireListed(USER_RECORD, owner as object as RecordRow, 'credentials', id)
  return rows
}

/**
 * Notes a use of a passkey. @returns false, and writes nothing, unless the counter is above the stored one, or both are zero
 * (WebAuthn L3, section 7.2, step 22)
 */
export async function recordUse(
  tx: Db,
  { tenant_id: tenantId, id }: Pick<PasskeyRow, 'tenant_id' | 'id'>,
  use: { signCount: number; backedUp: boolean; at: Date },
): Promise<boolean> {
  const written = await tx.run(sql`
    update passkeys set sign_count = ${use.signCount}::bigint, last_used_at = ${use.at}, backed_up = ${use.backedUp}
    where tenant_id = ${tenantId} and id = ${id}
      and (sign_count < ${use.signCount}::bigint or (sign_count = 0 and ${use.signCount}::bigint = 0))`)
  return written === 1
}

/** How many passkeys a user has. */
export function countPasskeys(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<number> {
  return db.count(sql`select count(*) as n from passkeys where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Renames a passkey. @returns the row; undefined if it does not exist or already has this name */
export function renamePasskey(
  db: Db,
  row: Pick<PasskeyRow, 'tenant_id' | 'user_id' | 'id' | 'name' | 'updated_at'>,
): Promise<PasskeyRow | undefined> {
  return readRecord<PasskeyRow>(
    db,
    PASSKEY_RECORD,
    sql`
    update passkeys set name = ${row.name}, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and user_id = ${row.user_id} and id = ${row.id} and name is distinct from ${row.name}
    returning *`,
  )
}

/** Deletes a passkey. */
export async function deletePasskey(
  tx: Db,
  { tenant_id: tenantId, user_id: userId, id }: Pick<PasskeyRow, 'tenant_id' | 'user_id' | 'id'>,
): Promise<void> {
  await unlistCredential(tx, tenantId, userId, id)
  await tx.run(sql`delete from passkeys where tenant_id = ${tenantId} and id = ${id}`)
}

/** When the guest `g` ends: the epoch if it was ended early, null for users. */
const guestEnd = (status: Sql) =>
  sql`case ${status} when 'expired' then to_timestamp(0) when 'active' then g.expires_at end`

/** The user, locked until the transaction ends. Lock order: the user first, then their passkeys. @throws record_tampered */
export async function lockOwner(
  tx: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
): Promise<{ id: Id<'usr'>; endsAt: Date | null } | undefined> {
  const row = await readRecord<UserRow & { ends_at: Date | null }>(
    tx,
    USER_RECORD,
    sql`
    select u.*, ${guestEnd(sql`case when u.guest_ended then 'expired' else g.status end`)} as ends_at
    from users u left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = ${userId} for no key update of u`,
  )
  return row && { id: row.id, endsAt: row.ends_at }
}

/** The data that a login challenge stores. */
export interface LoginData extends Ceremony {
  /** Created for an email: only passkeys of the user with this email are accepted. */
  emailFirst: boolean
}

/** The passkey of a login, with its owner. */
export interface FoundPasskey extends StoredCredential {
  passkeyId: Id<'pky'>
  rpId: string
  ownerId: Id<'usr'>
  /** When the owner's guest session ends. Null for users. */
  endsAt: Date | null
  user: User
  /** Whether a recovery by email of the owner may be pending, which this passkey ends. */
  mayRecover: boolean
}

/** A login challenge with everything that its answer is verified against. */
export interface LoginAttempt {
  appId: Id<'app'>
  /** The only user whose passkeys are accepted. Null: the passkeys of every user. */
  userId: Id<'usr'> | null
  data: LoginData
  /** Already answered, or expired. */
  over: boolean
  allowedOrigins: string[]
  /** The origins of the app's verified custom domains. */
  domainOrigins: string[]
  /** Null if the app has no such credential. */
  passkey: FoundPasskey | null
}

type AttemptRow = Omit<LoginAttempt, 'passkey'> &
  ((Omit<FoundPasskey, 'user' | 'mayRecover'> & UserRow) | { passkeyId: null })

/**
 * A login challenge with the app's origins, the passkey of this credential id and its owner: everything that an answer is
 * verified against, in one statement that writes nothing. Undefined if the tenant (and, with `appId`, the app) has no such
 * challenge.
 */
export async function findLogin(
  db: Db,
  now: Date,
  of: { tenantId: Id<'ten'>; appId: Id<'app'> | null; id: Id<'chl'>; credentialId: Buffer },
): Promise<LoginAttempt | undefined> {
  const readAt = performance.now()
  const row = await readJoined<AttemptRow>(
    db,
    [CHALLENGE_RECORD, PASSKEY_RECORD],
    sql`
    select ${recordColumns(CHALLENGE_RECORD, 'c')}, c.app_id as "appId", c.user_id as "userId", c.data, c.used_at is not null or c.expires_at <= ${now} as over,
      a.allowed_origins as "allowedOrigins", ${domainOrigins(sql`a.tenant_id`, sql`a.id`)} as "domainOrigins",
      p.id as "passkeyId", p.public_key as "publicKey", p.sign_count as "signCount", p.rp_id as "rpId",
      p.device_type as "deviceType", ${recordColumns(PASSKEY_RECORD, 'p')}, ${guestEnd(sql`g.status`)} as "endsAt", u.id as "ownerId", u.*
    from challenges c
    join apps a on a.tenant_id = c.tenant_id and a.id = c.app_id
    left join passkeys p on p.tenant_id = c.tenant_id and p.app_id = c.app_id and p.credential_id = ${of.credentialId}
    left join users u on u.tenant_id = p.tenant_id and u.id = p.user_id
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where c.tenant_id = ${of.tenantId} and c.id = ${of.id} and c.kind = 'passkey_login'
      and (${of.appId}::text is null or c.app_id = ${of.appId})`,
  )
  if (row === undefined) return undefined
  if (row.passkeyId === null) return { ...row, passkey: null }
  const owner = row as object as RecordRow
  await db.records.check(USER_RECORD, [owner], readAt, !db.inTransaction)
  await db.records.requireListed(USER_RECORD, owner, 'credentials', row.passkeyId)
  return { ...row, passkey: { ...row, user: toUser(row), mayRecover: mayRecover(row) } }
}

/**
 * Takes the challenge and records the passkey's use in the statement that starts the session. The session starts only if
 * both succeed: only one of several answers finds the challenge unused, and the counter must be above the stored one, or
 * both zero (WebAuthn L3, section 7.2, step 22). Only updates, without locks before them, which would double the cost.
 */
export function countedUse(
  of: { tenantId: Id<'ten'>; userId: Id<'usr'>; id: Id<'pky'>; challengeId: Id<'chl'> },
  use: { signCount: number; backedUp: boolean; at: Date },
): ExtraWrites {
  const counted = sql`
    counted as (
      update passkeys set sign_count = ${use.signCount}::bigint, last_used_at = ${use.at}, backed_up = ${use.backedUp}
      where tenant_id = ${of.tenantId} and id = ${of.id} and user_id = ${of.userId} and exists (select from seen)
        and (sign_count < ${use.signCount}::bigint or (sign_count = 0 and ${use.signCount}::bigint = 0))
      returning 1)`
  return {
    first: challengeOnce(of, use.at),
    second: { writes: counted, holds: sql`exists (select from counted)` },
  }
}
