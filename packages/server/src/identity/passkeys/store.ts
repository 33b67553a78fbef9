import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import { challengeTaken } from '../../platform/security/challenges.ts'
import { domainOrigins } from '../../platform/security/domain-origins.ts'
import type { ExtraWrites } from '../sessions/service.ts'
import type { User } from '../users/schema.ts'
import type { Ceremony, StoredCredential } from './ceremony.ts'
import type { Passkey } from './schema.ts'

/** A passkey as the table holds it. */
export interface PasskeyRow {
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
  last_used_at: Date | null
  created_at: Date
  updated_at: Date
}

/** A row as the wire shows it. */
export function toPasskey(row: PasskeyRow): Passkey {
  return {
    id: row.id,
    userId: row.user_id,
    name: row.name,
    credentialId: row.credential_id.toString('base64url'),
    rpId: row.rp_id,
    deviceType: row.device_type,
    backedUp: row.backed_up,
    transports: row.transports,
    aaguid: row.aaguid,
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  }
}

/** Writes a passkey. @returns false where the app has its credential already: nothing is written */
export async function insertPasskey(tx: Db, row: PasskeyRow): Promise<boolean> {
  const written = await tx.run(sql`
    insert into passkeys (tenant_id, id, app_id, user_id, credential_id, public_key, sign_count, rp_id, aaguid, transports,
      device_type, backed_up, name, created_at, updated_at)
    values (${row.tenant_id}, ${row.id}, ${row.app_id}, ${row.user_id}, ${row.credential_id}, ${row.public_key},
      ${row.sign_count}, ${row.rp_id}, ${row.aaguid}, ${row.transports}, ${row.device_type}, ${row.backed_up}, ${row.name},
      ${row.created_at}, ${row.updated_at})
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
  return db.one<PasskeyRow>(
    sql`select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
}

/** A page of a user's passkeys, newest first. */
export async function listPasskeys(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ rows: PasskeyRow[]; total: number }> {
  const total = await countPasskeys(db, tenantId, userId)
  const rows = await db.query<PasskeyRow>(sql`
    select * from passkeys where tenant_id = ${tenantId} and user_id = ${userId}
    order by id desc offset ${offset} limit ${pageSize}`)
  return { rows, total }
}

/** What browsers are told of a user's credentials. */
export type CredentialRow = Pick<PasskeyRow, 'credential_id' | 'transports' | 'rp_id'>

/** A credential as options name it. */
export function toDescriptor(row: CredentialRow): { id: string; type: 'public-key'; transports: string[] } {
  return { id: row.credential_id.toString('base64url'), type: 'public-key', transports: row.transports }
}

/** A user's credentials, newest first; none for no user, with the same work. */
export function listCredentials(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'> | null,
  limit: number,
): Promise<CredentialRow[]> {
  return db.query<CredentialRow>(sql`
    select credential_id, transports, rp_id from passkeys where tenant_id = ${tenantId} and user_id = ${userId}
    order by id desc limit ${limit}`)
}

/** The ids that authenticators gave a user's passkeys. */
export async function credentialIdsOf(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<Buffer[]> {
  const rows = await db.query<{ credential_id: Buffer }>(
    sql`select credential_id from passkeys where tenant_id = ${tenantId} and user_id = ${userId}`,
  )
  return rows.map(({ credential_id }) => credential_id)
}

/** How many passkeys a user has. */
export async function countPasskeys(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<number> {
  const row = await db.one<{ n: number }>(
    sql`select count(*) as n from passkeys where tenant_id = ${tenantId} and user_id = ${userId}`,
  )
  return row?.n ?? 0
}

/** Whether the user has an account elsewhere to sign in by. */
export async function hasIdentity(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<boolean> {
  return (await db.run(sql`select from identities where tenant_id = ${tenantId} and user_id = ${userId} limit 1`)) === 1
}

/** Names a passkey. @returns the row; undefined where it is not there or has this name */
export function renamePasskey(
  db: Db,
  row: Pick<PasskeyRow, 'tenant_id' | 'user_id' | 'id' | 'name' | 'updated_at'>,
): Promise<PasskeyRow | undefined> {
  return db.one<PasskeyRow>(sql`
    update passkeys set name = ${row.name}, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and user_id = ${row.user_id} and id = ${row.id} and name is distinct from ${row.name}
    returning *`)
}

/** Deletes a passkey. */
export async function deletePasskey(tx: Db, tenantId: Id<'ten'>, id: Id<'pky'>): Promise<void> {
  await tx.run(sql`delete from passkeys where tenant_id = ${tenantId} and id = ${id}`)
}

/** What decides whether a user may sign in. */
export interface OwnerRow {
  id: Id<'usr'>
  app_id: Id<'app'>
  status: User['status']
  /** A guest's; null for users. */
  guest_status: 'active' | 'converted' | 'expired' | null
  guest_ends_at: Date | null
}

/** When a guest ends, which a guest that was ended before its time has done at the epoch; null for users. */
export function guestEnd(owner: Pick<OwnerRow, 'guest_status' | 'guest_ends_at'>): Date | null {
  if (owner.guest_status === 'expired') return new Date(0)
  return owner.guest_status === 'active' ? owner.guest_ends_at : null
}

/** The user, locked until the transaction ends. Whoever locks a user and their passkeys takes the user first. */
export function lockOwner(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<OwnerRow | undefined> {
  return tx.one<OwnerRow>(sql`
    select u.id, u.app_id, u.status, case when u.guest_ended then 'expired' else g.status end as guest_status,
      g.expires_at as guest_ends_at
    from users u left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = ${userId} for no key update of u`)
}

/** What a login challenge keeps. */
export interface LoginData extends Ceremony {
  /** Made for an email: only the passkeys of whoever has it count, and none where nobody does. */
  emailFirst: boolean
}

/** A passkey that a login names, with its owner. */
export interface FoundPasskey extends StoredCredential {
  id: Id<'pky'>
  rpId: string
  owner: OwnerRow
  user: User
}

/** A login challenge with all that its answer is held against. */
export interface LoginAttempt {
  appId: Id<'app'>
  /** Whose passkeys count alone; null for whoever's. */
  userId: Id<'usr'> | null
  data: LoginData
  /** It has been answered before, or its time is over. */
  over: boolean
  allowedOrigins: string[]
  /** Those of the app's verified custom domains. */
  domainOrigins: string[]
  /** Null where the app has no such credential. */
  passkey: FoundPasskey | null
}

type UserColumns = {
  user_id: Id<'usr'>
  email: string | null
  email_verified: boolean
  user_name: string | null
  external_id: string | null
  party_id: string
  trust_level: User['trustLevel']
  status: User['status']
  mfa_enabled: boolean
  metadata: Record<string, string>
  last_seen_at: Date | null
  user_created_at: Date
  user_updated_at: Date
}
type PasskeyColumns = Pick<PasskeyRow, 'public_key' | 'sign_count' | 'rp_id' | 'device_type'> & {
  passkey_id: Id<'pky'>
}
type AttemptRow = {
  app_id: Id<'app'>
  challenge_user_id: Id<'usr'> | null
  data: LoginData
  over: boolean
  allowed_origins: string[]
  domain_origins: string[]
} & Pick<OwnerRow, 'guest_status' | 'guest_ends_at'> &
  ((UserColumns & PasskeyColumns) | { passkey_id: null })

function userOf(row: UserColumns, appId: Id<'app'>): User {
  return {
    id: row.user_id,
    appId,
    email: row.email,
    emailVerified: row.email_verified,
    name: row.user_name,
    externalId: row.external_id,
    partyId: row.party_id,
    trustLevel: row.trust_level,
    status: row.status,
    mfaEnabled: row.mfa_enabled,
    metadata: row.metadata,
    lastSeenAt: row.last_seen_at?.toISOString() ?? null,
    createdAt: row.user_created_at.toISOString(),
    updatedAt: row.user_updated_at.toISOString(),
  }
}

function attemptOf(row: AttemptRow): LoginAttempt {
  return {
    appId: row.app_id,
    userId: row.challenge_user_id,
    data: row.data,
    over: row.over,
    allowedOrigins: row.allowed_origins,
    domainOrigins: row.domain_origins,
    passkey:
      row.passkey_id === null
        ? null
        : {
            id: row.passkey_id,
            publicKey: row.public_key,
            signCount: row.sign_count,
            rpId: row.rp_id,
            deviceType: row.device_type,
            owner: {
              id: row.user_id,
              app_id: row.app_id,
              status: row.status,
              guest_status: row.guest_status,
              guest_ends_at: row.guest_ends_at,
            },
            user: userOf(row, row.app_id),
          },
  }
}

/**
 * A login challenge as it is now, with the app's origins, the passkey of this credential id and its owner: all that an
 * answer is held against, in one statement that writes nothing. Undefined where the tenant (and, with `appId`, the app)
 * has no such challenge.
 */
export async function findLogin(
  db: Db,
  now: Date,
  of: { tenantId: Id<'ten'>; appId: Id<'app'> | null; id: Id<'chl'>; credentialId: Buffer },
): Promise<LoginAttempt | undefined> {
  const row = await db.one<AttemptRow>(sql`
    select c.app_id, c.user_id as challenge_user_id, c.data, c.used_at is not null or c.expires_at <= ${now} as over,
      a.allowed_origins, ${domainOrigins(sql`a.tenant_id`, sql`a.id`)} as domain_origins, p.id as passkey_id, p.public_key, p.sign_count, p.rp_id, p.device_type,
      u.id as user_id, u.email, u.email_verified, u.name as user_name, u.external_id, u.party_id, u.trust_level, u.status,
      u.mfa_enabled, u.metadata, u.last_seen_at, u.created_at as user_created_at, u.updated_at as user_updated_at,
      g.status as guest_status, g.expires_at as guest_ends_at
    from challenges c
    join apps a on a.tenant_id = c.tenant_id and a.id = c.app_id
    left join passkeys p on p.tenant_id = c.tenant_id and p.app_id = c.app_id and p.credential_id = ${of.credentialId}
    left join users u on u.tenant_id = p.tenant_id and u.id = p.user_id
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where c.tenant_id = ${of.tenantId} and c.id = ${of.id} and c.kind = 'passkey_login'
      and (${of.appId}::text is null or c.app_id = ${of.appId})`)
  return row && attemptOf(row)
}

/**
 * Takes the challenge and notes the passkey's use in the statement that begins the session, and makes the session depend
 * on both: of any number of answers to a challenge one finds it unused; the counter must be above the stored one, or both
 * zero (WebAuthn L3, section 7.2, step 22). Updates alone, no locks before them: those cost as much again.
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
    first: { writes: challengeTaken(of, use.at), holds: sql`exists (select from taken)` },
    second: { writes: counted, holds: sql`exists (select from counted)` },
  }
}
