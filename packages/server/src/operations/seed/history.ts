import { addDays, type Counter, type Day, dayOf, gatherCounts } from '../../insight/analytics/counters.ts'
import { addCounts } from '../../insight/analytics/store.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { CommandError } from '../cli/command.ts'
import { HISTORY } from './mark.ts'
import type { Dice } from './people.ts'
import type { Sample, Seeding } from './sample.ts'
import * as store from './store.ts'

/** As far back as `GET /analytics` goes, without the day on which the apps are made, whose figures are real. */
const DAYS = 89
/** The sample users signed up over this many days. */
const USERS_SINCE_DAYS = 29
const DAY_MS = 86_400_000

/** The figures of the shop on an average day. */
const DAILY: Partial<Record<Counter, number>> = {
  new_users: 6,
  active_users: 34,
  last_active_users: 11,
  sign_ins_passkey: 28,
  sign_ins_messenger: 7,
  guests: 9,
  guests_converted: 3,
  wallets_created: 4,
  transactions_completed: 40,
  transactions_failed: 1,
  deliveries_succeeded: 150,
  deliveries_failed: 4,
  api_requests: 2_400,
}
/** The activity of an app, relative to the shop. */
const SIZES: Record<keyof Sample, number> = { shop: 1, courier: 0.4 }
const FAILED_DELIVERIES_CHANCE = 0.2

/** A day of a business that grows, and rests at weekends. */
function inventDay(dice: Dice, day: Day, daysAgo: number, size: number): [Counter, number][] {
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay()
  const part = size * (1.6 - daysAgo / DAYS) * (weekday === 0 || weekday === 6 ? 0.55 : 1)
  return Object.entries(DAILY).map(([counter, n]) => {
    const happens = counter !== 'deliveries_failed' || dice.chance(FAILED_DELIVERIES_CHANCE)
    return [counter as Counter, happens ? Math.round(n * part * (0.75 + dice.below(50) / 100)) : 0]
  })
}

/** The sign-up times of this many users, earliest first: more of them recently, none in the future. */
function arrivals(dice: Dice, now: Date, count: number): Date[] {
  return Array.from({ length: count }, (_, index) => {
    const back = ((count - 1 - index) / count) ** 1.3 * USERS_SINCE_DAYS * DAY_MS
    return now.getTime() - back - dice.below(DAY_MS / 24)
  })
    .sort((a, b) => a - b)
    .map((ms) => new Date(ms))
}

/**
 * Writes counters of days on which the apps did not exist yet, and spreads the arrival of their users over a month. This
 * is the only part of a seed that is not made by the API, whose clock cannot be turned back. The apps' metadata says so
 * first, so that it can be removed again. @throws CommandError where the database is not that of the service
 */
export async function makeHistory(
  deps: Deps,
  { api, dice, progress }: Seeding,
  of: { tenantId: string; sample: Sample; users: readonly { id: string }[] },
): Promise<void> {
  const tenantId = of.tenantId as Id<'ten'>
  // A copy of another installation's database has the same tenant, but not the app that was just made.
  if (!(await store.hasApp(deps.db, tenantId, of.sample.shop.id)))
    throw new CommandError(
      'The database that DATABASE_URL or HALFKEY_DATA_DIR names is not that of the service, so nothing was written to it. Set them as for the service, run halfkey seed --remove, and seed again.',
    )
  progress.begin('Past days')
  const at = arrivals(dice, deps.now(), of.users.length)
  const came = of.users.map(({ id }, index) => ({ id, createdAt: at[index] as Date }))
  await store.backdateUsers(deps.db, tenantId, came)
  const counts = gatherCounts()
  for (const kind of ['shop', 'courier'] as const) {
    const { id, createdAt } = of.sample[kind]
    // The removal takes off the days before the app's, and midnight may have passed since.
    const made = dayOf(new Date(createdAt))
    await api.apps.update(id, { metadata: { [HISTORY]: addDays(made, -DAYS) } })
    for (let daysAgo = DAYS; daysAgo > 0; daysAgo -= 1) {
      const day = addDays(made, -daysAgo)
      for (const [counter, n] of inventDay(dice, day, daysAgo, SIZES[kind])) counts.add(tenantId, id, day, counter, n)
    }
  }
  await addCounts(deps.db, counts.rows())
}

/** Removes the counters that were added for an app: all of days before it existed. @returns how many days */
export const removeHistory = ({ db }: Deps, tenantId: string, app: { id: string; createdAt: string }) =>
  store.subtractDaysBefore(db, tenantId as Id<'ten'>, app.id, dayOf(new Date(app.createdAt)))
