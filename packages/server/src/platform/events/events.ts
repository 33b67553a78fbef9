import { type Db, type Sql, sql } from '../db/db.ts'
import type { Caller, Origin } from '../http/route.ts'
import { type Id, newId } from '../ids.ts'
import type { EventType } from './event-catalogue.ts'

/** The event envelope's version (`api_version`). */
export const EVENT_API_VERSION = '2026-11-01'

/** What happened, before it has an id. */
export interface EventInput<Type extends string = EventType> {
  tenantId: Id<'ten'>
  /** The app of the event; null if it concerns the tenant itself. */
  appId: Id<'app'> | null
  type: Type
  data: Record<string, unknown>
  /** The subscriber that the event is for. Halfkey's own events are for none. */
  subscriberId?: Id<'sub'> | null
  /** Who caused it. Stored with the event for the audit log and never sent. */
  cause?: { caller: Pick<Caller, 'keyId'>; origin: Origin } | { actor: string } | undefined
  /** An event that a team publishes: nothing is derived from it. */
  custom?: true
  /** Events with the same key reach a webhook one at a time, in the order of their ids. */
  orderingKey?: string | null
  /** An id that the event's must sort after. */
  after?: string
}

/** What happened to a record of an app. */
export function eventOf(
  row: { tenant_id: Id<'ten'>; app_id: Id<'app'> | null },
  type: EventType,
  data: Record<string, unknown>,
  cause: EventInput['cause'],
): EventInput {
  return { tenantId: row.tenant_id, appId: row.app_id, type, data, cause }
}

/** An event as it is stored and sent: the body is serialised once, and these bytes are signed at every attempt. */
export interface StoredEvent {
  tenantId: Id<'ten'>
  id: Id<'evt'>
  appId: Id<'app'> | null
  /** Null for an event that is for no subscriber. */
  subscriberId: Id<'sub'> | null
  type: string
  body: string
  createdAt: Date
  context: string
  orderingKey: string | null
}

/** The prefix of the value used as key id when an operator calls, who has no key: see the dashboard's sessions. */
export const OPERATOR = 'key_dashboard_'

/** The prefix of the value used as key id when a subscriber calls from their portal; their id follows. */
export const PORTAL = 'key_portal_'

/** The prefix of the value used as key id when a delegated session calls without a key; the session's id follows. */
export const DELEGATE = 'key_delegate_'

/** The prefix of the value used as key id when a member calls from the dashboard; their id follows, and then their session's. */
export const MEMBER = 'key_member_'

const MEMBER_ID_CHARS = 'mem_'.length + 26

/** Who calls, as the audit log names actors. */
export function actorOf({ keyId }: Pick<Caller, 'keyId'>): string {
  if (keyId.startsWith(OPERATOR)) return 'dashboard'
  if (keyId.startsWith(MEMBER)) return keyId.slice(MEMBER.length, MEMBER.length + MEMBER_ID_CHARS)
  const prefix = [PORTAL, DELEGATE].find((one) => keyId.startsWith(one)) ?? ''
  return keyId.slice(prefix.length)
}

/** Who did something, from where and in which trace, as JSON, stored with the event. */
export function contextOf(cause: EventInput['cause'], custom?: true): string {
  if (cause === undefined) return '{"actor":"system"}'
  if ('actor' in cause) return JSON.stringify({ actor: cause.actor, custom })
  const { caller, origin } = cause
  const actor = actorOf(caller)
  return JSON.stringify({
    actor: origin.actor ?? actor,
    keyId: actor === caller.keyId ? actor : undefined,
    address: origin.address,
    requestId: origin.requestId,
    traceparent: origin.traceparent,
    custom,
  })
}

/** Gives an event its id, time and bytes. */
export function newEvent(now: Date, input: EventInput<string>): StoredEvent {
  const id = newId('evt', input.after)
  const body = JSON.stringify({
    id,
    type: input.type,
    created_at: now.toISOString(),
    api_version: EVENT_API_VERSION,
    data: input.data,
    // Last, as the API's answers have it.
    ...(input.subscriberId == null ? {} : { subscriber_id: input.subscriberId }),
  })
  return {
    tenantId: input.tenantId,
    id,
    appId: input.appId,
    subscriberId: input.subscriberId ?? null,
    type: input.type,
    body,
    createdAt: now,
    context: contextOf(input.cause, input.custom),
    orderingKey: input.orderingKey ?? null,
  }
}

/** The two writes of an event as parts of a `with`, for the statement that makes the change itself. */
export function eventWrites(event: StoredEvent): Sql {
  return eventWritesIf(event, sql`true`)
}

/** The writes of several events, of one tenant, time and cause, in the same way. */
export function eventsWrites(events: readonly StoredEvent[]): Sql {
  return eventsWritesIf(events, sql`true`)
}

/** The same where the events are only to be if `condition` holds. */
export function eventsWritesIf(events: readonly StoredEvent[], condition: Sql): Sql {
  const [first] = events
  const ids = events.map((event) => event.id)
  const apps = events.map((event) => event.appId)
  const types = events.map((event) => event.type)
  const subscribers = events.map((event) => event.subscriberId)
  return sql`
    event_rows as (
      insert into events (tenant_id, id, app_id, subscriber_id, type, body, created_at, context)
      select ${first?.tenantId}, e.id, e.app_id, e.subscriber_id, e.type, e.body, ${first?.createdAt}::timestamptz, ${first?.context}::jsonb
      from unnest(${ids}::text[], ${apps}::text[], ${subscribers}::text[], ${types}::text[], ${events.map((event) => event.body)}::text[])
        as e(id, app_id, subscriber_id, type, body)
      where ${condition}),
    outbox_rows as (
      insert into outbox (tenant_id, event_id, app_id, subscriber_id, type, ordering_key)
      select ${first?.tenantId}, e.id, e.app_id, e.subscriber_id, e.type, e.ordering_key
      from unnest(${ids}::text[], ${apps}::text[], ${subscribers}::text[], ${types}::text[], ${events.map((event) => event.orderingKey)}::text[])
        as e(id, app_id, subscriber_id, type, ordering_key)
      where ${condition})`
}

/** The same where the event is only to be if `condition` holds. */
export function eventWritesIf(event: StoredEvent, condition: Sql): Sql {
  return sql`
    event_row as (
      insert into events (tenant_id, id, app_id, subscriber_id, type, body, created_at, context)
      select ${event.tenantId}, ${event.id}, ${event.appId}, ${event.subscriberId}, ${event.type}, ${event.body},
        ${event.createdAt}::timestamptz, ${event.context}::jsonb
      where ${condition}),
    outbox_row as (
      insert into outbox (tenant_id, event_id, app_id, subscriber_id, type, ordering_key)
      select ${event.tenantId}, ${event.id}, ${event.appId}, ${event.subscriberId}, ${event.type}, ${event.orderingKey}
      where ${condition})`
}

/** What a publisher needs of the process: the clock, and the signal that wakes the fan-out. */
export interface Publisher {
  now(): Date
  wake: { outbox(): void }
}

/** Writes an event in the transaction of the change: both commit or neither. Locks no shared row. */
export async function publish(tx: Db, publisher: Publisher, input: EventInput): Promise<StoredEvent> {
  const event = newEvent(publisher.now(), input)
  await tx.run(sql`with ${eventWrites(event)} select`)
  tx.afterCommit(publisher.wake.outbox)
  return event
}

/** The same for events of one tenant, time and cause, in one statement. */
export async function publishAll(db: Db, publisher: Publisher, events: readonly StoredEvent[]): Promise<void> {
  await db.run(sql`with ${eventsWrites(events)} select`)
  db.afterCommit(publisher.wake.outbox)
}
