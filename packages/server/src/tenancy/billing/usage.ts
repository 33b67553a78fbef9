import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { CounterMetric, CounterSink } from '../../platform/events/counters.ts'
import type { EventType } from '../../platform/events/event-catalogue.ts'
import { publish } from '../../platform/events/events.ts'
import type { Follower } from '../../platform/events/feed.ts'
import type { Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { METERS, type Meter, PLANS, periodAt, planInForce } from './plans.ts'
import type { Usage } from './schema.ts'
import * as store from './store.ts'

const THRESHOLDS = [80, 100] as const
/** A figure without a period is told of again once it has fallen below so many percent: not at every step over the line. */
const FORGETS_BELOW = 60

/** What adds one to a meter of the period. */
const COUNTED_EVENTS: Partial<Record<EventType, Meter>> = { 'tx.completed': 'transactions' }
const COUNTED_TALLIES: Record<Exclude<CounterMetric, 'users_imported'>, Meter> = {
  deliveries_succeeded: 'deliveries',
  deliveries_failed: 'deliveries',
  api_requests: 'apiRequests',
}
/** After which the number of users may be another one. */
const MOVES_USERS = new Set<EventType>(['user.created', 'user.deleted', 'app.deleted'])

const hasReached = ({ used }: store.MeterRow, limit: number, percent: number) => used * 100 >= limit * percent

/** Tells of the thresholds that meters have newly reached, each once. The rows are locked by who added to them. */
export async function announce(
  tx: Db,
  deps: Deps,
  account: store.AccountRow,
  rows: readonly store.MeterRow[],
): Promise<void> {
  const quotas = PLANS[planInForce(account.plan, deps.payments !== null)]
  const present = periodAt(store.subscribedPeriod(account), deps.now())
  for (const row of rows) {
    const limit = quotas[row.meter]
    // What is added late to a period that is over is of no use to anybody.
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

/** Something that was counted at a time, before it is known to which period that belongs. */
interface Counted {
  tenantId: Id<'ten'>
  meter: Meter
  at: Date
  n: number
}

/** Adds what was counted to the meters of its periods, and tells of what is reached by that. */
async function addCounted(tx: Db, deps: Deps, counted: readonly Counted[]): Promise<void> {
  const accounts = await store.findAccounts(tx, [...new Set(counted.map((one) => one.tenantId))])
  const byTenant = new Map(accounts.map((account) => [account.tenant_id, account]))
  const additions = new Map<string, store.Addition>()
  for (const { tenantId, meter, at, n } of counted) {
    const account = byTenant.get(tenantId)
    // The tenant is gone, and nobody will ask.
    if (account === undefined) continue
    const { start } = periodAt(store.subscribedPeriod(account), at)
    const key = `${tenantId} ${meter} ${start.getTime()}`
    const used = (additions.get(key)?.used ?? 0) + n
    additions.set(key, { tenant_id: tenantId, meter, period_start: start, used })
  }
  if (additions.size === 0) return
  const rows = await store.addToMeters(tx, [...additions.values()])
  // Looked up again now that the meters are locked: their plan may have changed while that was waited for.
  for (const account of await store.findAccounts(tx, [...new Set(rows.map((row) => row.tenant_id))]))
    await announce(
      tx,
      deps,
      account,
      rows.filter((row) => row.tenant_id === account.tenant_id),
    )
}

/** Sets the meter of users to how many there are, and tells of what is reached by that. */
async function takeUsersOver(tx: Db, deps: Deps, tenantId: Id<'ten'>): Promise<void> {
  const rows = await store.setUsersMeter(tx, tenantId)
  const [account] = await store.findAccounts(tx, [tenantId])
  if (account !== undefined) await announce(tx, deps, account, rows)
}

/**
 * Folds the feed into the meters. Users are not counted one by one but taken over from the counters that are kept with
 * them: those know of users that came before the feed's oldest event, and of apps that went with theirs.
 */
export function usageFollower(deps: Deps): Follower {
  return {
    name: 'usage',
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

/** Adds deliveries that have ended, delivered or given up, and requests to the meters; looks at users who were imported. */
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

/** The plan in force and its meters, all of them, as they were folded: a second or two behind. */
export async function getUsage(deps: Deps, caller: Caller): Promise<Usage> {
  const [account] = await store.findAccounts(deps.db, [caller.tenantId])
  if (account === undefined) throw new Error(`there is no tenant ${caller.tenantId}`)
  const plan = planInForce(account.plan, deps.payments !== null)
  const period = periodAt(store.subscribedPeriod(account), deps.now())
  const rows = await store.findMeters(deps.db, caller.tenantId, period.start)
  return {
    plan,
    periodStart: period.start.toISOString(),
    periodEnd: period.end.toISOString(),
    meters: METERS.map((key) => ({
      key,
      used: rows.find((row) => row.meter === key)?.used ?? 0,
      limit: PLANS[plan][key],
    })),
  }
}
