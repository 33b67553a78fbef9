import { createHash } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import { EVENT_API_VERSION, newEvent, publishAll, type StoredEvent } from '../../platform/events/events.ts'
import { type ErrorDetail, failures, invalid } from '../../platform/http/errors.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import { checkTypes } from '../event-types/service.ts'
import { findOthers } from '../subscribers/service.ts'
import * as keys from './event-keys-store.ts'
import type { FeedEvent, PublishEvent } from './schema.ts'
import { lastEvents } from './store.ts'

export { deleteExpiredKeys } from './event-keys-store.ts'

export const PUBLISH_ERRORS = {
  event_key_conflict: [409, 'An event with other content was published with this `idempotencyKey`. Use a new key.'],
} as const

const fail = failures(PUBLISH_ERRORS)

const DATA_BYTES_MAX = 256 * 1024

/** The name of an event's field in the request. */
type FieldOf = (at: number, name: string) => string

const appOf = (deps: Deps, caller: Caller, { appId }: PublishEvent, field: string) =>
  resolveApp(deps, caller, appId, field)

function dataText(field: string, data: Record<string, unknown>): string {
  const text = JSON.stringify(data)
  if (Buffer.byteLength(text) > DATA_BYTES_MAX)
    throw invalid(field, `Must be at most ${DATA_BYTES_MAX} bytes as JSON.`, 'too_large')
  return text
}

/**
 * Checks events before the transaction that publishes them: data is held against its schema in another thread.
 * @throws validation_failed (also for a subscriber of another app), not_found (names `appId`), event_type_unknown, event_type_archived, rate_limited
 */
export async function checkEvents(
  deps: Deps,
  caller: Caller,
  inputs: readonly PublishEvent[],
  fieldOf: FieldOf,
): Promise<void> {
  const typed = []
  const named = []
  for (const [at, input] of inputs.entries()) {
    const field = (name: string) => fieldOf(at, name)
    const data = dataText(field('data'), input.data)
    const appId = await appOf(deps, caller, input, field('appId'))
    typed.push({ appId, type: input.type, data, field })
    if (input.subscriberId != null) named.push({ appId, id: input.subscriberId, field: field('subscriberId') })
  }
  const [wrong] = await findOthers(deps.db, caller.tenantId, named)
  if (wrong !== undefined) throw invalid(wrong.field, 'Must be the id of a subscriber of the same app.', 'not_allowed')
  await checkTypes(deps, caller, typed)
}

/** An event and, where its publisher named one, the key that identifies it. */
interface Publication {
  event: StoredEvent
  key: keys.EventKey | null
}

function keyOf(event: StoredEvent, { idempotencyKey, type, data, orderingKey }: PublishEvent): keys.EventKey | null {
  if (idempotencyKey === undefined) return null
  const { subscriberId } = event
  const content = {
    type,
    data,
    ...(orderingKey === undefined ? {} : { orderingKey }),
    ...(subscriberId === null ? {} : { subscriberId }),
  }
  return {
    tenantId: event.tenantId,
    appId: event.appId as keys.EventKey['appId'],
    key: idempotencyKey,
    eventId: event.id,
    contentHash: createHash('sha256').update(canonicalJson(content)).digest(),
    createdAt: event.createdAt,
  }
}

function refuseRepeats(publications: readonly Publication[], fieldOf: FieldOf): void {
  const seen = new Set<string>()
  publications.forEach(({ key }, at) => {
    if (key === null) return
    const name = keys.nameOf(key)
    if (seen.has(name))
      throw invalid(
        fieldOf(at, 'idempotencyKey'),
        'Another event in this call has the same `idempotencyKey`. Give each event a different one.',
        'repeated',
      )
    seen.add(name)
  })
}

/** Publishes what was not published with its key before. @returns the keys of the events that were, by `nameOf` */
async function publishOnce(
  deps: Deps,
  publications: readonly Publication[],
  fieldOf: FieldOf,
): Promise<ReadonlyMap<string, keys.EventKey>> {
  const [{ event, key }] = publications as [Publication]
  if (publications.length === 1 && key !== null && (await keys.publishWithKey(deps.db, key, event))) {
    deps.db.afterCommit(deps.wake.outbox)
    return new Map()
  }
  return deps.db.tx(async (tx) => {
    const wanted = publications.flatMap(({ key }) => key ?? [])
    const taken = await keys.claimKeys(tx, wanted)
    const conflicts = publications.flatMap(({ key }, at): ErrorDetail[] => {
      const before = key === null ? undefined : taken.get(keys.nameOf(key))
      if (key === null || before === undefined || before.contentHash.equals(key.contentHash)) return []
      const message = 'An event with other content was published with this key in the last 24 hours.'
      return [{ field: fieldOf(at, 'idempotencyKey'), code: 'event_key_conflict', message, eventId: before.eventId }]
    })
    if (conflicts.length > 0) throw fail('event_key_conflict', conflicts)
    const fresh = publications.filter(({ key }) => key === null || !taken.has(keys.nameOf(key)))
    if (fresh.length > 0)
      await publishAll(
        tx,
        deps,
        fresh.map(({ event }) => event),
      )
    return taken
  })
}

/**
 * Publishes events that `checkEvents` has let pass, all or none. With an `idempotencyKey`, an event that was published with
 * it and the same content in the last 24 hours is returned instead. @throws validation_failed, event_key_conflict
 */
export async function publishEvents(
  deps: Deps,
  { caller, origin }: Call,
  inputs: readonly PublishEvent[],
  fieldOf: FieldOf,
): Promise<FeedEvent[]> {
  const now = deps.now()
  const publications: Publication[] = []
  const ordered = inputs.flatMap(({ orderingKey }) => orderingKey ?? [])
  const lastOf = new Map(await lastEvents(deps.db, caller.tenantId, ordered))
  for (const [at, input] of inputs.entries()) {
    const appId = await appOf(deps, caller, input, fieldOf(at, 'appId'))
    const { type, data, orderingKey = null } = input
    const subscriberId = (input.subscriberId ?? null) as Id<'sub'> | null
    const order = orderingKey === null ? {} : { orderingKey, after: lastOf.get(orderingKey) ?? '' }
    const cause = { caller, origin }
    const of = { tenantId: caller.tenantId, appId, subscriberId }
    const event = newEvent(now, { ...of, type, data, cause, custom: true, ...order })
    if (orderingKey !== null) lastOf.set(orderingKey, event.id)
    publications.push({ event, key: keyOf(event, input) })
  }
  let published: ReadonlyMap<string, keys.EventKey> = new Map()
  if (publications.some(({ key }) => key !== null)) {
    refuseRepeats(publications, fieldOf)
    published = await publishOnce(deps, publications, fieldOf)
  } else
    await publishAll(
      deps.db,
      deps,
      publications.map(({ event }) => event),
    )
  return publications.map(({ event, key }, at) => {
    const before = key === null ? undefined : published.get(keys.nameOf(key))
    return {
      id: before?.eventId ?? event.id,
      type: event.type,
      created_at: (before?.createdAt ?? event.createdAt).toISOString(),
      api_version: EVENT_API_VERSION,
      data: (inputs[at] as PublishEvent).data,
      ...(event.subscriberId === null ? {} : { subscriber_id: event.subscriberId }),
    }
  })
}
