import { type Db, type Sql, sql, unprepared } from '../../platform/db/db.ts'
import { type AppScope, inScope, ordering } from '../../platform/db/page.ts'
import { matching } from '../../platform/db/rows.ts'
import type { ListUsers, User } from './schema.ts'
import type { UserRow } from './store.ts'

/** Which users to list. */
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
