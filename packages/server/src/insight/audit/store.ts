import { and, type Db, type Sql, sql, unprepared } from '../../platform/db/db.ts'
import { type Id, isId } from '../../platform/ids.ts'
import type { AuditOnlyRow } from './act.ts'
import type { AuditRecord, SignedHead } from './chain.ts'
import type { AuditEntry } from './schema.ts'

interface EntryRow {
  seq: number
  id: string
  at: Date
  actor: string
  key_id: string | null
  action: string
  target: string
  user_id: string | null
  app_id: string | null
  event_id: string | null
  request_id: string | null
  address: string | null
  address_salt: Buffer | null
  address_hash: Buffer | null
  previous_hash: Buffer | null
  hash: Buffer
}

const hex = (bytes: Buffer | null) => bytes?.toString('hex') ?? null

function toRecord(row: EntryRow): AuditRecord {
  return {
    seq: row.seq,
    id: row.id,
    at: row.at.toISOString(),
    actor: row.actor,
    keyId: row.key_id,
    action: row.action,
    target: row.target,
    userId: row.user_id,
    appId: row.app_id,
    eventId: row.event_id,
    requestId: row.request_id,
    address: row.address,
    addressSalt: hex(row.address_salt),
    addressHash: hex(row.address_hash),
    previousHash: hex(row.previous_hash),
    hash: row.hash.toString('hex'),
  }
}

/** An entry as the wire shows it: without what the address is hashed with. */
function toEntry(row: EntryRow): AuditEntry {
  const { addressSalt: _, addressHash: __, ...entry } = toRecord(row)
  return entry
}

/** A tenant's head; `signature` and `signed_at` are null before the first entry. */
export interface HeadRow {
  seq: number
  hash: Buffer
  signature: Buffer | null
  signed_at: Date | null
}

/** The tenant's head, locked until the transaction ends: whoever appends waits for the one before. */
export async function lockHead(tx: Db, tenantId: Id<'ten'>): Promise<HeadRow> {
  await tx.run(sql`
    insert into audit_heads (tenant_id, seq, hash) values (${tenantId}, 0, ${Buffer.alloc(0)}) on conflict do nothing`)
  const row = await tx.one<HeadRow>(sql`
    select seq, hash, signature, signed_at from audit_heads where tenant_id = ${tenantId} for update`)
  return row as HeadRow
}

/** Moves the head. */
export async function writeHead(tx: Db, tenantId: Id<'ten'>, head: SignedHead): Promise<void> {
  await tx.run(sql`
    update audit_heads set seq = ${head.seq}, hash = ${Buffer.from(head.hash, 'hex')},
      signature = ${Buffer.from(head.signature, 'hex')}, signed_at = ${head.signedAt}
    where tenant_id = ${tenantId}`)
}

/** Writes entries. */
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

/** So many entries of a day or an hour, of one kind. */
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

/** Those of these users and apps that are deleted by what stands in the log. */
export async function findDeleted(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ target: string }>(sql`
    select target from audit_entries
    where tenant_id = ${tenantId} and action in ('user.deleted', 'app.deleted') and target = any(${ids}::text[])`)
  return rows.map((row) => row.target)
}

/** Takes addresses, and what they are hashed with, out of all entries of these users, and of all users of these apps. */
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

/** Tenants with notes that are not entries yet, at most `limit`. */
export async function tenantsWithAuditOnlyEntries(db: Db, limit: number): Promise<Id<'ten'>[]> {
  const rows = await db.query<{ tenant_id: Id<'ten'> }>(sql`select distinct tenant_id from audit_notes limit ${limit}`)
  return rows.map((row) => row.tenant_id)
}

/** Takes the oldest notes of a tenant out of their table. */
export async function takeAuditOnlyEntries(tx: Db, tenantId: Id<'ten'>, limit: number): Promise<AuditOnlyRow[]> {
  const rows = await tx.query<AuditOnlyRow>(sql`
    delete from audit_notes where tenant_id = ${tenantId} and id in (
      select id from audit_notes where tenant_id = ${tenantId} order by id limit ${limit})
    returning id, at, action, target, user_id, app_id, context`)
  return rows.sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** What a list asks for; null for whatever there is. */
export interface EntryFilter {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
  actor: string | null
  target: string | null
  actions: readonly string[] | null
  since: Date | null
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The end of the day or the hour in which a moment lies, UTC. */
const endOf = (at: Date, spanMs: number) => new Date((Math.floor(at.getTime() / spanMs) + 1) * spanMs)

/** Users and delegated sessions: there are many, with a few entries each, and nothing is counted for them ahead. */
export const isOneOfMany = (actor: string): boolean => /^(usr|dse)_/.test(actor)

function conditions(filter: EntryFilter, withActions = true): Sql {
  const all = [sql`tenant_id = ${filter.tenantId}`]
  if (filter.appId !== null) all.push(sql`app_id = ${filter.appId}`)
  if (filter.actor !== null) all.push(sql`actor = ${filter.actor}`)
  if (filter.target !== null) all.push(sql`target = ${filter.target}`)
  if (filter.since !== null) all.push(sql`at >= ${filter.since}`)
  if (filter.actions !== null && withActions)
    all.push(
      filter.actions.length === 1 ? sql`action = ${filter.actions[0]}` : sql`action = any(${filter.actions}::text[])`,
    )
  return and(all)
}

async function countRows(db: Db, where: Sql): Promise<number> {
  const row = await db.one<{ n: number }>(unprepared(sql`select count(*) as n from audit_entries where ${where}`))
  return row?.n ?? 0
}

/** By the counts of days, of the hours of the day on which `since` lies, and by the entries of its hour. */
async function countBySpans(db: Db, filter: EntryFilter): Promise<number> {
  const { tenantId, appId, actor, actions, since } = filter
  const [day, hour] = since === null ? [null, null] : [endOf(since, DAY_MS), endOf(since, HOUR_MS)]
  const spans =
    day === null
      ? sql`hours = 24`
      : sql`(hours = 24 and begins >= ${day} or hours = 1 and begins >= ${hour} and begins < ${day})`
  const row = await db.one<{ n: number }>(sql`
    select coalesce(sum(n), 0)::bigint as n from audit_counts
    where tenant_id = ${tenantId} and ${spans} and (${appId}::text is null or app_id = ${appId})
      and (${actor}::text is null or actor = ${actor}) and (${actions}::text[] is null or action = any(${actions}))`)
  const whole = row?.n ?? 0
  return hour === null ? whole : whole + (await countRows(db, sql`${conditions(filter)} and at < ${hour}`))
}

const isUnfiltered = ({ appId, actor, target, actions, since }: EntryFilter) =>
  [appId, actor, target, actions, since].every((each) => each === null)

/** How many entries a filter finds, exactly. */
async function countEntries(db: Db, filter: EntryFilter): Promise<number> {
  if (isUnfiltered(filter)) {
    const row = await db.one<{ seq: number }>(sql`select seq from audit_heads where tenant_id = ${filter.tenantId}`)
    return row?.seq ?? 0
  }
  if (filter.target !== null || (filter.actor !== null && isOneOfMany(filter.actor)))
    return countRows(db, conditions(filter))
  return countBySpans(db, filter)
}

/** Places by a filter: `skip` of them left out, from the newest on or, with `oldest`, from the oldest on. */
function placesOf(filter: EntryFilter, oldest: boolean, skip: number, rows: number): Sql {
  const order = oldest ? sql`order by seq asc` : sql`order by seq desc`
  const { actions, actor, target } = filter
  if (actions === null || actions.length === 1 || actor !== null || target !== null)
    return sql`select seq from audit_entries where ${conditions(filter)} ${order} offset ${skip} limit ${rows}`
  // Each action has its own order in the index: the first ones of each, and the first of these.
  return sql`
    select seq from unnest(${actions}::text[]) as a(name) cross join lateral (
      select seq from audit_entries where ${conditions(filter, false)} and action = a.name ${order} limit ${skip + rows}) p
    ${order} offset ${skip} limit ${rows}`
}

/** A page of the entries that a filter finds, newest first, and how many it finds in all. */
export async function listEntries(
  db: Db,
  filter: EntryFilter,
  offset: number,
  limit: number,
): Promise<{ entries: AuditEntry[]; total: number }> {
  const total = await countEntries(db, filter)
  if (offset >= total) return { entries: [], total }
  const rows = Math.min(limit, total - offset)
  // Without a filter the place is the number. Else a page in the second half is read from the other end.
  const oldest = filter.since === null && offset > total / 2
  const places = isUnfiltered(filter)
    ? sql`select seq from audit_entries where tenant_id = ${filter.tenantId} and seq > ${total - offset - rows} and seq <= ${total - offset}`
    : placesOf(filter, oldest, oldest ? total - offset - rows : offset, rows)
  const page = await db.query<EntryRow>(
    unprepared(sql`
      select e.* from (${places}) as page join audit_entries e on e.tenant_id = ${filter.tenantId} and e.seq = page.seq
      order by e.seq desc`),
  )
  return { entries: page.map(toEntry), total }
}

/** Makes what a transaction reads from here on one state of the database; nothing can be written in it. */
export async function beginReading(tx: Db): Promise<void> {
  await tx.run(sql`set transaction isolation level repeatable read read only`)
  // Whoever reads may wait for a disk or a pipe between two portions.
  await tx.run(sql`set local idle_in_transaction_session_timeout = '10min'`)
}

/** The tenant's signed head; null where there is none. A head without a signature, which no chain has, has an empty one. */
export async function findHead(db: Db, tenantId: Id<'ten'>): Promise<SignedHead | null> {
  const row = await db.one<HeadRow>(sql`
    select seq, hash, signature, signed_at from audit_heads where tenant_id = ${tenantId}`)
  return row === undefined ? null : toHead(row)
}

/** A head as files hold it; null before the first entry. */
export function toHead(row: HeadRow): SignedHead | null {
  if (row.seq === 0 && row.signature === null) return null
  return {
    seq: row.seq,
    hash: row.hash.toString('hex'),
    signedAt: row.signed_at?.toISOString() ?? '',
    signature: hex(row.signature) ?? '',
  }
}

/** How many entries there are, whatever the head says. */
export async function countAll(db: Db, tenantId: Id<'ten'>): Promise<number> {
  return countRows(db, sql`tenant_id = ${tenantId}`)
}

/** An entry beside what is kept of the event that it tells of. */
export interface CheckedRecord {
  record: AuditRecord
  /** Whether the event, where it is still there, is of this kind, app and time. */
  fitsEvent: boolean
}

/** The next entries after a place, in the chain's order. */
export async function entriesAfter(
  db: Db,
  tenantId: Id<'ten'>,
  after: number,
  limit: number,
): Promise<CheckedRecord[]> {
  const rows = await db.query<EntryRow & { fits: boolean }>(sql`
    select a.*, e.id is null or (e.type = a.action and e.created_at = a.at and e.app_id is not distinct from a.app_id) as fits
    from (select * from audit_entries where tenant_id = ${tenantId} and seq > ${after} order by seq limit ${limit}) a
    left join events e on e.tenant_id = ${tenantId} and e.id = a.event_id
    order by a.seq`)
  return rows.map((row) => ({ record: toRecord(row), fitsEvent: row.fits }))
}
