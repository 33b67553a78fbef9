import type { FeedEvent } from '../../platform/events/feed.ts'
import type { Id } from '../../platform/ids.ts'

/** The counters of `analytics_daily`, by column. */
export const COUNTERS = [
  'new_users',
  'users_imported',
  'active_users',
  'last_active_users',
  'sign_ins_passkey',
  'sign_ins_messenger',
  'sign_ins_email',
  'sign_ins_exchange',
  'sign_ins_provider',
  'sign_ins_wallet',
  'guests',
  'guests_converted',
  'wallets_created',
  'transactions_completed',
  'transactions_failed',
  'deliveries_succeeded',
  'deliveries_failed',
  'api_requests',
] as const
export type Counter = (typeof COUNTERS)[number]

/** A UTC day, `YYYY-MM-DD`, which sorts by time. */
export type Day = string

/** The `app_id` in `analytics_daily` of the sum of all apps, and of what belongs to no app. */
export const WHOLE_TENANT = ''

const DAY_MS = 86_400_000

/** The UTC day of a time. */
export const dayOf = (time: Date): Day => time.toISOString().slice(0, 10)

/** When a day begins. */
export const startOf = (day: Day): Date => new Date(`${day}T00:00:00.000Z`)

/** The day this many days later, or earlier if negative. */
export const addDays = (day: Day, days: number): Day => dayOf(new Date(startOf(day).getTime() + days * DAY_MS))

/** The number of days from `earlier` to `later`; negative in reverse. */
export const daysBetween = (earlier: Day, later: Day): number =>
  Math.round((startOf(later).getTime() - startOf(earlier).getTime()) / DAY_MS)

/** All days from one to another, both included; none if `to` is before `from`. */
export const daysFrom = (from: Day, to: Day): Day[] =>
  Array.from({ length: Math.max(0, daysBetween(from, to) + 1) }, (_, index) => addDays(from, index))

/** A row of `analytics_daily`, or what is to be added to one. */
export type DayCounts = { tenant_id: Id<'ten'>; app_id: string; day: Day } & Record<Counter, number>

/** Counts that are gathered before they are written. */
export interface Gathered {
  /** Adds to a day of the app and of the whole tenant. */
  add(tenantId: Id<'ten'>, appId: string | null, day: Day, counter: Counter, n: number): void
  /** Sorted by tenant, app and day, so that all writers lock rows in the same order. */
  rows(): DayCounts[]
}

/** Every counter at zero. */
export const NOTHING = Object.fromEntries(COUNTERS.map((counter) => [counter, 0])) as Record<Counter, number>

export function gatherCounts(): Gathered {
  const byKey = new Map<string, DayCounts>()
  const addTo = (tenantId: Id<'ten'>, appId: string, day: Day, counter: Counter, n: number) => {
    const key = `${tenantId} ${appId} ${day}`
    let row = byKey.get(key)
    if (row === undefined) {
      row = { tenant_id: tenantId, app_id: appId, day, ...NOTHING }
      byKey.set(key, row)
    }
    row[counter] += n
  }
  return {
    add(tenantId, appId, day, counter, n) {
      addTo(tenantId, WHOLE_TENANT, day, counter, n)
      if (appId !== null) addTo(tenantId, appId, day, counter, n)
    },
    rows: () => [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row),
  }
}

/** The parts of an event that counting needs. */
export type CountedEvent = Pick<FeedEvent, 'appId' | 'type' | 'body' | 'createdAt'> & { actor: string | null }

const BY_TYPE: Partial<Record<FeedEvent['type'], Counter>> = {
  'user.created': 'new_users',
  'guest.created': 'guests',
  'guest.converted': 'guests_converted',
  'wallet.created': 'wallets_created',
  'tx.completed': 'transactions_completed',
  'tx.failed': 'transactions_failed',
}

/** The event types whose body is read. */
export const READ_TYPES: readonly FeedEvent['type'][] = ['user.signed_in', 'tx.completed']

/** A user was active on a day. */
export interface Activity {
  userId: string
  appId: string
  day: Day
}

/** Counts an event, and returns who was active. Active users are not counted here. */
export function countEvent(counts: Gathered, tenantId: Id<'ten'>, event: CountedEvent): Activity[] {
  const { appId, type } = event
  const day = dayOf(event.createdAt)
  const counter = BY_TYPE[type]
  if (counter !== undefined) counts.add(tenantId, appId, day, counter, 1)
  const data: { userId?: unknown; method?: unknown } = READ_TYPES.includes(type) ? JSON.parse(event.body).data : {}
  const method = type === 'user.signed_in' ? data.method : undefined
  if (method === 'passkey') counts.add(tenantId, appId, day, 'sign_ins_passkey', 1)
  if (method === 'messenger') counts.add(tenantId, appId, day, 'sign_ins_messenger', 1)
  if (method === 'email') counts.add(tenantId, appId, day, 'sign_ins_email', 1)
  if (method === 'exchange') counts.add(tenantId, appId, day, 'sign_ins_exchange', 1)
  if (method === 'provider') counts.add(tenantId, appId, day, 'sign_ins_provider', 1)
  if (method === 'wallet') counts.add(tenantId, appId, day, 'sign_ins_wallet', 1)
  // Every user belongs to an app.
  if (appId === null) return []
  const users = new Set([event.actor, data.userId].filter((id) => typeof id === 'string' && id.startsWith('usr_')))
  return [...users].map((userId) => ({ userId: userId as string, appId, day }))
}

/** The days on which a user was active, as stored in `analytics_active_users`. */
export interface ActiveDays {
  lastDay: Day
  /** Bit 0 is the last day, bit 30 the thirtieth before it. */
  days: number
}

const KEPT_DAYS = 31
const ALL_BITS = 0x7fff_ffff

/**
 * Adds an active day. `isNew`: the user was not active on it before. Days older than the bits reach are unknown and count
 * as already added.
 */
export function recordActive(known: ActiveDays | undefined, day: Day): { active: ActiveDays; isNew: boolean } {
  if (known === undefined) return { active: { lastDay: day, days: 1 }, isNew: true }
  const later = daysBetween(known.lastDay, day)
  if (later > 0) {
    const kept = later < KEPT_DAYS ? (known.days * 2 ** later) % (ALL_BITS + 1) : 0
    return { active: { lastDay: day, days: kept + 1 }, isNew: true }
  }
  if (later <= -KEPT_DAYS) return { active: known, isNew: false }
  const bit = 1 << -later
  return { active: { lastDay: known.lastDay, days: known.days | bit }, isNew: (known.days & bit) === 0 }
}
