import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { CounterMetric, CounterSink } from '../../platform/events/counters.ts'
import type { EventType } from '../../platform/events/event-catalogue.ts'
import { publish } from '../../platform/events/events.ts'
import type { Follower } from '../../platform/events/feed.ts'
import type { Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { METERS, type Meter, type Period, PLANS, type Plan, periodAt, planInForce } from './plans.ts'
import type { Usage } from './schema.ts'
import * as store from './store.ts'

const THRESHOLDS = [80, 100] as const
/** A meter without a period must fall below this percentage before a threshold is published again. */
const FORGETS_BELOW = 60

/** Events that add one to a meter of the period. */
const COUNTED_EVENTS: Partial<Record<EventType, Meter>> = { 'tx.completed': 'transactions' }
const COUNTED_TALLIES: Record<Exclude<CounterMetric, 'users_imported'>, Meter> = {
  deliveries_succeeded: 'deliveries',
  deliveries_failed: 'deliveries',
  api_requests: 'apiRequests',
}
/** Events that may change the number of users. */
const MOVES_USERS = new Set<EventType>(['user.created', 'user.deleted', 'app.deleted'])

const hasReached = ({ used }: store.MeterRow, limit: number, percent: number) => used * 100 >= limit * percent

/** Publishes the thresholds that meters have newly reached, each once. The caller has locked the rows. */
export async function announce(tx: Db, deps: Deps, rows: readonly store.MeterRow[]): Promise<void> {
  // Read after the meters are locked: a plan may have changed while waiting for the lock.
  const accounts = await store.findAccounts(
    tx,
    rows.map((row) => row.tenant_id),
  )
  for (const row of rows) {
    const account = accounts.get(row.tenant_id)
    if (account === undefined) continue
    const limit = PLANS[planInForce(account.plan, deps.payments !== null)][row.meter]
    const present = periodAt(account.subscribed, deps.now())
    // A late addition to a period that has ended is not announced.
    if (limit === null || (row.period_start !== null && row.period_start < present.start)) continue
    const due = THRESHOLDS.filter((percent) => row.announced < percent && hasReached(row, limit, percent))
    const { meter, used } = row
    for (const percent of due) {
      const data = { meter, used, limit, percent }
      await publish(tx, deps, { tenantId: row.tenant_id, appId: null, type: 'usage.threshold_reached', data })
    }
    const forgets = row.period_start === null && row.announced > 0 && !hasReached(row, limit, FORGETS_BELOW)
    const announced = forgets ? 0 : (due.at(-1) ?? row.announced)
    if (announced !== row.announced) await store.setAnnounced(tx, { ...row, announced })
  }
}

/** Something counted at a time, before its period is known. */
interface Counted {
  tenantId: Id<'ten'>
  meter: Meter
  at: Date
  n: number
}

/** Adds counts to the meters of their periods, and publishes thresholds that this reaches. */
async function addCounted(tx: Db, deps: Deps, counted: readonly Counted[]): Promise<void> {
  const accounts = await store.findAccounts(
    tx,
    counted.map((one) => one.tenantId),
  )
  const additions = new Map<string, store.Addition>()
  for (const { tenantId, meter, at, n } of counted) {
    const account = accounts.get(tenantId)
    // The tenant no longer exists.
    if (account === undefined) continue
    const { start } = periodAt(account.subscribed, at)
    const key = `${tenantId} ${meter} ${start.getTime()}`
    const used = (additions.get(key)?.used ?? 0) + n
    additions.set(key, { tenant_id: tenantId, meter, period_start: start, used })
  }
  if (additions.size === 0) return
  await announce(tx, deps, await store.addToMeters(tx, [...additions.values()]))
}

/** Sets the meter of users to how many there are, and publishes thresholds that this reaches. */
async function takeUsersOver(tx: Db, deps: Deps, tenantId: Id<'ten'>): Promise<void> {
  await announce(tx, deps, await store.setUsersMeter(tx, tenantId))
}

/**
 * Folds the feed into the meters. Users are not counted by events but copied from `user_counts`, which also knows users
 * older than the feed's oldest event, and apps that were deleted with their users.
 */
export function usageFollower(deps: Deps): Follower {
  return {
    name: 'usage',
    bodiesOf: [],
    async fold(tx, tenantId, events) {
      const counted = events.flatMap(({ type, createdAt }): Counted[] => {
        const meter = COUNTED_EVENTS[type]
        return meter === undefined ? [] : [{ tenantId, meter, at: createdAt, n: 1 }]
      })
      if (counted.length > 0) await addCounted(tx, deps, counted)
      if (!events.some(({ type }) => MOVES_USERS.has(type))) return
      await takeUsersOver(tx, deps, tenantId)
    },
  }
}

/** Adds ended deliveries and requests to the meters, and updates the number of users after an import. */
export function usageSink(deps: Deps): CounterSink {
  return {
    async add(tx, increments) {
      const counted = increments.flatMap(({ tenantId, metric, at, n }): Counted[] =>
        metric === 'users_imported' ? [] : [{ tenantId, meter: COUNTED_TALLIES[metric], at, n }],
      )
      await addCounted(tx, deps, counted)
      const grown = increments.filter(({ metric }) => metric === 'users_imported').map(({ tenantId }) => tenantId)
      for (const tenantId of new Set(grown)) await takeUsersOver(tx, deps, tenantId)
    },
  }
}

/** A tenant's plan and its use. */
export interface Figures {
  plan: Plan
  period: Period
  used: ReadonlyMap<string, number>
}

/** A tenant's figures, a second or two old. Zero for a deleted tenant. */
export async function readFigures(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  tenantId: Id<'ten'>,
  withProcessor: boolean,
): Promise<Figures> {
  const account = (await store.findAccounts(db, [tenantId])).get(tenantId)
  const period = periodAt(account?.subscribed ?? null, now())
  const rows = await store.findMeters(db, tenantId, period.start)
  const used = new Map(rows.map((row) => [row.meter as string, row.used]))
  return { plan: planInForce(account?.plan ?? '', withProcessor), period, used }
}

/** The plan in force and all its meters. */
export async function getUsage(deps: Deps, caller: Caller): Promise<Usage> {
  const { plan, period, used } = await readFigures(deps, caller.tenantId, deps.payments !== null)
  return {
    plan,
    periodStart: period.start.toISOString(),
    periodEnd: period.end.toISOString(),
    meters: METERS.map((key) => ({ key, used: used.get(key) ?? 0, limit: PLANS[plan][key] })),
  }
}
