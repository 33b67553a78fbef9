import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readRecordPage } from '../../platform/db/page.ts'
import { change, wire } from '../../platform/db/rows.ts'
import { eventWritesIf, type StoredEvent } from '../../platform/events/events.ts'
import type { CurrentUser, Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { AccessClaims } from '../../platform/security/access-token.ts'
import { guestOver } from '../../platform/security/guest-over.ts'
import {
  readJoined,
  readRecord,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import { type RecordRow, recordColumns } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import { USER_SESSION_RECORD } from '../../platform/security/records/user-session-record.ts'
import { shownMethods } from '../../platform/security/signers/shown-methods.ts'
import type { ListSessions, Session } from './schema.ts'

/** A row of the table `sessions`. */
export interface SessionRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'ses'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  amr: string[]
  signed_in_at: Date
  mfa_at: Date | null
  /** Whether it began with a way in that somebody else controls. */
  weak: boolean
  /** When a passkey of the account was last shown in it. Null for those that releases before 0042_id_tokens.sql began with one. */
  passkey_at: Date | null
  /** When its issuer last verified a second factor of the user, if it says so. */
  issuer_mfa_at: Date | null
  generation: number
  refreshed_at: Date
  /** When the guest ends. Null for users. */
  ends_at: Date | null
  expires_at: Date
  is_new_user: boolean
  user_agent: string | null
  address: string
  revoked_at: Date | null
}

/** A row in its API form. */
export function toSession(row: SessionRow, now: Date, currentId: Id<'ses'> | null): Session {
  const over = row.expires_at <= now ? 'expired' : 'active'
  const shown = {
    ...row,
    current: row.id === currentId,
    methods: row.amr,
    status: row.revoked_at === null ? over : 'revoked',
    mfa_verified_at: row.mfa_at,
    created_at: row.signed_in_at,
    updated_at: row.refreshed_at,
  } as const
  return wire(
    shown,
    `id user_id app_id current methods status signed_in_at mfa_verified_at user_agent address expires_at created_at
    updated_at`,
  )
}

/** The claims of the session's access tokens. */
export function toClaims(
  row: Pick<
    SessionRow,
    'tenant_id' | 'app_id' | 'user_id' | 'id' | 'amr' | 'weak' | 'mfa_at' | 'passkey_at' | 'signed_in_at' | 'ends_at'
  >,
): AccessClaims {
  return {
    tenantId: row.tenant_id,
    appId: row.app_id,
    userId: row.user_id,
    sessionId: row.id,
    amr: shownMethods(row),
    signedInAt: row.signed_in_at,
    endsAt: row.ends_at,
  }
}

/** A new session's values. Its app sets the lifetimes of the session and its access tokens. */
export type NewSession = Omit<
  SessionRow,
  'mfa_at' | 'generation' | 'refreshed_at' | 'expires_at' | 'revoked_at' | 'version' | 'mac'
>

/**
 * Additional writes of the same statement, as parts of a `with`, each with the condition under which the statement
 * continues. `first` runs before the user's row is updated, `second` after it (`exists (select from seen)`). Rows are always
 * locked in that order.
 */
export interface ExtraWrites {
  first?: { writes: Sql; holds: Sql }
  second?: { writes: Sql; holds: Sql }
}

/** What a new session does not have. */
const NOT_YET = { mfa_at: null, revoked_at: null, version: 0, mac: null }

export const NOTHING_FIRST = { writes: sql`first_nothing as (select)`, holds: sql`true` }
export const NOTHING_SECOND = { writes: sql`second_nothing as (select)`, holds: sql`true` }

/**
 * Starts a session of an active user who is not an ended guest. Writes the session, when the user was last seen, and the
 * event, in one statement. `seen` returns the `with` part of this name, which marks the user as seen if a condition holds.
 * @returns the lifetime of its access tokens in seconds, null if no session was started because of the user or a condition;
 * and whether the first condition held
 */
export async function insertSession(
  db: Db,
  input: NewSession,
  event: StoredEvent | null,
  seen: (condition: Sql) => Sql,
  { first = NOTHING_FIRST, second = NOTHING_SECOND }: ExtraWrites = {},
): Promise<{ accessSeconds: number | null; firstHeld: boolean }> {
  const row = await sealed(db, USER_SESSION_RECORD, { ...input, ...NOT_YET })
  const told = event === null ? sql`no_event as (select)` : eventWritesIf(event, sql`exists (select from begun)`)
  const found = await db.one<{ access_seconds: number | null; first_held: boolean }>(sql`
    with app as (
      select sessions from apps where tenant_id = ${row.tenant_id} and id = ${row.app_id}),
    ${first.writes},
    ${seen(first.holds)},
    ${second.writes},
    begun as (
      insert into sessions (tenant_id, id, app_id, user_id, amr, signed_in_at, refreshed_at, ends_at, expires_at, is_new_user,
        weak, issuer_mfa_at, passkey_at, user_agent, address, mac)
      select ${row.tenant_id}, ${row.id}, ${row.app_id}, ${row.user_id}, ${row.amr}::text[], ${row.signed_in_at}::timestamptz,
        ${row.signed_in_at}::timestamptz, ${row.ends_at}::timestamptz,
        least(${row.ends_at}::timestamptz, ${row.signed_in_at}::timestamptz + (app.sessions->>'refreshTokenDays')::int * interval '24 hours'),
        ${row.is_new_user}::boolean, ${row.weak}::boolean, ${row.issuer_mfa_at}::timestamptz, ${row.passkey_at}::timestamptz,
        ${row.user_agent}, ${row.address},
        ${row.mac}::bytea
      from app, seen where ${second.holds} returning 1),
    ${told}
    select case when exists (select from begun) then (app.sessions->>'accessTokenSeconds')::int end as access_seconds,
      ${first.holds} as first_held
    from app`)
  return { accessSeconds: found?.access_seconds ?? null, firstHeld: found?.first_held ?? false }
}

/** A refreshed session, and its access tokens' lifetime. */
export type RefreshedRow = SessionRow & { access_seconds: number }

/** Advances an active session to its next refresh token, if `generation` is the current one. */
export function advanceSession(
  db: Db,
  tenantId: Id<'ten'>,
  id: Id<'ses'>,
  appId: Id<'app'> | null,
  generation: number,
  now: Date,
): Promise<RefreshedRow | undefined> {
  return readRecord<RefreshedRow>(
    db,
    USER_SESSION_RECORD,
    sql`
    update sessions s set generation = s.generation + 1, refreshed_at = ${now},
      expires_at = least(s.ends_at, ${now}::timestamptz + (a.sessions->>'refreshTokenDays')::int * interval '24 hours')
    from apps a
    where a.tenant_id = s.tenant_id and a.id = s.app_id and s.tenant_id = ${tenantId} and s.id = ${id}
      and (${appId}::text is null or s.app_id = ${appId}) and s.generation = ${generation} and s.revoked_at is null
      and s.expires_at > ${now}
    returning s.*, (a.sessions->>'accessTokenSeconds')::int as access_seconds`,
  )
}

/** A session with the data that says why it cannot continue. */
export type ClassifiedRow = RefreshedRow & { user_status: string; guest_over: boolean }

/** The session, locked until the transaction ends, with the state of its user. */
export function classifyRefresh(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'ses'>,
  appId: Id<'app'> | null,
  now: Date,
): Promise<ClassifiedRow | undefined> {
  return readJoined<ClassifiedRow>(
    tx,
    [USER_SESSION_RECORD, USER_RECORD],
    sql`
    select s.*, ${recordColumns(USER_SESSION_RECORD, 's')}, ${recordColumns(USER_RECORD, 'u')}, u.status as user_status, (a.sessions->>'accessTokenSeconds')::int as access_seconds,
      ${guestOver(now)} as guest_over
    from sessions s join users u on u.tenant_id = s.tenant_id and u.id = s.user_id
    join apps a on a.tenant_id = s.tenant_id and a.id = s.app_id
    left join guests g on g.tenant_id = s.tenant_id and g.user_id = s.user_id
    where s.tenant_id = ${tenantId} and s.id = ${id} and (${appId}::text is null or s.app_id = ${appId})
    for no key update of s`,
  )
}

/** A page of a user's sessions, active or ended, newest first. `sessionId` is marked as the current one. */
export function listSessions(
  db: Db,
  tenantId: Id<'ten'>,
  { id: userId, sessionId }: Pick<CurrentUser, 'id' | 'sessionId'>,
  now: Date,
  query: ListSessions,
): Promise<Page<Session>> {
  const live = sql`revoked_at is null and expires_at > ${now}`
  const wanted = query.status === 'ended' ? sql`not (${live})` : live
  const from = sql`from sessions where tenant_id = ${tenantId} and user_id = ${userId} and ${wanted}`
  return readRecordPage(db, USER_SESSION_RECORD, from, query, (row: SessionRow) => toSession(row, now, sessionId))
}

/** A user's session, in any state, to end it: it may have been changed by somebody else, see `readToEnd`. */
export async function findSessionToEnd(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'ses'>,
): Promise<SessionRow | undefined> {
  const [row] = await readToEnd<SessionRow>(
    db,
    USER_SESSION_RECORD,
    sql`select * from sessions where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
  return row
}

/** Notes the version of a session that was just written, once it is committed. */
export const noteVersion = (tx: Db, row: SessionRow) =>
  tx.afterCommit(() => tx.records.committed(USER_SESSION_RECORD, row as object as RecordRow))

/** Sessions as they are after a change, in the transaction that holds their rows. */
export async function storeEach(tx: Db, rows: readonly SessionRow[]): Promise<SessionRow[]> {
  const after = await Promise.all(rows.map((row) => resealed(tx, USER_SESSION_RECORD, row)))
  await tx.run(sql`
    update sessions s set revoked_at = e.revoked_at, mfa_at = e.mfa_at, passkey_at = e.passkey_at, version = e.version, mac = e.mac
    from unnest(${after.map((row) => row.tenant_id)}::text[], ${after.map((row) => row.id)}::text[],
      ${after.map((row) => row.revoked_at)}::timestamptz[], ${after.map((row) => row.mfa_at)}::timestamptz[],
      ${after.map((row) => row.passkey_at)}::timestamptz[], ${after.map((row) => row.version)}::integer[],
      ${after.map((row) => row.mac)}::bytea[])
      e(tenant_id, id, revoked_at, mfa_at, passkey_at, version, mac)
    where s.tenant_id = e.tenant_id and s.id = e.id`)
  for (const row of after) noteVersion(tx, row)
  return after
}

/** Revokes all sessions of a user, or the one with this id, unless already revoked. @returns the sessions that this revoked */
export async function revokeSessions(
  tx: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'ses'> | null,
  now: Date,
): Promise<SessionRow[]> {
  const mine = await readToEnd<SessionRow>(
    tx,
    USER_SESSION_RECORD,
    sql`
    select * from sessions where tenant_id = ${tenantId} and user_id = ${userId} and (${id}::text is null or id = ${id})
      and revoked_at is null order by id for no key update`,
  )
  return mine.length === 0
    ? []
    : storeEach(
        tx,
        mine.map((row) => ({ ...row, revoked_at: now })),
      )
}

/** A user's session, whether it has ended or not. @throws record_tampered */
export function findSession(
  db: Db,
  { tenantId, userId, id }: { tenantId: Id<'ten'>; userId: Id<'usr'>; id: Id<'ses'> },
): Promise<SessionRow | undefined> {
  return readRecord<SessionRow>(
    db,
    USER_SESSION_RECORD,
    sql`select * from sessions where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
}

/** A session that is not revoked, locked until the transaction ends. @throws record_tampered */
export function lockSession(tx: Db, tenantId: Id<'ten'>, id: Id<'ses'>): Promise<SessionRow | undefined> {
  return readRecord<SessionRow>(
    tx,
    USER_SESSION_RECORD,
    sql`select * from sessions where tenant_id = ${tenantId} and id = ${id} and revoked_at is null for no key update`,
  )
}

/** Turns a guest's session into a user's: without the guest's end, freshly signed in, with the next refresh token. */
export async function confirmSession(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'ses'>,
  now: Date,
): Promise<RefreshedRow | undefined> {
  const before = await lockSession(tx, tenantId, id)
  if (before === undefined) return undefined
  const row = await resealed(tx, USER_SESSION_RECORD, { ...before, signed_in_at: now })
  noteVersion(tx, row)
  return readRecord<RefreshedRow>(
    tx,
    USER_SESSION_RECORD,
    sql`
    update sessions s set ${change(row, 'signed_in_at version mac')}, ends_at = null, generation = s.generation + 1,
      refreshed_at = ${now}, expires_at = ${now}::timestamptz + (a.sessions->>'refreshTokenDays')::int * interval '24 hours'
    from apps a
    where a.tenant_id = s.tenant_id and a.id = s.app_id and s.tenant_id = ${tenantId} and s.id = ${id}
    returning s.*, (a.sessions->>'accessTokenSeconds')::int as access_seconds`,
  )
}

/** Removes the guest's end from a user's sessions: they last as long as their app says. */
export async function unboundSessions(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<void> {
  await tx.run(sql`
    update sessions s set ends_at = null,
      expires_at = s.refreshed_at + (a.sessions->>'refreshTokenDays')::int * interval '24 hours'
    from apps a
    where a.tenant_id = s.tenant_id and a.id = s.app_id and s.tenant_id = ${tenantId} and s.user_id = ${userId}
      and s.ends_at is not null and s.revoked_at is null`)
}

/** Whether the user exists in the scope. Guests count. */
export async function hasUser(db: Db, scope: AppScope, userId: Id<'usr'>): Promise<boolean> {
  return (await db.run(sql`select from users where ${inScope(scope)} and id = ${userId}`)) === 1
}

/** What a sign-in is decided by. @throws record_tampered */
export function findSignIn(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
): Promise<
  | {
      status: string
      email: string | null
      email_verified: boolean
      name: string | null
      external_id: string | null
      metadata: Record<string, string>
    }
  | undefined
> {
  return readRecord(db, USER_RECORD, sql`select * from users where tenant_id = ${tenantId} and id = ${userId}`)
}

const SESSIONS_A_DELETION = 2_000

/** Deletes a portion of the sessions that ended more than 30 days ago. @returns whether there may be more */
export async function deleteOldSessions(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from sessions where (tenant_id, id) in (
      select tenant_id, id from sessions where least(expires_at, revoked_at) < now() - 30 * interval '24 hours'
      limit ${SESSIONS_A_DELETION})`)
  return gone === SESSIONS_A_DELETION
}
