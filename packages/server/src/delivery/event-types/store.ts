import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, json, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { CustomEventType, ListEventTypes } from './schema.ts'

/** A row of the table `event_types`. */
export interface EventTypeRow {
  tenant_id: Id<'ten'>
  id: Id<'ety'>
  app_id: Id<'app'>
  name: string
  description: string | null
  schema: Record<string, unknown> | null
  schema_version: number
  example: Record<string, unknown> | null
  deprecated: boolean
  status: CustomEventType['status']
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toEventType(row: EventTypeRow): CustomEventType {
  return wire(row, 'id app_id name description schema schema_version example deprecated status created_at updated_at')
}

const stored = (row: EventTypeRow) => ({ ...row, schema: json(row.schema), example: json(row.example) })

/** Inserts a type. @throws the violation of event_types_name, or of event_types_app_fk */
export async function insertEventType(tx: Db, row: EventTypeRow): Promise<void> {
  await tx.run(insertion('event_types', stored(row)))
}

/** The type; locked until the transaction ends with `lock`. */
export function findEventType(db: Db, scope: AppScope, id: Id<'ety'>, lock = false): Promise<EventTypeRow | undefined> {
  return db.one<EventTypeRow>(sql`
    select * from event_types where ${inScope(scope)} and id = ${id} ${lock ? sql`for no key update` : sql``}`)
}

/** Stores what PATCH and DELETE can change. */
export async function updateEventType(tx: Db, row: EventTypeRow): Promise<void> {
  const columns = 'description schema schema_version example deprecated status updated_at'
  await tx.run(update('event_types', stored(row), columns))
}

/** How many types a tenant has. Counts at most `most`. */
export function countUpTo(db: Db, tenantId: Id<'ten'>, most: number): Promise<number> {
  return db.count(
    sql`select count(*) as n from (select from event_types where tenant_id = ${tenantId} limit ${most}) t`,
  )
}

/** A page of types, newest first. */
export function listEventTypes(db: Db, scope: AppScope, query: ListEventTypes): Promise<Page<CustomEventType>> {
  const found = matching({
    tenant_id: scope.tenantId,
    app_id: scope.appId,
    name: query.name,
    status: query.status ?? 'active',
  })
  return readPage(db, sql`from event_types where ${found}`, query, toEventType)
}

/** Those of these names that a type in the scope has, archived ones included. */
export async function findNames(
  db: Db,
  { tenantId, appId }: AppScope,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db.query<{ name: string }>(sql`
    select distinct name from event_types
    where ${matching({ tenant_id: tenantId, app_id: appId })} and name = any(${names}::text[])`)
  return new Set(rows.map(({ name }) => name))
}

/** The active types in the scope, by name. */
export function findActive(
  db: Db,
  { tenantId, appId }: AppScope,
): Promise<Pick<EventTypeRow, 'name' | 'description' | 'deprecated'>[]> {
  return db.query(sql`
    select name, description, deprecated from event_types
    where ${matching({ tenant_id: tenantId, app_id: appId, status: 'active' })} order by name`)
}

/** The example of the oldest type in the scope with this name, archived ones included. */
export function findExample(
  db: Db,
  { tenantId, appId }: AppScope,
  name: string,
): Promise<Pick<EventTypeRow, 'example'> | undefined> {
  return db.one(sql`
    select example from event_types
    where ${matching({ tenant_id: tenantId, app_id: appId, name })} order by id limit 1`)
}

/** The types with these names, each in its app. */
export function findByName(
  db: Db,
  tenantId: Id<'ten'>,
  types: readonly { appId: Id<'app'>; name: string }[],
): Promise<(Pick<EventTypeRow, 'id' | 'app_id' | 'name' | 'status'> & { schema: string | null })[]> {
  return db.query(sql`
    select id, app_id, name, status, schema::text as schema from event_types
    where tenant_id = ${tenantId} and (app_id, name) in (
      select * from unnest(${types.map(({ appId }) => appId)}::text[], ${types.map(({ name }) => name)}::text[]))`)
}
