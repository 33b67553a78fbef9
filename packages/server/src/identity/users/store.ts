import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope } from '../../platform/db/page.ts'
import { change, insertion, update, wire } from '../../platform/db/rows.ts'
import { countImported } from '../../platform/events/counters.ts'
import { eventsWritesIf, eventWrites, type StoredEvent } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { guestOver } from '../../platform/security/guest-over.ts'
import {
  readRecord,
  readRecords,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import { type IdList, listWith, listWithout } from '../../platform/security/records/id-list.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import { METADATA_CLAIM_PREFIX } from '../../tenancy/apps/service.ts'
import type { User } from './schema.ts'

/** A row of the table `users`. */
export interface UserRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'usr'>
  app_id: Id<'app'>
  email: string | null
  email_key: string | null
  email_verified: boolean
  name: string | null
  external_id: string | null
  party_id: string
  trust_level: User['trustLevel']
  status: User['status']
  mfa_enabled: boolean
  guest: boolean
  guest_ended: boolean
  /** The ids of the user's passkeys and identities; null in a row from before this list. */
  credentials: IdList | null
  /** The version of the second factor's row that counts; null in a row from before it. */
  factor_version: number | null
  metadata: Record<string, string>
  search_text: string
  /** The id of its `user.created`. Null for guests, and for users that were imported without events. */
  created_event_id: Id<'evt'> | null
  last_seen_at: Date | null
  created_at: Date
  updated_at: Date
}

/** One count per connection, so that concurrent creations never wait for each other's row. */
const COUNT_SHARDS = 64

/** A row in its API form. */
export function toUser(row: UserRow): User {
  return wire(
    row,
    `id app_id email email_verified name external_id party_id trust_level status mfa_enabled metadata last_seen_at
    created_at updated_at`,
  )
}

/** A `with` part, `counted`, that adds a change to the count of users. */
function countWrite(row: Pick<UserRow, 'tenant_id' | 'app_id' | 'trust_level'>, change: number | Sql): Sql {
  return sql`
    counted as (
      insert into user_counts as c (tenant_id, app_id, trust_level, shard, n)
      select ${row.tenant_id}, ${row.app_id}, ${row.trust_level}, pg_backend_pid() % ${COUNT_SHARDS}::int, ${change}::bigint
      on conflict (tenant_id, app_id, trust_level, shard) do update set n = c.n + excluded.n)`
}

/** Writes a user, its count and its event in one statement, which is its own transaction. */
export async function insertUser(db: Db, made: UserRow, event: StoredEvent): Promise<void> {
  const row = await sealed(db, USER_RECORD, made)
  await db.run(sql`
    with ${eventWrites(event)}, ${countWrite(row, 1)}
    ${insertion('users', { ...row, created_event_id: event.id })}`)
}

const column = <T>(rows: readonly UserRow[], pick: (row: UserRow) => T): T[] => rows.map(pick)

function given(rows: readonly UserRow[]): Sql {
  return sql`unnest(
    ${column(rows, (row) => row.id)}::text[], ${column(rows, (row) => row.email)}::text[], ${column(rows, (row) => row.email_key)}::text[],
    ${column(rows, (row) => row.email_verified)}::boolean[], ${column(rows, (row) => row.name)}::text[],
    ${column(rows, (row) => row.external_id)}::text[], ${column(rows, (row) => row.party_id)}::text[],
    ${column(rows, (row) => JSON.stringify(row.metadata))}::text[], ${column(rows, (row) => row.search_text)}::text[],
    ${column(rows, (row) => row.created_event_id)}::text[], ${column(rows, (row) => row.created_at)}::timestamptz[],
    ${column(rows, (row) => row.updated_at)}::timestamptz[], ${column(rows, (row) => row.mac)}::bytea[])
    as g(id, email, email_key, email_verified, name, external_id, party_id, metadata, search_text, created_event_id, created_at,
      updated_at, mac)`
}

/**
 * Writes users of one app in one statement with their count and their events. Without events, a counter increment counts
 * them. @returns the ids of the users that were written: the others have an email or external id that is taken
 */
export async function insertUsers(
  tx: Db,
  made: readonly UserRow[],
  events: readonly StoredEvent[] | null,
): Promise<Set<Id<'usr'>>> {
  const rows = await Promise.all(made.map((row) => sealed(tx, USER_RECORD, row)))
  const [first] = rows
  if (first === undefined) return new Set()
  const told =
    events === null
      ? countImported(first.tenant_id, first.app_id, first.updated_at)
      : eventsWritesIf(events, sql`e.id in (select created_event_id from added)`)
  const added = await tx.query<{ id: Id<'usr'> }>(sql`
    with added as (
      insert into users (tenant_id, app_id, id, email, email_key, email_verified, name, external_id, party_id, metadata, search_text,
        created_event_id, created_at, updated_at, credentials, factor_version, mac)
      select ${first.tenant_id}, ${first.app_id}, g.id, g.email, g.email_key, g.email_verified, g.name, g.external_id, g.party_id,
        g.metadata::jsonb, g.search_text, g.created_event_id, g.created_at, g.updated_at,
        ${first.credentials}, ${first.factor_version}::integer, g.mac
      from ${given(rows)} on conflict do nothing returning id, created_event_id),
    ${countWrite(first, sql`(select count(*) from added)`)},
    ${told}
    select id from added`)
  return new Set(added.map(({ id }) => id))
}

/** Writes a guest: a user without a count and without an event. */
export async function insertGuest(db: Db, row: UserRow): Promise<void> {
  await db.run(insertion('users', await sealed(db, USER_RECORD, { ...row, guest: true })))
}

/** Turns a guest into a user that lists show, with its count and its event in one statement. */
export async function promoteGuest(tx: Db, before: UserRow, event: StoredEvent): Promise<void> {
  const row = await resealed(tx, USER_RECORD, { ...before, guest: false })
  await tx.run(sql`
    with ${eventWrites(event)}, ${countWrite(row, 1)}
    update users set guest = false, created_event_id = ${event.id},
      ${change(row, 'email email_key name external_id metadata search_text updated_at version mac')}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and guest`)
  // The database takes claims out of the metadata at a conversion, because a process of the release before lets guests write them.
  // Here, they are a server's: the caller has refused those of guests.
  if (Object.keys(row.metadata).some((key) => key.startsWith(METADATA_CLAIM_PREFIX)))
    await tx.run(
      sql`update users set metadata = ${JSON.stringify(row.metadata)}::jsonb where tenant_id = ${row.tenant_id} and id = ${row.id}`,
    )
}

const selectAny = (tenantId: Id<'ten'>, id: Id<'usr'>) =>
  sql`select * from users where tenant_id = ${tenantId} and id = ${id}`

/** The user or guest. */
export function findAnyUser(db: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<UserRow | undefined> {
  return readRecord<UserRow>(db, USER_RECORD, selectAny(tenantId, id))
}

/** Which of these ids are active users of a scope, no guests, and their apps. */
export async function activeUsers(
  db: Db,
  scope: AppScope,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Id<'app'>>> {
  if (ids.length === 0) return new Map()
  const rows = await readRecords<UserRow>(
    db,
    USER_RECORD,
    sql`select * from users where ${inScope(scope)} and id = any(${ids}::text[]) and status = 'active' and not guest`,
  )
  return new Map(rows.map(({ id, app_id }) => [id, app_id]))
}

/** The same, locked until the transaction ends. It may have been changed by somebody else: see `readToEnd`. */
export async function lockAnyUser(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<UserRow | undefined> {
  const [row] = await readToEnd<UserRow>(tx, USER_RECORD, sql`${selectAny(tenantId, id)} for no key update`)
  return row
}

/** A user or guest that is locked until the transaction ends. */
export interface LockedUser {
  appId: Id<'app'>
  partyId: string
  suspended: boolean
  /** Whether it is a guest that has ended, also if the sweep has not ended it yet. */
  ended: boolean
}

/** Locks a user or guest until the transaction ends. The result includes changes that it waited for. @throws record_tampered */
export async function lockUserWithStatus(
  tx: Db,
  now: Date,
  tenantId: Id<'ten'>,
  id: Id<'usr'>,
): Promise<LockedUser | undefined> {
  // After a wait, only `u` is read again. A guest's conversion and end are also written to `u`, so an old `g` does no harm.
  const row = await readRecord<UserRow & { over: boolean }>(
    tx,
    USER_RECORD,
    sql`
    select u.*, ${guestOver(now)} as over from users u
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = ${id} for no key update of u`,
  )
  return (
    row && {
      appId: row.app_id,
      partyId: row.party_id,
      suspended: row.status === 'suspended',
      ended: row.guest && (row.guest_ended || row.over),
    }
  )
}

/** Stores who can move the user's assets, and moves the user, unless a guest, to the other count. */
export async function setTrustLevel(
  tx: Db,
  now: Date,
  { tenantId, id, trustLevel }: { tenantId: Id<'ten'>; id: Id<'usr'>; trustLevel: User['trustLevel'] },
): Promise<void> {
  await tx.run(sql`
    with before as (
      select tenant_id, id, app_id, trust_level, guest from users
      where tenant_id = ${tenantId} and id = ${id} and trust_level <> ${trustLevel} for no key update),
    counted as (
      insert into user_counts as c (tenant_id, app_id, trust_level, shard, n)
      select tenant_id, app_id, level, pg_backend_pid() % ${COUNT_SHARDS}::int, change
      from before cross join lateral (values (before.trust_level, -1), (${trustLevel}::text, 1)) as moved (level, change)
      where not guest order by level
      on conflict (tenant_id, app_id, trust_level, shard) do update set n = c.n + excluded.n)
    update users u set trust_level = ${trustLevel}, updated_at = ${now} from before
    where u.tenant_id = before.tenant_id and u.id = before.id`)
}

/** What is checked where there is no user: the answer must not come sooner than where there is one. */
const NOBODY = {
  id: 'usr_nobody',
  app_id: 'app_nobody',
  email: 'nobody@example.com',
  email_key: 'nobody@example.com',
  email_verified: false,
  external_id: null,
  party_id: 'usr_nobody::122000000000000000000000000000000000000000000000000000000000000000000000',
  status: 'active',
  guest: false,
  guest_ended: false,
  mfa_enabled: false,
  credentials: '',
  factor_version: 0,
  version: 0,
}

/** The user with an email, by its key. Takes as long where there is none. */
export async function findUserByEmail(
  db: Db,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  emailKey: string,
): Promise<Id<'usr'> | undefined> {
  const row = await readRecord<UserRow>(
    db,
    USER_RECORD,
    sql`select * from users where tenant_id = ${tenantId} and app_id = ${appId} and email_key = ${emailKey}`,
  )
  if (row === undefined) await db.records.mac(USER_RECORD, { ...NOBODY, tenant_id: tenantId })
  return row?.id
}

/** Marks a guest as ended. */
export async function endGuest(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<void> {
  const before = await lockAnyUser(tx, tenantId, id)
  if (before?.guest !== true) return
  const row = await resealed(tx, USER_RECORD, { ...before, guest_ended: true })
  await tx.run(update('users', row, 'guest_ended version mac'))
  noteVersion(tx, row)
}

/** The user or guest, locked until the transaction ends, verified. @throws record_tampered */
export function lockAccount(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<UserRow | undefined> {
  return readRecord<UserRow>(tx, USER_RECORD, sql`${selectAny(tenantId, id)} for no key update`)
}

/** Stores whether the user has a second factor, and which version of its row counts, in the transaction that holds the user. */
export async function setSecondFactor(
  tx: Db,
  before: UserRow,
  { enabled, version }: { enabled: boolean; version: number },
): Promise<UserRow> {
  const row = await resealed(tx, USER_RECORD, { ...before, mfa_enabled: enabled, factor_version: version })
  await tx.run(update('users', row, 'mfa_enabled factor_version version mac'))
  noteVersion(tx, row)
  return row
}

async function setCredentials(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'usr'>,
  change: (list: IdList | null) => IdList | null,
): Promise<void> {
  const before = await lockAnyUser(tx, tenantId, id)
  if (before === undefined) return
  const row = await resealed(tx, USER_RECORD, { ...before, credentials: change(before.credentials) })
  await tx.run(update('users', row, 'credentials version mac'))
  noteVersion(tx, row)
}

/** Whether a recovery by email may be pending. A list that nobody has written yet does not say. */
export const mayRecover = ({ credentials }: Pick<UserRow, 'credentials'>): boolean =>
  credentials === null || credentials.includes('rcv_')

/** Lists a new passkey or identity in the user's record. Call it in the transaction that writes the row, before that. */
export function listCredential(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>, credential: string): Promise<void> {
  return setCredentials(tx, tenantId, id, (list) => listWith(list, credential))
}

/** Takes a passkey or identity off the list: it never signs in again. Call it in the transaction that deletes the row, before that. */
export function unlistCredential(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>, credential: string): Promise<void> {
  return setCredentials(tx, tenantId, id, (list) => listWithout(list, new Set([credential])))
}

const select = (scope: AppScope, id: Id<'usr'>) =>
  sql`select * from users where ${inScope(scope)} and id = ${id} and not guest`

/** The user in the scope, unless it is a guest. */
export function findUser(db: Db, scope: AppScope, id: Id<'usr'>): Promise<UserRow | undefined> {
  return readRecord<UserRow>(db, USER_RECORD, select(scope, id))
}

/** The same, locked until the transaction ends. It may have been changed by somebody else: see `readToEnd`. */
export async function lockUser(tx: Db, scope: AppScope, id: Id<'usr'>): Promise<UserRow | undefined> {
  const [row] = await readToEnd<UserRow>(tx, USER_RECORD, sql`${select(scope, id)} for no key update`)
  return row
}

const noteVersion = (tx: Db, row: UserRow) =>
  tx.afterCommit(() => tx.records.committed(USER_RECORD, row as object as RecordRow))

/** Stores the columns that a PATCH can change, in the transaction that holds the row. */
export async function updateUser(tx: Db, before: UserRow): Promise<void> {
  const row = await resealed(tx, USER_RECORD, before)
  const columns = 'email email_key email_verified name external_id status metadata search_text updated_at version mac'
  await tx.run(update('users', row, columns))
  noteVersion(tx, row)
}

/** Deletes the row and reduces the count. */
export async function deleteUser(tx: Db, row: UserRow): Promise<void> {
  await tx.run(sql`with ${countWrite(row, -1)} delete from users where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** A `with` part, `seen`, that marks a user as seen. It has no row if the user is not active or the condition does not hold. */
export function userSeen(
  { tenantId, userId, at }: { tenantId: Id<'ten'>; userId: Id<'usr'>; at: Date },
  condition: Sql,
): Sql {
  return sql`
    seen as (
      update users set last_seen_at = ${at}
      where tenant_id = ${tenantId} and id = ${userId} and status = 'active' and not guest_ended and ${condition}
      returning 1)`
}
