import { type Db, sql } from '../../platform/db/db.ts'
import { change, insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readJoined, readRecord, readToEnd, resealed, sealed } from '../../platform/security/records/access.ts'
import { APP_RECORD } from '../../platform/security/records/app-record.ts'
import { recordColumns } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import { USER_SESSION_RECORD } from '../../platform/security/records/user-session-record.ts'
import { SERVER_VERIFICATION_RECORD } from './server-verification-record.ts'
import {
  type ExtraWrites,
  lockSession,
  NOTHING_FIRST,
  NOTHING_SECOND,
  noteVersion,
  type RefreshedRow,
  type SessionRow,
  storeEach,
} from './store.ts'

/** The data that decides whether a current user has passed the step-up. */
export interface StepUpRow {
  mfa_enabled: boolean
  policy: 'if_enrolled' | 'always' | 'never'
  enforce_for_server: boolean
  /** When this session (or this key, for this user) last verified a second factor. Null: never. */
  mfa_at: Date | null
  /** When the user signed in, or last showed a passkey in the session. */
  signed_in_at: Date | null
  /** The same of the issuer that vouched for the user. */
  issuer_mfa_at: Date | null
  /** Whether the account has a passkey or a second factor, and the session began without and has shown neither. */
  unproven: boolean
}

/** The step-up data of a session, or of a key that acts for the user. */
export function findStepUp(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  by: { sessionId: Id<'ses'> | null; keyId: Id<'key'> },
): Promise<StepUpRow | undefined> {
  return readJoined<StepUpRow>(
    db,
    [USER_RECORD, USER_SESSION_RECORD, APP_RECORD, SERVER_VERIFICATION_RECORD],
    sql`
    select u.mfa_enabled, ${recordColumns(USER_SESSION_RECORD, 's')}, ${recordColumns(APP_RECORD, 'a')},
      ${recordColumns(USER_RECORD, 'u')}, ${recordColumns(SERVER_VERIFICATION_RECORD, 'v')}, a.mfa->>'policy' as policy, (a.mfa->>'enforceForServer')::boolean as enforce_for_server,
      greatest(s.signed_in_at, s.passkey_at) as signed_in_at, s.issuer_mfa_at,
      coalesce(s.weak, false) and s.mfa_at is null and s.passkey_at is null and (u.mfa_enabled or strpos(u.credentials, 'pky_') > 0 or exists (
        select from passkeys p where p.tenant_id = u.tenant_id and p.user_id = u.id)) as unproven,
      case when ${by.sessionId}::text is null then v.mfa_at else s.mfa_at end as mfa_at
    from users u join apps a on a.tenant_id = u.tenant_id and a.id = u.app_id
    left join sessions s on s.tenant_id = u.tenant_id and s.id = ${by.sessionId} and s.user_id = u.id
    left join server_verifications v on v.tenant_id = u.tenant_id and v.key_id = ${by.keyId} and v.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = ${userId}`,
  )
}

/** Whether the session is not revoked. If so, it cannot be revoked until the transaction ends. @throws record_tampered */
export async function lockSessionForShare(tx: Db, tenantId: Id<'ten'>, id: Id<'ses'>): Promise<boolean> {
  const row = await readRecord<SessionRow>(
    tx,
    USER_SESSION_RECORD,
    sql`select * from sessions where tenant_id = ${tenantId} and id = ${id} and revoked_at is null for share`,
  )
  return row !== undefined
}

/** What a verified second factor adds to `amr` (RFC 8176). */
export const FACTOR_METHODS: ReadonlySet<string> = new Set(['otp', 'kba', 'mfa'])
/** What a passkey adds. */
export const PASSKEY_METHODS: ReadonlySet<string> = new Set(['hwk', 'user'])

const union = (amr: readonly string[], methods: readonly string[]) => [...new Set([...amr, ...methods])]

/** Records a verified second factor in a session. @returns the session, and its access tokens' lifetime */
export async function recordVerification(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'ses'>,
  method: string,
  now: Date,
): Promise<RefreshedRow | undefined> {
  const before = await lockSession(tx, tenantId, id)
  if (before === undefined) return undefined
  const amr = before.amr.includes(method) ? before.amr : union(before.amr, [method, 'mfa'])
  const row = await resealed(tx, USER_SESSION_RECORD, { ...before, amr, mfa_at: now })
  noteVersion(tx, row)
  return readRecord<RefreshedRow>(
    tx,
    USER_SESSION_RECORD,
    sql`
    update sessions s set ${change(row, 'amr mfa_at version mac')} from apps a
    where a.tenant_id = s.tenant_id and a.id = s.app_id and s.tenant_id = ${tenantId} and s.id = ${id}
    returning s.*, (a.sessions->>'accessTokenSeconds')::int as access_seconds`,
  )
}

/**
 * Records that a passkey was shown in a session that has not ended, in one statement with `extraWrites`, if their conditions
 * hold. @returns the session, and its access tokens' lifetime; undefined also if the session was changed meanwhile
 */
export async function recordPasskey(
  db: Db,
  tenantId: Id<'ten'>,
  id: Id<'ses'>,
  methods: string[],
  now: Date,
  { first = NOTHING_FIRST, second = NOTHING_SECOND }: ExtraWrites,
): Promise<RefreshedRow | undefined> {
  const before = await readRecord<SessionRow>(
    db,
    USER_SESSION_RECORD,
    sql`select * from sessions where tenant_id = ${tenantId} and id = ${id} and revoked_at is null`,
  )
  if (before === undefined) return undefined
  const shown = { ...before, amr: union(before.amr, methods), passkey_at: now }
  const row = await resealed(db, USER_SESSION_RECORD, shown)
  const written = await readRecord<RefreshedRow>(
    db,
    USER_SESSION_RECORD,
    sql`
    with ${first.writes},
    seen as (select 1 where ${first.holds}),
    ${second.writes}
    update sessions s set ${change(row, 'amr passkey_at version mac')} from apps a
    where a.tenant_id = s.tenant_id and a.id = s.app_id and s.tenant_id = ${tenantId} and s.id = ${id}
      and s.version = ${before.version} and s.revoked_at is null and ${second.holds}
    returning s.*, (a.sessions->>'accessTokenSeconds')::int as access_seconds`,
  )
  if (written !== undefined) noteVersion(db, row)
  return written
}

/** Records a verified second factor for a secret key that acts for the user. */
export async function recordServerVerification(
  tx: Db,
  tenantId: Id<'ten'>,
  keyId: Id<'key'>,
  userId: Id<'usr'>,
  now: Date,
): Promise<void> {
  const made = { tenant_id: tenantId, key_id: keyId, user_id: userId, mfa_at: now, mac: null }
  const row = await sealed(tx, SERVER_VERIFICATION_RECORD, made)
  await tx.run(sql`
    ${insertion('server_verifications', row)}
    on conflict (tenant_id, key_id, user_id) do update set mfa_at = excluded.mfa_at, mac = excluded.mac`)
}

/** Takes methods out of what a user's sessions say of how they began and what they have shown. */
async function forgetMethods(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>, methods: ReadonlySet<string>) {
  const gone = [...methods]
  await tx.run(sql`
    update sessions set amr = array(select m from unnest(amr) with ordinality a(m, n) where m <> all (${gone}) order by n)
    where tenant_id = ${tenantId} and user_id = ${userId} and amr && ${gone}::text[]`)
}

/** Deletes all verifications of a user whose second factor was deleted: no later token of their sessions says that there was one. */
export async function forgetVerifications(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  const verified = await readToEnd<SessionRow>(
    tx,
    USER_SESSION_RECORD,
    sql`
    select * from sessions where tenant_id = ${tenantId} and user_id = ${userId} and mfa_at is not null
    order by id for no key update`,
  )
  if (verified.length > 0)
    await storeEach(
      tx,
      verified.map((row) => ({ ...row, mfa_at: null })),
    )
  await forgetMethods(tx, tenantId, userId, FACTOR_METHODS)
  await tx.run(sql`delete from server_verifications where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/**
 * Forgets that the sessions of a user have shown a passkey, when one was removed: a session does not say which one it was. Call
 * it after the passkey was deleted, so that no session that is showing it at this moment is missed.
 */
export async function forgetPasskeys(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  const shown = await readToEnd<SessionRow>(
    tx,
    USER_SESSION_RECORD,
    sql`
    select * from sessions where tenant_id = ${tenantId} and user_id = ${userId} and passkey_at is not null
    order by id for no key update`,
  )
  if (shown.length > 0)
    await storeEach(
      tx,
      shown.map((row) => ({ ...row, passkey_at: null })),
    )
  await forgetMethods(tx, tenantId, userId, PASSKEY_METHODS)
}
