import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { eventWritesIf, type StoredEvent } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'

/** An event that was published under a key of its publisher's. */
export interface EventKey {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  key: string
  eventId: Id<'evt'>
  contentHash: Buffer
  createdAt: Date
}

const LIFETIME_MS = 24 * 3_600_000
const KEYS_A_DELETION = 5_000

/** What identifies a key in its tenant. */
export const nameOf = ({ appId, key }: Pick<EventKey, 'appId' | 'key'>): string => `${appId} ${key}`

/** The part of a `with` that takes keys, as `claimed`: the ids of the events whose keys were free. */
function claim(keys: readonly EventKey[]): Sql {
  const [first] = keys
  const expired = new Date((first?.createdAt.getTime() ?? 0) - LIFETIME_MS)
  // In one order for all, so that two calls with the same keys do not deadlock.
  return sql`claimed as (
    insert into event_keys as k (tenant_id, app_id, key, event_id, content_hash, created_at)
    select ${first?.tenantId}, t.app_id, t.key, t.event_id, t.content_hash, ${first?.createdAt}::timestamptz
    from unnest(${keys.map(({ appId }) => appId)}::text[], ${keys.map(({ key }) => key)}::text[],
      ${keys.map(({ eventId }) => eventId)}::text[], ${keys.map(({ contentHash }) => contentHash)}::bytea[])
      as t(app_id, key, event_id, content_hash)
    order by t.app_id collate "C", t.key collate "C"
    on conflict (tenant_id, app_id, key) do update
      set event_id = excluded.event_id, content_hash = excluded.content_hash, created_at = excluded.created_at
      where k.created_at <= ${expired}
    returning event_id)`
}

/** Publishes an event if its key is free, in one statement. @returns whether it is published */
export async function publishWithKey(db: Db, key: EventKey, event: StoredEvent): Promise<boolean> {
  const claimed = await db.query(sql`
    with ${claim([key])}, ${eventWritesIf(event, sql`exists (select from claimed)`)} select event_id from claimed`)
  return claimed.length > 0
}

/**
 * Takes keys of one tenant for events that are published at once. Waits for transactions that are taking the same ones.
 * @returns those of these keys that were taken before, by `nameOf`
 */
export async function claimKeys(tx: Db, keys: readonly EventKey[]): Promise<ReadonlyMap<string, EventKey>> {
  const claimed = await tx.query(sql`with ${claim(keys)} select event_id from claimed`)
  if (claimed.length === keys.length) return new Map()
  const rows = await tx.query<EventKey>(sql`
    select tenant_id as "tenantId", app_id as "appId", key, event_id as "eventId", content_hash as "contentHash", created_at as "createdAt"
    from event_keys where tenant_id = ${keys[0]?.tenantId} and event_id <> all(${keys.map(({ eventId }) => eventId)}::text[])
      and (app_id, key) in (
        select * from unnest(${keys.map(({ appId }) => appId)}::text[], ${keys.map(({ key }) => key)}::text[]))`)
  return new Map(rows.map((row) => [nameOf(row), row]))
}

/** Deletes a batch of keys that have expired. @returns whether there may be more */
export async function deleteExpiredKeys(db: Db, now: Date): Promise<boolean> {
  const deleted = await db.run(sql`
    delete from event_keys where (tenant_id, app_id, key) in (
      select tenant_id, app_id, key from event_keys where created_at <= ${new Date(now.getTime() - LIFETIME_MS)}
      order by created_at limit ${KEYS_A_DELETION})`)
  return deleted === KEYS_A_DELETION
}
