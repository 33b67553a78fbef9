import {
  addDays,
  COUNTERS,
  type Counter,
  type Day,
  type DayCounts,
  dayOf,
  WHOLE_TENANT,
} from '../../insight/analytics/counters.ts'
import { addCounts } from '../../insight/analytics/store.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { HISTORY } from './mark.ts'
import type { Sample, Seeding } from './sample.ts'
import * as store from './store.ts'

/** As far back as `GET /analytics` looks, but for today, which is true. */
const DAYS = 89
/** Users are said to have come over so many days. */
const USERS_SINCE_DAYS = 29
const DAY_MS = 86_400_000

const NOTHING = Object.fromEntries(COUNTERS.map((counter) => [counter, 0])) as Record<Counter, number>

/** A day of a business that grows, and rests at weekends. */
function inventDay({ dice }: Pick<Seeding, 'dice'>, day: Day, back: number, size: number): Record<Counter, number> {
  const growth = 1.6 - back / DAYS
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay()
  const part = growth * (weekday === 0 || weekday === 6 ? 0.55 : 1)
  const about = (n: number) => Math.round(n * size * part * (0.75 + dice.below(50) / 100))
  const active = about(34)
  const guests = about(9)
  return {
    ...NOTHING,
    new_users: about(6),
    active_users: active,
    last_active_users: about(11),
    sign_ins_passkey: about(28),
    sign_ins_messenger: about(7),
    guests,
    guests_converted: Math.min(guests, about(3)),
    wallets_created: about(4),
    transactions_completed: about(40),
    transactions_failed: about(1),
    deliveries_succeeded: about(150),
    deliveries_failed: dice.chance(0.2) ? about(4) : 0,
    api_requests: about(2_400),
  }
}

/** A day's row of an app and of the whole tenant. */
const rowsOf = (tenantId: Id<'ten'>, appId: string, day: Day, counts: Record<Counter, number>): DayCounts[] =>
  [WHOLE_TENANT, appId].map((app) => ({ ...counts, tenant_id: tenantId, app_id: app, day }))

/**
 * Adds counters of days on which the apps did not exist yet, and has their users come over a month. This is the only
 * thing of a seed that is written past the API: its clock cannot be turned back. That it is there is noted in the apps
 * first, so that it can be taken away again.
 */
export async function makeHistory(
  deps: Deps,
  seeding: Seeding,
  of: { tenantId: string; sample: Sample },
): Promise<void> {
  const { api, dice } = seeding
  const tenantId = of.tenantId as Id<'ten'>
  const today = dayOf(deps.now())
  const since = addDays(today, -DAYS)
  const apps = [
    { id: of.sample.shop.id, size: 1 },
    { id: of.sample.courier.id, size: 0.4 },
  ]
  for (const { id } of apps) await api.patch(`/apps/${id}`, { metadata: { [HISTORY]: since } })
  for (const { id, size } of apps) {
    const days = Array.from({ length: DAYS }, (_, index) => addDays(since, index))
    const rows = days.flatMap((day, index) => rowsOf(tenantId, id, day, inventDay({ dice }, day, DAYS - index, size)))
    // In the order of app and day, in which everyone locks them.
    await addCounts(
      deps.db,
      rows.sort((a, b) => (`${a.app_id} ${a.day}` < `${b.app_id} ${b.day}` ? -1 : 1)),
    )
  }
}

/** When each of so many users is said to have come, the first one first: more of them lately, none in the future. */
export function arrivals(dice: Seeding['dice'], now: Date, count: number): Date[] {
  return Array.from({ length: count }, (_, index) => {
    const back = ((count - 1 - index) / count) ** 1.3 * USERS_SINCE_DAYS * DAY_MS
    return now.getTime() - back - dice.below(DAY_MS / 24)
  })
    .sort((a, b) => a - b)
    .map((ms) => new Date(ms))
}

/** Takes away the counters that were added for an app: all that it has of days before it existed. */
export async function removeHistory(
  deps: Deps,
  tenantId: string,
  app: { id: string; createdAt: string },
): Promise<number> {
  return store.subtractDaysBefore(deps.db, tenantId as Id<'ten'>, app.id, dayOf(new Date(app.createdAt)))
}
