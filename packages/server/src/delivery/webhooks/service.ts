import type { Db } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import { EgressRefused } from '../../platform/egress/egress.ts'
import type { AuditOnlyAction } from '../../platform/events/audit-actions.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { EVENT_CATALOGUE, EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import { compileFilter } from '../../platform/events/event-filter.ts'
import type { OfApp, OfSubscriber } from '../../platform/hooks.ts'
import { existing, failures, invalid, notFoundField, pathId } from '../../platform/http/errors.ts'
import { changeMetadata, mergeMetadata } from '../../platform/http/metadata.ts'
import { type Call, type Caller, type Page, paging } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { newWebhookSecret, seal } from '../../platform/security/crypto.ts'
import { listScope, lockAppForShare, resolveApp } from '../../tenancy/apps/service.ts'
import { webhookSecretContext } from '../engine/send.ts'
import { checkSubscriptions } from '../event-types/service.ts'
import { findSubscriber, lockSubscriber } from '../subscribers/service.ts'
import { changeOptions } from './options/change.ts'
import { checkDestination, checkMayDirect, urlField, urlOf, urlOfNew } from './options/destination.ts'
import type { CheckFilter, CreateWebhook, ListWebhooks, RotateWebhook, UpdateWebhook, Webhook } from './schema.ts'
import * as store from './store.ts'

export { listDeliveriesOfEvent } from './delivery-store.ts'

export const WEBHOOK_ERRORS = {
  webhook_url_blocked: [400, 'Deliveries may not be sent to this URL. Use a public https address.'],
  webhook_disabled: [409, 'This webhook is disabled. Set its status to active first.'],
  webhook_limit_reached: [409, 'The tenant or the subscriber has the maximum number of webhooks. Delete one first.'],
} as const

const fail = failures(WEBHOOK_ERRORS)

const GRACE_SECONDS_DEFAULT = 86_400
const OF_SUBSCRIBER_MAX = 20

async function checkUrl(deps: Deps, field: string, url: string | undefined, ofSubscriber: boolean): Promise<void> {
  if (url === undefined) return
  try {
    await deps.egress.assertAllowed(url, ofSubscriber)
  } catch (error) {
    if (!(error instanceof EgressRefused)) throw error
    throw fail('webhook_url_blocked').about(field, error.message)
  }
}

/**
 * Rejects URLs that Halfkey may not send to. Needs the network, so it runs before the transaction. What the operator allows
 * beyond public addresses is not for subscribers. @throws webhook_url_blocked, validation_failed, insufficient_scope
 */
export async function checkUrls(
  deps: Deps,
  caller: Caller,
  input: UpdateWebhook,
  ofSubscriber: boolean,
): Promise<void> {
  checkMayDirect(caller, input)
  await checkUrl(deps, urlField(input), urlOf(input), ofSubscriber)
  await checkUrl(deps, 'oauth.tokenUrl', input.oauth?.tokenUrl, ofSubscriber)
}

/** The same for a change of the caller's webhook. @throws not_found */
export async function checkNewUrls(deps: Deps, caller: Caller, id: string, input: UpdateWebhook): Promise<void> {
  if (input.url === undefined && input.oauth == null && input.destination === undefined) return
  checkMayDirect(caller, input)
  const { subscriber_id } = await findOwnWebhook(deps.db, caller, id)
  await checkUrls(deps, caller, input, subscriber_id !== null)
}

const checkEventNames = (db: Db, scope: AppScope, events: readonly string[]) =>
  checkSubscriptions(db, scope, events, (at) => `events.${at}`)

/** @throws validation_failed, with the wrong part of the filter */
function checkFilter(filter: CreateWebhook['filter']): void {
  if (filter != null) compileFilter(filter)
}

/** Applies a filter to an event. `reason` is null if the event matches. @throws validation_failed */
export function tryFilter({ filter, event }: CheckFilter): { matches: boolean; reason: string | null } {
  const reason = compileFilter(filter).whyNot(event)
  return { matches: reason === null, reason }
}

/** The caller's webhook. With `lock`, it is locked until the transaction ends. @throws not_found, also for another tenant's webhook */
export async function findOwnWebhook(db: Db, caller: Caller, id: string, lock = false): Promise<store.WebhookRow> {
  return existing(await store.findWebhook(db, caller, pathId('wh', id), lock))
}

/** Records in the audit log what was done to deliveries of a webhook, or to one of them. */
export function recordOfWebhook(
  tx: Db,
  deps: Deps,
  cause: Call,
  row: Pick<store.WebhookRow, 'tenant_id' | 'app_id' | 'id'>,
  action: AuditOnlyAction,
  target: string = row.id,
): Promise<void> {
  return recordAuditOnly(tx, deps, { tenantId: row.tenant_id, appId: row.app_id, action, target, cause })
}

/** Records in the audit log what was done to a webhook; no event is sent for it. */
function tell(tx: Db, deps: Deps, cause: Call, action: AuditOnlyAction, row: store.WebhookRow): Promise<void> {
  return recordOfWebhook(tx, deps, cause, row, action)
}

async function sealSecret(deps: Deps, tenantId: string, id: string, secret: string): Promise<Buffer> {
  return seal(deps.keys, secret, webhookSecretContext(tenantId, id))
}

const noSubscriber = () => invalid('subscriberId', 'Must be the id of a subscriber of the same app.', 'not_allowed')

/** The app and the subscriber of a new webhook. @throws not_found for an app, validation_failed for a subscriber */
async function ownerOf(deps: Deps, caller: Caller, input: CreateWebhook) {
  const appId = input.appId == null ? caller.appId : await resolveApp(deps, caller, input.appId)
  const subscriberId = caller.subscriberId ?? input.subscriberId ?? null
  if (subscriberId === null) return { appId, subscriberId }
  refuseOfTenant(input)
  const scope = { tenantId: caller.tenantId, appId }
  const subscriber = isId('sub', subscriberId) ? await findSubscriber(deps.db, scope, subscriberId) : undefined
  if (subscriber === undefined) throw noSubscriber()
  return { appId: subscriber.app_id, subscriberId: subscriber.id }
}

/**
 * What only webhooks of the tenant may have. A subscriber could change the URL, and so learn the headers, the token or the
 * identity that the tenant's receivers trust. @throws validation_failed
 */
function refuseOfTenant(input: UpdateWebhook): void {
  if (input.includeSubscribers === true)
    throw invalid(
      'includeSubscribers',
      'A webhook of a subscriber gets the events of that subscriber only.',
      'not_allowed',
    )
  for (const option of ['headers', 'oauth', 'clientCertificate', 'destination'] as const)
    if (input[option] != null)
      throw invalid(
        option,
        'A webhook of a subscriber cannot have this: the subscriber could redirect it.',
        'not_allowed',
      )
}

/** Checks that there may be one more. @throws webhook_limit_reached, validation_failed for a subscriber that was deleted */
async function checkLimit(tx: Db, deps: Deps, tenantId: Id<'ten'>, subscriberId: Id<'sub'> | null): Promise<void> {
  // A tenant is not locked, because every creation would wait for the lock. Concurrent creations may exceed its limit slightly.
  if (subscriberId !== null && !(await lockSubscriber(tx, tenantId, subscriberId))) throw noSubscriber()
  const most = subscriberId === null ? deps.config.webhooksPerTenant : OF_SUBSCRIBER_MAX
  if ((await store.countWebhooks(tx, { tenantId, subscriberId }, most)) < most) return
  const owner = subscriberId === null ? 'tenant' : 'subscriber'
  throw fail('webhook_limit_reached', [
    { code: 'webhook_limit_reached', message: `A ${owner} may have at most ${most} webhooks.`, limit: most },
  ])
}

/**
 * Subscribes an endpoint. `secret` keys the delivery HMAC (specification, section 6) and is shown only here.
 * @throws webhook_url_blocked (by `checkUrls`, before), validation_failed, not_found for an app, webhook_limit_reached
 */
export async function createWebhook(
  deps: Deps,
  call: Call,
  input: CreateWebhook,
): Promise<Webhook & { secret: string }> {
  const { caller } = call
  const url = urlOfNew(input)
  checkDestination(input, null, true)
  checkFilter(input.filter)
  const { appId, subscriberId } = await ownerOf(deps, caller, input)
  await checkEventNames(deps.db, { tenantId: caller.tenantId, appId }, input.events)
  const id = newId('wh')
  const secret = newWebhookSecret()
  const now = deps.now()
  const row: store.WebhookRow = {
    tenant_id: caller.tenantId,
    id,
    app_id: appId,
    subscriber_id: subscriberId,
    include_subscribers: input.includeSubscribers ?? false,
    url,
    events: input.events,
    filter: input.filter ?? null,
    filter_version: 0,
    format: input.format ?? 'standard',
    payload: input.payload ?? 'full',
    description: input.description ?? null,
    status: 'active',
    disabled_reason: null,
    secret_sealed: await sealSecret(deps, caller.tenantId, id, secret),
    secret_last4: secret.slice(-4),
    previous_secret_sealed: null,
    previous_secret_until: null,
    options: null,
    options_sealed: null,
    metadata: mergeMetadata({}, input.metadata),
    created_at: now,
    updated_at: now,
  }
  Object.assign(row, await changeOptions(deps, row, input, row.url))
  await deps.db.tx(async (tx) => {
    if (appId !== null && !(await lockAppForShare(tx, caller.tenantId, appId))) throw notFoundField('appId')
    await checkLimit(tx, deps, caller.tenantId, subscriberId)
    await store.insertWebhook(tx, row)
    await tell(tx, deps, call, 'webhook.created', row)
  })
  return { ...store.toWebhook(row), secret }
}

/** @throws not_found */
export async function getWebhook(deps: Deps, caller: Caller, id: string): Promise<Webhook> {
  return store.readWebhook(deps.db, await findOwnWebhook(deps.db, caller, id))
}

/** A page of the caller's webhooks, newest first. */
export async function listWebhooks(deps: Deps, caller: Caller, query: ListWebhooks): Promise<Page<Webhook>> {
  const scope = await listScope(deps, caller, query)
  const subscriberId = caller.subscriberId ?? query.subscriber_id
  if (subscriberId === undefined) return store.listWebhooks(deps.db, scope, query.status, query)
  if (!isId('sub', subscriberId)) throw notFoundField('subscriber_id')
  if ((await findSubscriber(deps.db, scope, subscriberId)) === undefined) throw notFoundField('subscriber_id')
  return store.listWebhooks(deps.db, { ...scope, subscriberId }, query.status, query)
}

function changedRow(before: store.WebhookRow, input: UpdateWebhook): store.WebhookRow {
  const row = { ...before, url: urlOf(input) ?? before.url }
  if (input.events !== undefined) row.events = input.events
  if (input.filter !== undefined) {
    row.filter = input.filter
    row.filter_version += 1
  }
  if (input.format !== undefined) row.format = input.format
  if (input.payload !== undefined) row.payload = input.payload
  if (input.description !== undefined) row.description = input.description
  if (input.includeSubscribers !== undefined) row.include_subscribers = input.includeSubscribers
  if (input.status !== undefined) {
    row.status = input.status
    row.disabled_reason = null
  }
  row.metadata = changeMetadata(before.metadata, input.metadata)
  return row
}

/** Changes what is given. `paused` holds deliveries, `active` resumes them. @throws not_found, validation_failed, webhook_url_blocked */
export async function updateWebhook(deps: Deps, call: Call, id: string, input: UpdateWebhook): Promise<Webhook> {
  checkFilter(input.filter)
  return deps.db.tx(async (tx) => {
    const before = await findOwnWebhook(tx, call.caller, id, true)
    if (Object.keys(input).length === 0) return store.readWebhook(tx, before)
    if (input.events !== undefined)
      await checkEventNames(tx, { tenantId: before.tenant_id, appId: before.app_id }, input.events)
    if (before.subscriber_id !== null) refuseOfTenant(input)
    checkDestination(input, before.options?.destination ?? null, false)
    const row = changedRow(before, input)
    Object.assign(row, await changeOptions(deps, before, input, row.url))
    row.updated_at = deps.now()
    await store.updateWebhook(tx, row)
    await tell(tx, deps, call, 'webhook.updated', row)
    if (row.status !== before.status) {
      await store.pauseLane(tx, row, row.status !== 'active')
      tx.afterCommit(deps.wake.due)
    }
    return store.readWebhook(tx, row)
  })
}

/** Deletes a webhook and cancels its pending deliveries. @returns its final state @throws not_found */
export async function deleteWebhook(deps: Deps, call: Call, id: string): Promise<Webhook> {
  return deps.db.tx(async (tx) => {
    const row = await findOwnWebhook(tx, call.caller, id, true)
    await store.markDeleted(tx, row, deps.now())
    await tell(tx, deps, call, 'webhook.deleted', row)
    return store.readWebhook(tx, row)
  })
}

/**
 * Gives a webhook a new secret; for `graceSeconds` deliveries carry the old one's signature too. `endGrace` ends that
 * time now and creates no secret. @throws not_found, validation_failed if both are given
 */
export async function rotateSecret(
  deps: Deps,
  call: Call,
  id: string,
  input: RotateWebhook,
): Promise<Webhook & { secret: string | null }> {
  if (input.endGrace !== undefined && input.graceSeconds !== undefined)
    throw invalid('endGrace', 'Give either `endGrace` or `graceSeconds`.')
  const secret = input.endGrace === true ? null : newWebhookSecret()
  return deps.db.tx(async (tx) => {
    const row = { ...(await findOwnWebhook(tx, call.caller, id, true)), updated_at: deps.now() }
    if (secret === null) {
      row.previous_secret_sealed = null
      row.previous_secret_until = null
    } else {
      const graceSeconds = input.graceSeconds ?? GRACE_SECONDS_DEFAULT
      row.previous_secret_sealed = graceSeconds === 0 ? null : row.secret_sealed
      row.previous_secret_until = graceSeconds === 0 ? null : new Date(deps.now().getTime() + graceSeconds * 1000)
      row.secret_sealed = await sealSecret(deps, row.tenant_id, row.id, secret)
      row.secret_last4 = secret.slice(-4)
    }
    await store.updateWebhook(tx, row)
    await tell(tx, deps, call, 'webhook.secret_rotated', row)
    return { ...(await store.readWebhook(tx, row)), secret }
  })
}

/** Every event kind, with an example of its data. */
export function eventTypes(query: { page?: string | undefined; page_size?: string | undefined }) {
  const { page, pageSize, offset } = paging(query)
  const items = EVENT_TYPES.slice(offset, offset + pageSize).map((type) => ({
    type,
    description: EVENT_CATALOGUE[type].description,
    example: EVENT_CATALOGUE[type].data as Record<string, unknown>,
  }))
  return { items, total: EVENT_TYPES.length, page, pageSize }
}

/** Ends the webhooks of an app that is being deleted. */
export async function deleteWebhooksOfApp(tx: Db, deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store.deleteWebhooksOfApp(tx, tenantId, appId, deps.now())
  await store.pauseLanesOfApp(tx, tenantId, appId)
}

/** Ends the webhooks of a subscriber that is being deleted. */
export async function deleteWebhooksOfSubscriber(tx: Db, deps: Deps, of: OfSubscriber): Promise<void> {
  for (const row of await store.lockWebhooksOfSubscriber(tx, of.tenantId, of.subscriberId)) {
    await store.markDeleted(tx, row, deps.now())
    await tell(tx, deps, of.cause, 'webhook.deleted', row)
  }
}
