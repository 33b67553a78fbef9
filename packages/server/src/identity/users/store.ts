import { type Db, type Sql, sql, unprepared } from '../../platform/db/db.ts'
import { type AppScope, inScope, ordering } from '../../platform/db/page.ts'
import { change, insertion, matching, update, wire } from '../../platform/db/rows.ts'
import { countImported } from '../../platform/events/counters.ts'
import { eventsWritesIf, eventWrites, type StoredEvent } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { guestOver } from '../../platform/security/current-user.ts'
import type { ListUsers, User } from './schema.ts'

/** A row of the table `users`. */
export interface UserRow {
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
export async function insertUser(db: Db, row: UserRow, event: StoredEvent): Promise<void> {
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
    ${column(rows, (row) => row.updated_at)}::timestamptz[])
    as g(id, email, email_key, email_verified, name, external_id, party_id, metadata, search_text, created_event_id, created_at, updated_at)`
}

/**
 * Writes users of one app in one statement with their count and their events. Without events, a counter increment counts
 * them. @returns the ids of the users that were written: the others have an email or external id that is taken
 */
export async function insertUsers(
  tx: Db,
  rows: readonly UserRow[],
  events: readonly StoredEvent[] | null,
): Promise<Set<Id<'usr'>>> {
  const [first] = rows
  if (first === undefined) return new Set()
  const told =
    events === null
      ? countImported(first.tenant_id, first.app_id, first.updated_at)
      : eventsWritesIf(events, sql`e.id in (select created_event_id from added)`)
  const added = await tx.query<{ id: Id<'usr'> }>(sql`
    with added as (
      insert into users (tenant_id, app_id, id, email, email_key, email_verified, name, external_id, party_id, metadata, search_text,
        created_event_id, created_at, updated_at)
      select ${first.tenant_id}, ${first.app_id}, g.id, g.email, g.email_key, g.email_verified, g.name, g.external_id, g.party_id,
        g.metadata::jsonb, g.search_text, g.created_event_id, g.created_at, g.updated_at
      from ${given(rows)} on conflict do nothing returning id, created_event_id),
    ${countWrite(first, sql`(select count(*) from added)`)},
    ${told}
    select id from added`)
  return new Set(added.map(({ id }) => id))
}

/** Writes a guest: a user without a count and without an event. */
export async function insertGuest(db: Db, row: UserRow): Promise<void> {
  await db.run(insertion('users', { ...row, guest: true }))
}

/** Turns a guest into a user that lists show, with its count and its event in one statement. */
export async function promoteGuest(tx: Db, row: UserRow, event: StoredEvent): Promise<void> {
  await tx.run(sql`
    with ${eventWrites(event)}, ${countWrite(row, 1)}
    update users set guest = false, created_event_id = ${event.id},
      ${change(row, 'email email_key name external_id metadata search_text updated_at')}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and guest`)
}

const selectAny = (tenantId: Id<'ten'>, id: Id<'usr'>) =>
  sql`select * from users where tenant_id = ${tenantId} and id = ${id}`

/** The user or guest. */
export function findAnyUser(db: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<UserRow | undefined> {
  return db.one<UserRow>(selectAny(tenantId, id))
}

/** The same, locked until the transaction ends. */
export function lockAnyUser(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<UserRow | undefined> {
  return tx.one<UserRow>(sql`${selectAny(tenantId, id)} for no key update`)
}

/** A user or guest that is locked until the transaction ends. */
export interface LockedUser {
  appId: Id<'app'>
  partyId: string
  suspended: boolean
  /** Whether it is a guest that has ended, also if the sweep has not ended it yet. */
  ended: boolean
}

/** Locks a user or guest until the transaction ends. The result includes changes that it waited for. */
export function lockUserWithStatus(
  tx: Db,
  now: Date,
  tenantId: Id<'ten'>,
  id: Id<'usr'>,
): Promise<LockedUser | undefined> {
  // After a wait, only `u` is read again. A guest's conversion and end are also written to `u`, so an old `g` does no harm.
  return tx.one<LockedUser>(sql`
    select u.app_id as "appId", u.party_id as "partyId", u.status = 'suspended' as suspended,
      u.guest and (u.guest_ended or ${guestOver(now)}) as ended
    from users u left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id
    where u.tenant_id = ${tenantId} and u.id = ${id} for no key update of u`)
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

/** The user with an email, by its key. */
export async function findUserByEmail(
  db: Db,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  emailKey: string,
): Promise<Id<'usr'> | undefined> {
  const row = await db.one<{ id: Id<'usr'> }>(
    sql`select id from users where tenant_id = ${tenantId} and app_id = ${appId} and email_key = ${emailKey}`,
  )
  return row?.id
}

/** Marks a guest as ended. */
export async function endGuest(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>): Promise<void> {
  await tx.run(sql`update users set guest_ended = true where tenant_id = ${tenantId} and id = ${id} and guest`)
}

/** Stores whether the user has a second factor. */
export async function setMfaEnabled(tx: Db, tenantId: Id<'ten'>, id: Id<'usr'>, enabled: boolean): Promise<void> {
  await tx.run(sql`update users set mfa_enabled = ${enabled} where tenant_id = ${tenantId} and id = ${id}`)
}

const select = (scope: AppScope, id: Id<'usr'>) =>
  sql`select * from users where ${inScope(scope)} and id = ${id} and not guest`

/** The user in the scope, unless it is a guest. */
export function findUser(db: Db, scope: AppScope, id: Id<'usr'>): Promise<UserRow | undefined> {
  return db.one<UserRow>(select(scope, id))
}

/** The same, locked until the transaction ends. */
export function lockUser(tx: Db, scope: AppScope, id: Id<'usr'>): Promise<UserRow | undefined> {
  return tx.one<UserRow>(sql`${select(scope, id)} for no key update`)
}

/** Stores the columns that a PATCH can change. */
export async function updateUser(tx: Db, row: UserRow): Promise<void> {
  const columns = 'email email_key email_verified name external_id status metadata search_text updated_at'
  await tx.run(update('users', row, columns))
}

/** Deletes the row and reduces the count. */
export async function deleteUser(tx: Db, row: UserRow): Promise<void> {
  await tx.run(sql`with ${countWrite(row, -1)} delete from users where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

export interface UserFilter extends AppScope {
  trustLevel: User['trustLevel'] | null
  /** A condition of `searchCondition`. */
  search: Sql | null
}

/** Escapes a literal for LIKE. */
const literal = (text: string) => text.replace(/[\\%_]/g, '\\$&')

/**
 * The condition for users that a literal, case-folded `search` finds. A party is `<id>::<namespace>`, and all users of a
 * tenant have the same namespace. So a search that contains a part of it matches all users, or the end of an id.
 */
export function searchCondition(search: string, namespace: string): Sql {
  const party = `::${namespace}`
  if (party.includes(search)) return sql`true`
  const inText = sql`search_text like ${`%${literal(search)}%`}`
  const colon = search.indexOf(':')
  if (colon > 0 && party.startsWith(search.slice(colon))) {
    return sql`(${inText} or id like ${`%${literal(search.slice(0, colon))}`})`
  }
  return inText
}

function conditions(filter: UserFilter): Sql {
  const { tenantId, appId, trustLevel, search } = filter
  const found = sql`${matching({ tenant_id: tenantId, app_id: appId, trust_level: trustLevel })} and not guest`
  return search === null ? found : sql`${found} and ${search}`
}

/** How many users a filter without a search finds. */
function countUsers(db: Db, filter: UserFilter): Promise<number> {
  return db.count(sql`
    select coalesce(sum(n), 0)::bigint as n from user_counts
    where ${inScope(filter)} and (${filter.trustLevel}::text is null or trust_level = ${filter.trustLevel})`)
}

const SORT_COLUMNS = { createdAt: sql`id`, email: sql`email_key`, externalId: sql`external_id` }

type Order = ReturnType<typeof ordering>

/** A page by its offset, by id. A page in the second half is read from the end, so that no page skips more than half of the rows. */
async function usersById(
  db: Db,
  filter: UserFilter,
  { direction }: Order,
  { offset, limit, total }: { offset: number; limit: number; total: number },
): Promise<UserRow[]> {
  const fromEnd = offset > total / 2
  const rows = fromEnd ? Math.min(limit, total - offset) : limit
  const skip = fromEnd ? total - offset - rows : offset
  const ascending = (direction.text === 'asc') !== fromEnd
  // The index alone finds the ids of the page; full rows are read only for the page.
  const ids = sql`select id from users where ${conditions(filter)} order by id ${ascending ? sql`asc` : sql`desc`} offset ${skip} limit ${rows}`
  return db.query<UserRow>(sql`
    select u.* from (${ids}) as page join users u on u.tenant_id = ${filter.tenantId} and u.id = page.id order by u.id ${direction}`)
}

/**
 * A page in the order of a column that each app has a unique index on: the first ones of every app, merged. Users without
 * a value come last, newest first.
 */
async function usersByValue(
  db: Db,
  filter: UserFilter,
  { column, direction }: Order,
  { offset, limit }: { offset: number; limit: number },
): Promise<UserRow[]> {
  const all = conditions(filter)
  const ids = sql`
    select f.* from (select distinct app_id as app from user_counts where ${inScope(filter)}) a
    cross join lateral (
      select id, ${column} as place from users where ${all} and app_id = a.app and ${column} is not null
      order by ${column} ${direction} limit ${offset + limit}) f
    order by place ${direction}, id ${direction} offset ${offset} limit ${limit}`
  const rows = await db.query<UserRow>(
    unprepared(sql`
      select u.* from (${ids}) page join users u on u.tenant_id = ${filter.tenantId} and u.id = page.id
      order by place ${direction}, u.id ${direction}`),
  )
  if (rows.length === limit) return rows
  const valued =
    rows.length > 0
      ? offset + rows.length
      : await db.count(sql`select count(*) as n from users where ${all} and ${column} is not null`)
  const rest = sql`
    select * from users where ${all} and ${column} is null order by id desc
    offset ${offset + rows.length - valued} limit ${limit - rows.length}`
  return [...rows, ...(await db.query<UserRow>(rest))]
}

/** Count and page of a search in one pass. Each search is planned separately, because a text may be rare or common. */
async function searchUsers(
  db: Db,
  filter: UserFilter,
  { column, direction }: Order,
  { offset, limit }: { offset: number; limit: number },
): Promise<UserPage> {
  const order = sql`order by place ${direction} nulls last, hit desc`
  const found = await db.query<UserRow & { total: number }>(
    unprepared(sql`
      with hits as materialized (select id as hit, ${column} as place from users where ${conditions(filter)}),
      page as (select * from hits ${order} offset ${offset} limit ${limit})
      select (select count(*) from hits) as total, u.*
      from (values (1)) as always left join page on true left join users u on u.tenant_id = ${filter.tenantId} and u.id = page.hit
      ${order}`),
  )
  return { rows: found.filter((row) => row.id !== null), total: found[0]?.total ?? 0 }
}

export interface UserPage {
  rows: UserRow[]
  /** The exact number of users that the filter finds. */
  total: number
}

/** A page of the users that a filter finds, by default newest first. */
export async function listUsers(
  db: Db,
  filter: UserFilter,
  sort: ListUsers['sort'],
  offset: number,
  limit: number,
): Promise<UserPage> {
  const order = ordering(sort, SORT_COLUMNS)
  if (filter.search !== null) return searchUsers(db, filter, order, { offset, limit })
  const total = await countUsers(db, filter)
  if (offset >= total) return { rows: [], total }
  const read = order.column === SORT_COLUMNS.createdAt ? usersById : usersByValue
  const rows = await read(db, filter, order, { offset, limit, total })
  // Users who were created since the count are on the page, and push nobody off it.
  return { rows, total: Math.max(total, offset + rows.length) }
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
