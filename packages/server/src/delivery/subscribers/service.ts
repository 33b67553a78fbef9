import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import type { AuditOnlyAction } from '../../platform/events/audit-actions.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { existing, fail, notFoundField, pathId } from '../../platform/http/errors.ts'
import { changeMetadata, mergeMetadata } from '../../platform/http/metadata.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { forgetApps, listScope, resolveApp } from '../../tenancy/apps/service.ts'
import type { CreateSubscriber, ListSubscribers, Subscriber, UpdateSubscriber } from './schema.ts'
import * as store from './store.ts'

export { findSubscriber } from './store.ts'

/** Records in the audit log what was done to a subscriber; no event is sent for it. */
function tell(tx: Db, deps: Deps, cause: Call, action: AuditOnlyAction, row: store.SubscriberRow): Promise<void> {
  return recordAuditOnly(tx, deps, { tenantId: row.tenant_id, appId: row.app_id, action, target: row.id, cause })
}

function refused(deps: Deps, error: unknown): unknown {
  const constraint = violatedConstraint(error)
  if (constraint === 'subscribers_external_id')
    return fail('already_exists').about('externalId', 'A subscriber of the app has this `externalId`.')
  if (constraint !== 'subscribers_app_fk') return error
  // The app was deleted after it was looked up.
  forgetApps(deps)
  return notFoundField('appId')
}

/** @throws not_found (names `appId`), already_exists */
export async function createSubscriber(deps: Deps, call: Call, input: CreateSubscriber): Promise<Subscriber> {
  const { caller } = call
  const now = deps.now()
  const row: store.SubscriberRow = {
    tenant_id: caller.tenantId,
    id: newId('sub'),
    app_id: await resolveApp(deps, caller, input.appId),
    external_id: input.externalId,
    name: input.name ?? null,
    metadata: mergeMetadata({}, input.metadata),
    created_at: now,
    updated_at: now,
  }
  const create = async (tx: Db) => {
    await store.insertSubscriber(tx, row)
    await tell(tx, deps, call, 'subscriber.created', row)
    return store.toSubscriber(row)
  }
  return deps.db.tx(create).catch((error: unknown): never => {
    throw refused(deps, error)
  })
}

/** @throws not_found */
export async function getSubscriber(deps: Deps, caller: Caller, id: string): Promise<Subscriber> {
  return store.toSubscriber(existing(await store.findSubscriber(deps.db, caller, pathId('sub', id))))
}

/** A page of the subscribers that the key sees, newest first. */
export async function listSubscribers(deps: Deps, caller: Caller, query: ListSubscribers): Promise<Page<Subscriber>> {
  return store.listSubscribers(deps.db, await listScope(deps, caller, query), query)
}

/** Changes the given fields. @throws not_found, already_exists */
export async function updateSubscriber(
  deps: Deps,
  call: Call,
  id: string,
  input: UpdateSubscriber,
): Promise<Subscriber> {
  const change = async (tx: Db) => {
    const before = existing(await store.lockSubscriber(tx, call.caller, pathId('sub', id)))
    if (Object.keys(input).length === 0) return store.toSubscriber(before)
    const row: store.SubscriberRow = {
      ...before,
      external_id: input.externalId ?? before.external_id,
      name: input.name === undefined ? before.name : input.name,
      metadata: changeMetadata(before.metadata, input.metadata),
      updated_at: deps.now(),
    }
    await store.updateSubscriber(tx, row)
    await tell(tx, deps, call, 'subscriber.updated', row)
    return store.toSubscriber(row)
  }
  return deps.db.tx(change).catch((error: unknown): never => {
    throw refused(deps, error)
  })
}

/** Deletes a subscriber with its webhooks and the links to its portal. @returns its final state @throws not_found */
export async function deleteSubscriber(deps: Deps, call: Call, id: string): Promise<Subscriber> {
  return deps.db.tx(async (tx) => {
    const row = existing(await store.lockSubscriber(tx, call.caller, pathId('sub', id)))
    const { tenantId } = call.caller
    await deps.hooks.subscriberDeleted(tx, deps, { tenantId, subscriberId: row.id, cause: call })
    await store.deleteSubscriber(tx, row)
    await tell(tx, deps, call, 'subscriber.deleted', row)
    return store.toSubscriber({ ...row, updated_at: deps.now() })
  })
}

/** Whether the subscriber exists. If so, it gets no other webhook, and is not deleted, until the transaction ends. */
export async function lockSubscriber(tx: Db, tenantId: Id<'ten'>, id: Id<'sub'>): Promise<boolean> {
  return (await store.lockSubscriber(tx, { tenantId, appId: null }, id)) !== undefined
}

/** Whether a text is the id of a subscriber in the scope. */
export async function hasSubscriber(db: Db, scope: AppScope, id: string): Promise<boolean> {
  return isId('sub', id) && (await store.findSubscriber(db, scope, id)) !== undefined
}

/** Those of these that are not the id of a subscriber of their app. One query for all. */
export async function findOthers<Named extends { appId: Id<'app'>; id: string }>(
  db: Db,
  tenantId: Id<'ten'>,
  named: readonly Named[],
): Promise<Named[]> {
  if (named.length === 0) return []
  const ids = named.flatMap(({ id }) => (isId('sub', id) ? id : []))
  const apps = new Map<string, Id<'app'>>()
  for (const { id, app_id } of await store.findApps(db, tenantId, ids)) apps.set(id, app_id)
  return named.filter(({ id, appId }) => apps.get(id) !== appId)
}
