import { createHash } from 'node:crypto'
import type { z } from 'zod'
import type { Db } from '../../platform/db/db.ts'
import { awaitDurable } from '../../platform/db/durable.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, invalid, notFoundField, pathId } from '../../platform/http/errors.ts'
import { type Caller, type Page as Listed, type PageQuery, paging } from '../../platform/http/route.ts'
import { type Id, idTime } from '../../platform/ids.ts'
import { checkSubscriptions } from '../event-types/service.ts'
import { hasSubscriber } from '../subscribers/service.ts'
import type { Delivery } from '../webhooks/schema.ts'
import { listDeliveriesOfEvent } from '../webhooks/service.ts'
import { arrivalsOf } from './arrivals.ts'
import type { EventPage, FeedEvent, ListEvents } from './schema.ts'
import * as store from './store.ts'

const LIMIT_DEFAULT = 100
/** Events get their places when they commit, so an event may come at most this much after a younger one. */
const COMMIT_MS = 10_000
/** Places are below 2^50. */
const HALVINGS_MAX = 50

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'
const PLACE_CHARS = 10
const CHECK_CHARS = 6
const FORM = new RegExp(`^cur_([0-9a-hjkmnp-tv-z]{${PLACE_CHARS}})([0-9a-f]{${CHECK_CHARS}})$`)

type Page = z.infer<typeof EventPage>

/** A checksum that detects cursors of another tenant's feed and typos. It is not a secret and protects nothing. */
const check = (tenantId: Id<'ten'>, place: string) =>
  createHash('sha256').update(`${tenantId} ${place}`).digest('hex').slice(0, CHECK_CHARS)

/** A cursor: a place in a tenant's feed as text. Cursors of one feed sort as text. */
function toCursor(tenantId: Id<'ten'>, seq: number): string {
  const place = idTime(seq)
  return `cur_${place}${check(tenantId, place)}`
}

/** The place of a cursor of this tenant's feed; null for any other text. */
function readCursor(tenantId: Id<'ten'>, text: string): number | null {
  const [, place, given] = FORM.exec(text) ?? []
  if (place === undefined || given !== check(tenantId, place)) return null
  const seq = [...place].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0)
  return seq <= Number.MAX_SAFE_INTEGER ? seq : null
}

async function readTypes(db: Db, caller: Caller, text: string | undefined): Promise<string[] | null> {
  if (text === undefined) return null
  const types = [...new Set(text.split(',').map((type) => type.trim()))]
  await checkSubscriptions(db, caller, types, () => 'type')
  return types.includes('*') ? null : types
}

function checkStart({ after, since, last }: ListEvents): void {
  const given = Object.entries({ after, since, last }).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  const [, second] = given
  if (second !== undefined) throw invalid(second, `Give only one of ${given.join(' and ')}.`, 'ambiguous')
}

/** The place after which events of that time and later stand: found by halving, as places nearly are in time's order. */
async function placeBefore(db: Db, tenantId: Id<'ten'>, atMs: number): Promise<number> {
  const firstId = `evt_${idTime(Math.max(0, atMs - COMMIT_MS))}`
  let below = 0
  let end = ((await store.findHead(db, tenantId))?.head ?? 0) + 1
  for (let halvings = 0; below + 1 < end && halvings < HALVINGS_MAX; halvings += 1) {
    const middle = Math.floor((below + end) / 2)
    const found = await store.findPlace(db, tenantId, middle)
    if (found === undefined || found.seq >= end || found.event_id >= firstId) end = middle
    else below = found.seq
  }
  return below
}

/** One event. @throws not_found, also after its retention period */
export async function getEvent(deps: Deps, caller: Caller, id: string): Promise<z.infer<typeof FeedEvent>> {
  const { body } = existing(await store.findEvent(deps.db, caller, pathId('evt', id)))
  return JSON.parse(existing(body ?? undefined))
}

/** A page of an event's deliveries, to the webhooks that the key sees. @throws not_found as above */
export async function listDeliveries(
  deps: Deps,
  caller: Caller,
  id: string,
  query: PageQuery,
): Promise<Listed<Delivery>> {
  const { id: eventId } = await getEvent(deps, caller, id)
  const { page, pageSize, offset } = paging(query)
  const found = await listDeliveriesOfEvent(deps.db, caller, eventId as Id<'evt'>, { offset, pageSize })
  return { ...found, page, pageSize }
}

/** The place to start after, and whether it comes from a cursor. */
async function findStart(deps: Deps, filter: store.FeedFilter, query: ListEvents) {
  const { db } = deps
  const { tenantId } = filter
  if (query.after !== undefined) {
    const after = readCursor(tenantId, query.after)
    if (after === null)
      throw invalid('after', 'Must be a `nextCursor` of this feed. Omit it to start at the oldest event.')
    return { after, been: true }
  }
  if (query.since !== undefined) return { after: await placeBefore(db, tenantId, Date.parse(query.since)), been: false }
  if (query.last === undefined) return { after: 0, been: false }
  const last = Number(query.last)
  const after =
    last === 0 ? ((await store.findHead(db, tenantId))?.head ?? 0) : await store.placeBeforeLast(db, filter, last)
  return { after, been: false }
}

const aheadOfFeed = () =>
  invalid(
    'after',
    'Must not be past the end of this feed, which can happen after a restore from a backup. Start again without `after`, or with `since`.',
    'ahead_of_feed',
  )

/**
 * A portion of the tenant's events in the order in which they became deliverable; of a bound key's app, as a webhook with that
 * `appId` gets them. What is before a cursor that was given stays before it: nobody who follows cursors misses an event.
 * @throws validation_failed, rate_limited (too many wait)
 */
export async function listEvents(deps: Deps, caller: Caller, query: ListEvents): Promise<Page> {
  checkStart(query)
  const { db } = deps
  const { tenantId } = caller
  const subscriberId = query.subscriber_id ?? null
  if (subscriberId !== null && !(await hasSubscriber(db, caller, subscriberId))) throw notFoundField('subscriber_id')
  const filter = { tenantId, appId: caller.appId, subscriberId, types: await readTypes(db, caller, query.type) }
  const start = await findStart(deps, filter, query)
  const limit = Number(query.limit ?? LIMIT_DEFAULT)
  const endsAt = performance.now() + Number(query.wait ?? 0) * 1_000
  let missed = false
  for (let { after } = start; ; ) {
    const found = await store.readPortion(db, filter, after, limit)
    if ((found?.head ?? 0) < after) throw aheadOfFeed()
    const seq = found?.seq ?? 0
    missed ||= start.been && found !== undefined && found.kept < seq - after
    const leftMs = endsAt - performance.now()
    const { bodies = [], more = false, written } = found ?? {}
    if (bodies.length > 0 || more || leftMs <= 0 || deps.lifecycle.draining) {
      // A place from a cursor is already durable.
      if (written !== undefined && !(start.been && seq === start.after)) await awaitDurable(db, written)
      const events = bodies.map((body) => JSON.parse(body))
      return { events, nextCursor: toCursor(tenantId, seq), hasMore: more, missed }
    }
    after = seq
    await arrivalsOf(deps).wait(tenantId, after, leftMs)
  }
}
