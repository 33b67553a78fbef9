import { and, type Db, isoTime, type Sql, sql, unprepared } from '../../platform/db/db.ts'
import type { AuditOnlyAction } from '../../platform/events/audit-actions.ts'
import type { AuditOnlyRow } from '../../platform/events/audit-only-entries.ts'
import { EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import type { ChainPlace } from '../../platform/floor/source.ts'
import { type Id, isId } from '../../platform/ids.ts'
import type { AuditRecord, SignedHead } from './chain.ts'
import type { AuditEntry } from './schema.ts'

/** The columns of `audit_entries` that make an `AuditRecord`, in the order in which files have them. */
const RECORD = sql`
  seq, id, ${isoTime(sql`at`)} as at, actor, key_id as "keyId", action, target, user_id as "userId", app_id as "appId",
  event_id as "eventId", request_id as "requestId", address, encode(address_salt, 'hex') as "addressSalt",
  encode(address_hash, 'hex') as "addressHash", encode(previous_hash, 'hex') as "previousHash", encode(hash, 'hex') as hash`

/** The columns of `audit_heads` that make a `SignedHead`; without a signature, `signature` is empty. */
const HEAD = sql`
  seq, encode(hash, 'hex') as hash, coalesce(${isoTime(sql`signed_at`)}, '') as "signedAt",
  coalesce(encode(signature, 'hex'), '') as signature`

/** Before the first entry, a row has no signature. */
const headOf = (row: SignedHead | undefined): SignedHead | null =>
  row === undefined || (row.seq === 0 && row.signature === '') ? null : row

/** The tenant's signed head; null without entries. An altered head without a signature has an empty one. */
export async function findHead(db: Db, tenantId: Id<'ten'>): Promise<SignedHead | null> {
  return headOf(await db.one<SignedHead>(sql`select ${HEAD} from audit_heads where tenant_id = ${tenantId}`))
}

/** The same, locked until the transaction ends: appends to one chain are serialised. */
export async function lockHead(tx: Db, tenantId: Id<'ten'>): Promise<SignedHead | null> {
  await tx.run(sql`
    insert into audit_heads (tenant_id, seq, hash) values (${tenantId}, 0, ${Buffer.alloc(0)}) on conflict do nothing`)
  return headOf(await tx.one<SignedHead>(sql`select ${HEAD} from audit_heads where tenant_id = ${tenantId} for update`))
}

/** Stores the new head. */
export async function writeHead(tx: Db, tenantId: Id<'ten'>, head: SignedHead): Promise<void> {
  await tx.run(sql`
    update audit_heads set seq = ${head.seq}, hash = ${Buffer.from(head.hash, 'hex')},
      signature = ${Buffer.from(head.signature, 'hex')}, signed_at = ${head.signedAt}
    where tenant_id = ${tenantId}`)
}

/** Inserts entries. */
export async function insertEntries(tx: Db, tenantId: Id<'ten'>, entries: readonly AuditRecord[]): Promise<void> {
  const column = (name: keyof AuditRecord) => entries.map((entry) => entry[name])
  await tx.run(sql`
    insert into audit_entries (tenant_id, seq, id, at, actor, key_id, action, target, user_id, app_id, event_id, request_id,
      address, address_salt, address_hash, previous_hash, hash)
    select ${tenantId}, seq, id, at, actor, key_id, action, target, user_id, app_id, event_id, request_id,
      address, decode(address_salt, 'hex'), decode(address_hash, 'hex'), decode(previous_hash, 'hex'), decode(hash, 'hex')
    from unnest(${column('seq')}::bigint[], ${column('id')}::text[], ${column('at')}::timestamptz[], ${column('actor')}::text[],
      ${column('keyId')}::text[], ${column('action')}::text[], ${column('target')}::text[], ${column('userId')}::text[],
      ${column('appId')}::text[], ${column('eventId')}::text[], ${column('requestId')}::text[], ${column('address')}::text[],
      ${column('addressSalt')}::text[], ${column('addressHash')}::text[], ${column('previousHash')}::text[], ${column('hash')}::text[])
      as e(seq, id, at, actor, key_id, action, target, user_id, app_id, event_id, request_id,
        address, address_salt, address_hash, previous_hash, hash)`)
}

/** The number of entries of one kind in a day or an hour. */
export interface Counted {
  hours: 24 | 1
  begins: string
  appId: string
  action: string
  actor: string
  n: number
}

/** Adds to the counts. */
export async function addCounts(tx: Db, tenantId: Id<'ten'>, counts: readonly Counted[]): Promise<void> {
  const column = (name: keyof Counted) => counts.map((each) => each[name])
  await tx.run(sql`
    insert into audit_counts as c (tenant_id, hours, begins, app_id, action, actor, n)
    select ${tenantId}, * from unnest(${column('hours')}::smallint[], ${column('begins')}::timestamptz[], ${column('appId')}::text[], ${column('action')}::text[],
      ${column('actor')}::text[], ${column('n')}::bigint[])
    on conflict (tenant_id, hours, begins, app_id, action, actor) do update set n = c.n + excluded.n`)
}

/** Those of these users and apps whose deletion is in the log. */
export async function findDeleted(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ target: string }>(sql`
    select target from audit_entries
    where tenant_id = ${tenantId} and action in ('user.deleted', 'app.deleted') and target = any(${ids}::text[])`)
  return rows.map((row) => row.target)
}

/** Erases addresses and salts from all entries of these users, and of all users of these apps. */
export async function eraseAddresses(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<void> {
  const [userIds, appIds] = [ids.filter((id) => isId('usr', id)), ids.filter((id) => isId('app', id))]
  if (userIds.length > 0)
    await tx.run(sql`
      update audit_entries set address = null, address_salt = null
      where tenant_id = ${tenantId} and user_id = any(${userIds}::text[]) and address is not null`)
  if (appIds.length > 0)
    await tx.run(sql`
      update audit_entries set address = null, address_salt = null
      where tenant_id = ${tenantId} and app_id = any(${appIds}::text[]) and user_id is not null and address is not null`)
}

/** Tenants with audit-only entries that are not in the chain yet, at most `limit`. */
export async function tenantsWithNotes(db: Db, limit: number): Promise<Id<'ten'>[]> {
  const rows = await db.query<{ tenant_id: Id<'ten'> }>(
    sql`select distinct tenant_id from audit_only_entries limit ${limit}`,
  )
  return rows.map((row) => row.tenant_id)
}

/** The next audit-only entries of a tenant, in the order of their ids, not verified. */
export function notesAfter(db: Db, tenantId: Id<'ten'>, after: string, limit: number): Promise<AuditOnlyRow[]> {
  return db.query<AuditOnlyRow>(selectNotes(tenantId, after, limit))
}

/** The same, locked until the transaction ends: no other worker takes them. */
export function lockNotesAfter(tx: Db, tenantId: Id<'ten'>, after: string, limit: number): Promise<AuditOnlyRow[]> {
  return tx.query<AuditOnlyRow>(sql`${selectNotes(tenantId, after, limit)} for update`)
}

const selectNotes = (tenantId: Id<'ten'>, after: string, limit: number): Sql => sql`
  select tenant_id, id, at, action, target, user_id, app_id, context, mac from audit_only_entries
  where tenant_id = ${tenantId} and id > ${after} order by id limit ${limit}`

/** The ids of those that have their entries. */
export async function findRecorded(
  db: Db,
  tenantId: Id<'ten'>,
  notes: readonly Pick<AuditOnlyRow, 'id' | 'target'>[],
): Promise<string[]> {
  const rows = await db.query<{ id: string }>(sql`
    select n.id from unnest(${notes.map(({ id }) => id)}::text[], ${notes.map(({ target }) => target)}::text[]) as n(id, target)
    where exists (select from audit_entries a where a.tenant_id = ${tenantId} and a.target = n.target and a.id = n.id)`)
  return rows.map(({ id }) => id)
}

/** Removes audit-only entries. */
export async function removeNotes(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<void> {
  await tx.run(sql`delete from audit_only_entries where tenant_id = ${tenantId} and id = any(${ids}::text[])`)
}

/** The filter of a list; null does not narrow it. */
export interface EntryFilter {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
  actor: string | null
  target: string | null
  userId: string | null
  actions: readonly string[] | null
  since: Date | null
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The end of the day or hour that contains a moment, UTC. */
const endOf = (at: Date, spanMs: number) => new Date((Math.floor(at.getTime() / spanMs) + 1) * spanMs)

/** Users and delegated sessions: many actors with a few entries each. Counts are not kept for them. */
export const isOneOfMany = (actor: string): boolean => /^(usr|dse)_/.test(actor)

function conditions(filter: EntryFilter, withActions = true): Sql {
  const all = [sql`tenant_id = ${filter.tenantId}`]
  if (filter.appId !== null) all.push(sql`app_id = ${filter.appId}`)
  if (filter.actor !== null) all.push(sql`actor = ${filter.actor}`)
  if (filter.target !== null) all.push(sql`target = ${filter.target}`)
  if (filter.userId !== null) all.push(sql`user_id = ${filter.userId}`)
  if (filter.since !== null) all.push(sql`at >= ${filter.since}`)
  if (filter.actions !== null && withActions)
    all.push(
      filter.actions.length === 1 ? sql`action = ${filter.actions[0]}` : sql`action = any(${filter.actions}::text[])`,
    )
  return and(all)
}

const countRows = (db: Db, where: Sql) =>
  db.count(unprepared(sql`select count(*) as n from audit_entries where ${where}`))

/** Adds the counts of whole days, of whole hours on the day of `since`, and the entries in its hour. */
async function countBySpans(db: Db, filter: EntryFilter): Promise<number> {
  const { tenantId, appId, actor, actions, since } = filter
  const [day, hour] = since === null ? [null, null] : [endOf(since, DAY_MS), endOf(since, HOUR_MS)]
  const spans =
    day === null
      ? sql`hours = 24`
      : sql`(hours = 24 and begins >= ${day} or hours = 1 and begins >= ${hour} and begins < ${day})`
  const whole = await db.count(sql`
    select coalesce(sum(n), 0)::bigint as n from audit_counts
    where tenant_id = ${tenantId} and ${spans} and (${appId}::text is null or app_id = ${appId})
      and (${actor}::text is null or actor = ${actor}) and (${actions}::text[] is null or action = any(${actions}))`)
  return hour === null ? whole : whole + (await countRows(db, sql`${conditions(filter)} and at < ${hour}`))
}

const isUnfiltered = ({ appId, actor, target, userId, actions, since }: EntryFilter) =>
  [appId, actor, target, userId, actions, since].every((each) => each === null)

/** The exact number of entries that a filter finds. */
async function countEntries(db: Db, filter: EntryFilter): Promise<number> {
  if (isUnfiltered(filter)) return db.count(sql`select seq as n from audit_heads where tenant_id = ${filter.tenantId}`)
  if (filter.target !== null || filter.userId !== null || (filter.actor !== null && isOneOfMany(filter.actor)))
    return countRows(db, conditions(filter))
  return countBySpans(db, filter)
}

/** The places that a filter finds, after the first `skip`: newest first, or oldest first with `oldest`. */
function placesOf(filter: EntryFilter, oldest: boolean, skip: number, rows: number): Sql {
  const order = oldest ? sql`order by seq asc` : sql`order by seq desc`
  const { actions, actor, target, userId } = filter
  if (actions === null || actions.length === 1 || actor !== null || target !== null || userId !== null)
    return sql`select seq from audit_entries where ${conditions(filter)} ${order} offset ${skip} limit ${rows}`
  // The index is ordered within each action: merge the first ones of each.
  return sql`
    select seq from unnest(${actions}::text[]) as a(name) cross join lateral (
      select seq from audit_entries where ${conditions(filter, false)} and action = a.name ${order} limit ${skip + rows}) p
    ${order} offset ${skip} limit ${rows}`
}

/** A page of the entries that a filter finds, newest first, or oldest first with `ascending`, and their total number. */
export async function listEntries(
  db: Db,
  filter: EntryFilter,
  ascending: boolean,
  offset: number,
  limit: number,
): Promise<{ entries: AuditEntry[]; total: number }> {
  const total = await countEntries(db, filter)
  if (offset >= total) return { entries: [], total }
  const rows = Math.min(limit, total - offset)
  // Without a filter the place is the number. Otherwise a page in the second half is read from the other end.
  const fromEnd = filter.since === null && offset > total / 2
  const first = ascending ? offset : total - offset - rows
  const places = isUnfiltered(filter)
    ? sql`select seq from audit_entries where tenant_id = ${filter.tenantId} and seq > ${first} and seq <= ${first + rows}`
    : placesOf(filter, ascending !== fromEnd, fromEnd ? total - offset - rows : offset, fromEnd ? rows : limit)
  const page = await db.query<AuditRecord>(
    unprepared(sql`
      select ${RECORD} from (${places}) as page join audit_entries using (seq)
      where tenant_id = ${filter.tenantId} order by seq ${ascending ? sql`asc` : sql`desc`}`),
  )
  // The API does not return the salt and hash of an address.
  const entries = page.map(({ addressSalt: _, addressHash: __, ...entry }) => entry)
  return { entries, total: Math.max(total, offset + entries.length) }
}

/** The number of entries in the table, which may differ from the head's. */
export function countAll(db: Db, tenantId: Id<'ten'>): Promise<number> {
  return countRows(db, sql`tenant_id = ${tenantId}`)
}

/** Whether a log was begun before: it has entries, or events were processed for it. Then it must have a head. */
export async function hasBegun(tx: Db, tenantId: Id<'ten'>): Promise<boolean> {
  const row = await tx.one<{ begun: boolean }>(sql`
    select exists (select from audit_entries where tenant_id = ${tenantId})
      or exists (select from feed_cursors where tenant_id = ${tenantId} and follower = 'audit' and seq > 0) as begun`)
  return row?.begun === true
}

/** Whether a tenant was created after a time, or waits for its first entry. */
export async function isNew(tx: Db, tenantId: Id<'ten'>, since: Date): Promise<boolean> {
  const row = await tx.one(sql`
    select from tenants where id = ${tenantId} and (created_at > ${since}
      or exists (select from audit_only_entries where tenant_id = ${tenantId} and action = 'tenant.created'))`)
  return row !== undefined && !(await hasBegun(tx, tenantId))
}

/** The first event that is kept, that the log has passed, and that has no entry. */
export function findUnrecorded(tx: Db, tenantId: Id<'ten'>): Promise<{ id: string; type: string } | undefined> {
  return tx.one<{ id: string; type: string }>(
    unprepared(sql`
      select e.id, e.type from feed_cursors c
      join feed f on f.tenant_id = c.tenant_id and f.seq <= c.seq
      join events e on e.tenant_id = f.tenant_id and e.id = f.event_id
      where c.tenant_id = ${tenantId} and c.follower = 'audit' and e.type = any(${EVENT_TYPES}::text[])
        and (e.context -> 'custom') is null
        and not exists (select from audit_entries a where a.tenant_id = e.tenant_id and a.event_id = e.id)
      order by f.seq limit 1`),
  )
}

/** An event that has more than one entry. */
export function findRepeated(tx: Db, tenantId: Id<'ten'>): Promise<{ eventId: string } | undefined> {
  return tx.one<{ eventId: string }>(
    unprepared(sql`
      select event_id as "eventId" from audit_entries where tenant_id = ${tenantId} and event_id is not null
      group by event_id having count(*) > 1 order by 1 limit 1`),
  )
}

/** An entry. `fitsEvent`: its event, where it is still kept, has this type, app and time. */
export type CheckedRecord = AuditRecord & { fitsEvent: boolean }

/** The next entries after a place, in the chain's order. */
export function entriesAfter(db: Db, tenantId: Id<'ten'>, after: number, limit: number): Promise<CheckedRecord[]> {
  return db.query<CheckedRecord>(sql`
    select ${RECORD}, fits as "fitsEvent" from (
      select a.*, e.id is null or (e.type = a.action and e.created_at = a.at and e.app_id is not distinct from a.app_id) as fits
      from (select * from audit_entries where tenant_id = ${tenantId} and seq > ${after} order by seq limit ${limit}) a
      left join events e on e.tenant_id = ${tenantId} and e.id = a.event_id) checked
    order by seq`)
}

/** Where the logs of the next tenants end. */
export function ends(db: Db, after: string, limit: number): Promise<ChainPlace[]> {
  return db.query<ChainPlace>(sql`
    select tenant_id as "tenantId", seq, encode(hash, 'hex') as hash from audit_heads
    where tenant_id > ${after} and seq > 0 order by tenant_id limit ${limit}`)
}

/** The entries at these places of logs. */
export function entriesAt(db: Db, places: readonly Pick<ChainPlace, 'tenantId' | 'seq'>[]): Promise<ChainPlace[]> {
  return db.query<ChainPlace>(sql`
    select e.tenant_id as "tenantId", e.seq, encode(e.hash, 'hex') as hash
    from unnest(${places.map(({ tenantId }) => tenantId)}::text[], ${places.map(({ seq }) => seq)}::bigint[]) as p(tenant_id, seq)
    join audit_entries e on e.tenant_id = p.tenant_id and e.seq = p.seq`)
}

const ENDS_A_PORTION = 2_000
/** Acts of a wallet get their entries by two ways, so their order is that of their times, which clocks may move. */
const LATER_BY_CLOCK = sql`u.at > p.at - interval '1 minute'`

/** Conditions that the record of an entry `p` is there and was not ended. */
export const aliveKey = (tenantId: Id<'ten'>): Sql =>
  sql`select from api_keys r where r.tenant_id = ${tenantId} and r.id = p.target and r.revoked_at is null`
export const aliveDelegatedSession = (tenantId: Id<'ten'>): Sql =>
  sql`select from delegated_sessions r where r.tenant_id = ${tenantId} and r.id = p.target and r.revoked_at is null`
export const aliveSession = (tenantId: Id<'ten'>): Sql =>
  sql`select from sessions r where r.tenant_id = ${tenantId} and r.id = p.target and r.revoked_at is null`
const ROWS = {
  apps: sql`select from apps r`,
  passkeys: sql`select from passkeys r`,
  identities: sql`select from identities r`,
  wallet_recipients: sql`select from wallet_recipients r`,
  app_issuers: sql`select from app_issuers r`,
  app_providers: sql`select from app_providers r`,
} as const
/** What is deleted has no row any more. */
export const kept =
  (table: keyof typeof ROWS) =>
  (tenantId: Id<'ten'>): Sql =>
    sql`${ROWS[table]} where r.tenant_id = ${tenantId} and r.id = p.target`
/**
 * Acts of a user wait for their entries in one line, so the log has them in their order. Only two that wait there together, within a
 * second or so, by processes whose clocks differ, can change places.
 */
const LATER_IN_LOG = sql`u.seq > p.seq`
/** Targets of acts that wait for their entries, and that verify, by action. */
export type Waiting = ReadonlyMap<string, readonly string[]>
/** Whether an act undid what an entry `p` says since, by an entry `u` or by one that waits. */
const isUndone = (tenantId: Id<'ten'>, waiting: Waiting, action: AuditOnlyAction, isLater: Sql): Sql => sql`(
    exists (
      select from audit_entries u
      where u.tenant_id = ${tenantId} and u.target = p.target and u.action = ${action} and ${isLater})
    or p.target = any(${waiting.get(action) ?? []}::text[]))`
export const unfrozenWallet = (tenantId: Id<'ten'>, waiting: Waiting): Sql => sql`
  select from wallets r where r.tenant_id = ${tenantId} and r.id = p.target and r.frozen_at is null
    and not ${isUndone(tenantId, waiting, 'wallet.unfrozen', LATER_BY_CLOCK)}`
export const activeUser = (tenantId: Id<'ten'>, waiting: Waiting): Sql => sql`
  select from users r where r.tenant_id = ${tenantId} and r.id = p.target and r.status = 'active'
    and not ${isUndone(tenantId, waiting, 'user.unsuspended', LATER_IN_LOG)}`
/** A removed member is never one again. */
export const presentMember = (tenantId: Id<'ten'>): Sql =>
  sql`select from members r where r.tenant_id = ${tenantId} and r.id = p.target and r.status <> 'removed'`

/** Of the next entries of an action, the targets that are alive. `last`: the number to go on after, null at the end. */
export async function returnedAmong(
  db: Db,
  tenantId: Id<'ten'>,
  { action, after, alive }: { action: string; after: number; alive: Sql },
): Promise<{ seen: number; last: number | null; ids: string[] }> {
  const row = await db.one<{ seen: number; last: number | null; ids: string[] }>(
    unprepared(sql`
      with p as materialized (
        select seq, target, at from audit_entries
        where tenant_id = ${tenantId} and action = ${action} and seq > ${after} order by seq limit ${ENDS_A_PORTION})
      select count(*) as seen, max(seq) as last, array(select distinct target from p where exists (${alive})) as ids
      from p`),
  )
  const { seen = 0, last = null, ids = [] } = row ?? {}
  return { seen, last: seen < ENDS_A_PORTION ? null : last, ids }
}
