import { type Db, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import { type EventType, isCatalogued } from './event-catalogue.ts'

/** Who caused an event, and from where. */
export interface EventContext {
  /** A user, an API key, or `system`, `cli` and the like. */
  actor: string
  keyId?: Id<'key'>
  address?: string
  requestId?: string
  /** A team published it. */
  custom?: true
}

/** An event at its place in its tenant's feed. */
export interface FeedEvent {
  /** Gap-free for each tenant, in the order in which events became deliverable. */
  seq: number
  id: Id<'evt'>
  appId: Id<'app'> | null
  type: EventType
  /** The envelope as it is sent: `data` stands in it. Empty where the follower does not read it. */
  body: string
  createdAt: Date
  context: EventContext
}

/**
 * Something that is derived from events, in their order: each event is folded into it once, whatever is killed when. Only
 * from Halfkey's own: events that teams publish are passed over. A type that a later version added is left, with all that
 * follows, to the processes of that version, which run beside this one during an upgrade.
 */
export interface Follower {
  /** Names its cursor. */
  name: string
  /** What a crash of the database undoes is only folded again, cursor and all, so its commits need not wait for the disk. */
  asyncCommit?: boolean
  /** The types of which it reads the body: a body is most of an event. Default: all. */
  bodiesOf?: readonly EventType[]
  /** Before that transaction, for example to open a key: a key provider may be a network away. */
  prepare?(db: Db, tenantId: Id<'ten'>): Promise<void>
  /** In the transaction that moves the cursor. Reads and writes nothing but the database. */
  fold(tx: Db, tenantId: Id<'ten'>, events: readonly FeedEvent[]): Promise<void>
}

/** How many events are folded in one transaction. */
const EVENTS_A_FOLD = 1_000
/** How many tenants are worked for in one round. */
export const TENANTS_A_ROUND = 64

type FeedRow = Omit<FeedEvent, 'seq' | 'type'> & { head: number; seq: number | null; type: string; custom: boolean }

/**
 * The events after `after` in a tenant's feed that are derived from, in its order, and how far this reached. Events past
 * their retention are not there.
 */
async function readFeed(tx: Db, { bodiesOf }: Follower, tenantId: Id<'ten'>, after: number, limit: number) {
  // `limit`: each event is looked up by its key. Old statistics would have the planner read all of the tenant's for each.
  const isCustom = sql`(e.context -> 'custom') is not null`
  const hasBody = bodiesOf === undefined ? sql`true` : sql`e.type = any (${bodiesOf}::text[])`
  const rows = await tx.query<FeedRow>(sql`
    select h.seq as head, e.* from feed_heads h left join lateral (
      select f.seq, e.* from feed f cross join lateral (
        select e.id, e.app_id as "appId", e.type, e.created_at as "createdAt", ${isCustom} as custom,
          case when not (${isCustom}) then case when ${hasBody} then e.body else '' end end as body,
          case when not (${isCustom}) then e.context end as context
        from events e where e.tenant_id = f.tenant_id and e.id = f.event_id limit 1) e
      where f.tenant_id = h.tenant_id and f.seq > ${after} order by f.seq limit ${limit}) e on true
    where h.tenant_id = ${tenantId} order by e.seq`)
  const events: FeedEvent[] = []
  let reached = after
  for (const { head: _, seq, type, custom, ...event } of rows) {
    if (seq === null) break
    if (isCatalogued(type)) events.push({ seq, type, ...event })
    else if (!custom) return { seq: reached, full: false, events }
    reached = seq
  }
  const full = rows.length === limit
  return { seq: full ? reached : (rows[0]?.head ?? after), full, events }
}

async function foldSome(tx: Db, follower: Follower, tenantId: Id<'ten'>): Promise<boolean> {
  const cursor = await tx.one<{ seq: number }>(sql`
    select seq, case when ${follower.asyncCommit === true} then set_config('synchronous_commit', 'off', true) end from feed_cursors
    where tenant_id = ${tenantId} and follower = ${follower.name} for update skip locked`)
  // Another process is at it.
  if (cursor === undefined) return false
  const { seq, full, events } = await readFeed(tx, follower, tenantId, cursor.seq, EVENTS_A_FOLD)
  if (events.length > 0) await follower.fold(tx, tenantId, events)
  await tx.run(sql`
    update feed_cursors set seq = ${seq} where tenant_id = ${tenantId} and follower = ${follower.name} and seq < ${seq}`)
  return full
}

/**
 * Works for one tenant after the other; an error of one does not stop the others. `work` returns whether there is more.
 * @returns whether there is more at once @throws AggregateError of all errors, at the end
 */
export async function workForTenants<T>(
  tenants: readonly T[],
  failure: string,
  work: (tenant: T) => Promise<boolean>,
): Promise<boolean> {
  let more = tenants.length === TENANTS_A_ROUND
  const errors: unknown[] = []
  for (const tenant of tenants) {
    try {
      if (await work(tenant)) more = true
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, `${failure} of ${errors.length} tenants`)
  return more
}

/**
 * Folds what is new in the feeds of some tenants into what a follower derives: a transaction for each tenant, so that one
 * whose events cannot be folded keeps no other's back. @returns whether there is more at once
 * @throws AggregateError of what could not be folded, once the others were
 */
export async function followFeed(db: Db, follower: Follower): Promise<boolean> {
  const behind = await db.query<{ tenant_id: Id<'ten'>; begun: boolean }>(sql`
    select h.tenant_id, c.seq is not null as begun from feed_heads h
    left join feed_cursors c on c.tenant_id = h.tenant_id and c.follower = ${follower.name}
    where h.seq > coalesce(c.seq, 0) order by random() limit ${TENANTS_A_ROUND}`)
  return workForTenants(behind, `${follower.name} could not process its feeds`, async ({ tenant_id, begun }) => {
    if (!begun)
      await db.run(sql`
        insert into feed_cursors (tenant_id, follower, seq) values (${tenant_id}, ${follower.name}, 0) on conflict do nothing`)
    await follower.prepare?.(db, tenant_id)
    return db.tx((tx) => foldSome(tx, follower, tenant_id))
  })
}

/** Keeps a follower from a tenant's feed until the transaction ends. @returns how far it has got */
export async function lockCursor(tx: Db, tenantId: Id<'ten'>, follower: string): Promise<number> {
  await tx.run(sql`
    insert into feed_cursors (tenant_id, follower, seq) values (${tenantId}, ${follower}, 0) on conflict do nothing`)
  const row = await tx.one<{ seq: number }>(sql`
    select seq from feed_cursors where tenant_id = ${tenantId} and follower = ${follower} for update`)
  return row?.seq ?? 0
}
