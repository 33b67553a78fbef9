import { isDeepStrictEqual } from 'node:util'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import type { AuditOnlyAction } from '../../platform/events/audit-actions.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { isReserved, subscriptionKind } from '../../platform/events/custom-types.ts'
import { type ErrorTable, existing, failures, invalid, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { forgetApps, listScope, resolveApp } from '../../tenancy/apps/service.ts'
import { knownTypes } from './known-types.ts'
import type { CreateEventType, CustomEventType, ListEventTypes, UpdateEventType } from './schema.ts'
import { checkSchema, requireValid } from './schema-check.ts'
import * as store from './store.ts'

export const EVENT_TYPE_ERRORS = {
  event_type_unknown: [404, 'No event type has this name. Create it with POST /event-types.'],
  event_type_archived: [409, 'This event type is archived. Restore it with PATCH /event-types/:id, `status: active`.'],
  event_type_limit_reached: [409, 'The tenant has the maximum number of event types.'],
} as const satisfies ErrorTable

const fail = failures(EVENT_TYPE_ERRORS)

const TYPES_MAX = 1_000
const BYTES_MAX = 64 * 1024

/** @throws validation_failed for a name that only Halfkey uses */
function refuseReserved(field: string, name: string): void {
  if (isReserved(name))
    throw invalid(
      field,
      `Names that begin with "${name.split('.', 1)[0]}." are reserved for Halfkey. Begin with the name of your company or product.`,
      'reserved',
    )
}

function checkSizes(input: Pick<UpdateEventType, 'schema' | 'example'>): void {
  for (const field of ['schema', 'example'] as const)
    if (input[field] != null && Buffer.byteLength(JSON.stringify(input[field])) > BYTES_MAX)
      throw invalid(field, `Must be at most ${BYTES_MAX} bytes as JSON.`, 'too_large')
}

/** Drops cached types after the commit, and records the change in the audit log. */
async function settle(tx: Db, deps: Deps, cause: Call, action: AuditOnlyAction, row: store.EventTypeRow) {
  tx.afterCommit(() => knownTypes(deps).forget())
  await recordAuditOnly(tx, deps, { tenantId: row.tenant_id, appId: row.app_id, action, target: row.id, cause })
}

function refused(deps: Deps, error: unknown): unknown {
  const constraint = violatedConstraint(error)
  if (constraint === 'event_types_name')
    return fail('already_exists').about(
      'name',
      'The app already has an event type with this name. Change it, or restore it if it is archived.',
    )
  if (constraint !== 'event_types_app_fk') return error
  // The app was deleted after it was looked up.
  forgetApps(deps)
  return notFoundField('appId')
}

/** Checks a new type's schema, in another thread and so before the transaction. @throws validation_failed, rate_limited */
export async function checkDefinition(deps: Deps, caller: Caller, input: CreateEventType): Promise<void> {
  checkSizes(input)
  await checkSchema(deps, caller.tenantId, input.schema ?? null, input.example ?? null)
}

/** @throws validation_failed, not_found (names `appId`), already_exists, event_type_limit_reached */
export async function createEventType(deps: Deps, call: Call, input: CreateEventType): Promise<CustomEventType> {
  const { caller } = call
  refuseReserved('name', input.name)
  const now = deps.now()
  const row: store.EventTypeRow = {
    tenant_id: caller.tenantId,
    id: newId('ety'),
    app_id: await resolveApp(deps, caller, input.appId),
    name: input.name,
    description: input.description ?? null,
    schema: input.schema ?? null,
    schema_version: 1,
    example: input.example ?? null,
    deprecated: input.deprecated ?? false,
    status: 'active',
    created_at: now,
    updated_at: now,
  }
  const create = async (tx: Db) => {
    // Without a lock, which every creation would wait for: concurrent creations may exceed the limit.
    if ((await store.countUpTo(tx, caller.tenantId, TYPES_MAX)) >= TYPES_MAX)
      throw fail('event_type_limit_reached', [
        {
          code: 'event_type_limit_reached',
          message: `A tenant may have at most ${TYPES_MAX} event types, including archived ones. Use one type for each kind of change, and put ids in \`data\`.`,
          limit: TYPES_MAX,
        },
      ])
    await store.insertEventType(tx, row)
    await settle(tx, deps, call, 'event_type.created', row)
    return store.toEventType(row)
  }
  return deps.db.tx(create).catch((error: unknown): never => {
    throw refused(deps, error)
  })
}

/** @throws not_found */
export async function getEventType(deps: Deps, caller: Caller, id: string): Promise<CustomEventType> {
  return store.toEventType(existing(await store.findEventType(deps.db, caller, pathId('ety', id))))
}

/** A page of the types that the key sees, newest first. */
export async function listEventTypes(
  deps: Deps,
  caller: Caller,
  query: ListEventTypes,
): Promise<Page<CustomEventType>> {
  return store.listEventTypes(deps.db, await listScope(deps, caller, query), query)
}

/** The row with what is given. A changed schema gets a new version. */
function changedRow(before: store.EventTypeRow, input: UpdateEventType): store.EventTypeRow {
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))
  const row: store.EventTypeRow = { ...before, ...given }
  if (!isDeepStrictEqual(row.schema, before.schema)) row.schema_version += 1
  return row
}

/** Checks a changed type's schema, as `checkDefinition` does. @throws not_found, validation_failed, rate_limited */
export async function checkChange(deps: Deps, caller: Caller, id: string, input: UpdateEventType): Promise<void> {
  if (input.schema === undefined && input.example === undefined) return
  checkSizes(input)
  const before = existing(await store.findEventType(deps.db, caller, pathId('ety', id)))
  const { schema, example } = changedRow(before, input)
  await checkSchema(deps, caller.tenantId, schema, example)
}

/** Changes the given fields. @throws not_found */
export async function updateEventType(
  deps: Deps,
  call: Call,
  id: string,
  input: UpdateEventType,
): Promise<CustomEventType> {
  return deps.db.tx(async (tx) => {
    const before = existing(await store.findEventType(tx, call.caller, pathId('ety', id), true))
    const row = changedRow(before, input)
    if (isDeepStrictEqual(row, before)) return store.toEventType(before)
    row.updated_at = deps.now()
    await store.updateEventType(tx, row)
    const isArchived = row.status === 'archived' && before.status !== 'archived'
    await settle(tx, deps, call, isArchived ? 'event_type.archived' : 'event_type.updated', row)
    return store.toEventType(row)
  })
}

/** Archives a type: its events can no longer be published. @returns its final state @throws not_found */
export function archiveEventType(deps: Deps, call: Call, id: string): Promise<CustomEventType> {
  return updateEventType(deps, call, id, { status: 'archived' })
}

/** What is to be published, with the names of its fields in the request. */
export interface TypedEvent {
  appId: Id<'app'>
  type: string
  /** As JSON. */
  data: string
  field(name: string): string
}

/**
 * Checks that each of these events has a type that can be published, and data that matches its schema. Types are cached for
 * at most a second. @throws validation_failed, event_type_unknown, event_type_archived, rate_limited
 */
export async function checkTypes(deps: Deps, caller: Caller, events: readonly TypedEvent[]): Promise<void> {
  for (const { type, field } of events) refuseReserved(field('type'), type)
  const refs = events.map(({ appId, type }) => ({ appId, name: type }))
  const types = await knownTypes(deps).find(deps, caller.tenantId, refs)
  const checked = events.flatMap(({ type, data, field }, at) => {
    const known = types[at]
    if (known === undefined)
      throw fail('event_type_unknown').about(
        field('type'),
        `The app has no event type "${type}". Check the spelling, or create the type with POST /event-types.`,
      )
    if (known.status === 'archived')
      throw fail('event_type_archived').about(
        field('type'),
        `The event type "${type}" is archived. Restore it, or publish another type.`,
        { id: known.id },
      )
    return known.schema === null ? [] : [{ field: field('data'), schema: known.schema, data }]
  })
  await requireValid(deps, caller.tenantId, checked)
}

/** The types in the scope that events can be published of, by name: at most those of a tenant, 1 000. */
export function activeTypes(db: Db, scope: AppScope) {
  return store.findActive(db, scope)
}

/** The example of a type in the scope; empty if it has none. @throws validation_failed for a name that no type has */
export async function exampleOf(
  db: Db,
  scope: AppScope,
  field: string,
  name: string,
): Promise<Record<string, unknown>> {
  const found = subscriptionKind(name) === 'custom' ? await store.findExample(db, scope, name) : undefined
  if (found === undefined)
    throw invalid(
      field,
      'Must be one of Halfkey’s event types (GET /webhooks/event-types) or one of yours (GET /event-types).',
      'not_allowed',
    )
  return found.example ?? {}
}

/**
 * Checks that each entry names events: Halfkey's own, a family, `*`, or a type in the scope. @throws validation_failed, with
 * the field of the first other entry
 */
export async function checkSubscriptions(
  db: Db,
  scope: AppScope,
  entries: readonly string[],
  field: (at: number) => string,
): Promise<void> {
  const kinds = entries.map(subscriptionKind)
  const custom = entries.filter((_, at) => kinds[at] === 'custom')
  const names = custom.length === 0 ? new Set<string>() : await store.findNames(db, scope, custom)
  const wrong = entries.findIndex(
    (entry, at) => kinds[at] === 'invalid' || (kinds[at] === 'custom' && !names.has(entry)),
  )
  if (wrong !== -1)
    throw invalid(
      field(wrong),
      `"${entries[wrong]}" is not an event type. Use one of Halfkey’s types (GET /webhooks/event-types), one of yours (GET /event-types), a family such as user.*, or *.`,
    )
}

/** The same for a single type, without families. @throws validation_failed */
export async function checkType(db: Db, scope: AppScope, field: string, type: string): Promise<void> {
  if (type.endsWith('*')) throw invalid(field, 'Must be one event type, not a family.')
  await checkSubscriptions(db, scope, [type], () => field)
}
