import type { Deps } from '../../platform/deps.ts'
import type { Caller } from '../../platform/http/route.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import { addDays, COUNTERS, type Counter, dayOf, daysFrom, NOTHING, WHOLE_TENANT } from './counters.ts'
import { type Analytics, type AnalyticsQuery, type Counts, PERIODS } from './schema.ts'
import { listDays } from './store.ts'

const toCounts = (row: Record<Counter, number>): Counts => ({
  newUsers: row.new_users + row.users_imported,
  activeUsers: row.active_users,
  signIns: {
    passkey: row.sign_ins_passkey,
    messenger: row.sign_ins_messenger,
    email: row.sign_ins_email,
    exchange: row.sign_ins_exchange,
    provider: row.sign_ins_provider,
    wallet: row.sign_ins_wallet,
  },
  guests: row.guests,
  guestsConverted: row.guests_converted,
  walletsCreated: row.wallets_created,
  transactionsCompleted: row.transactions_completed,
  transactionsFailed: row.transactions_failed,
  deliveriesSucceeded: row.deliveries_succeeded,
  deliveriesFailed: row.deliveries_failed,
  apiRequests: row.api_requests,
})

/** The counters of every day of a period, today last, and their sums. @throws not_found for an app */
export async function getAnalytics(deps: Deps, caller: Caller, query: AnalyticsQuery): Promise<Analytics> {
  const period = query.period ?? '30d'
  const whole = caller.appId ?? WHOLE_TENANT
  const appId = query.app_id === undefined ? whole : await resolveApp(deps, caller, query.app_id, 'app_id')
  const to = dayOf(deps.now())
  const from = addDays(to, 1 - PERIODS[period])
  const rows = new Map((await listDays(deps.db, caller.tenantId, appId, from, to)).map((row) => [row.day, row]))
  const sums = { ...NOTHING }
  for (const row of rows.values()) for (const counter of COUNTERS) sums[counter] += row[counter]
  return {
    period,
    from,
    to,
    // Users whose last active day is in the period: each counts once.
    totals: { ...toCounts(sums), activeUsers: sums.last_active_users },
    series: daysFrom(from, to).map((day) => ({ date: day, ...toCounts(rows.get(day) ?? NOTHING) })),
  }
}
