import { backfillDay, backfillLastActive, planBackfill, type UnkeptDays } from '../../../insight/analytics/backfill.ts'
import { listFedTenants } from '../../../insight/analytics/store.ts'
import type { Deps } from '../../../platform/deps.ts'
import { defineCommand, findTenant, UsageError, withDeps } from '../command.ts'
import type { Progress } from '../progress.ts'

const UNKEPT_SHOWN_MAX = 20

function readDay(text: string): string {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? new Date(`${text}T00:00:00.000Z`) : new Date(Number.NaN)
  if (Number.isNaN(time.getTime()) || time.toISOString().slice(0, 10) !== text)
    throw new UsageError(`--from must be a day such as 2026-11-21, not "${text}".`)
  return text
}

/** How a back-fill went. */
interface Backfilled {
  tenants: number
  days: number
  unkept: UnkeptDays[]
}

async function backfill(
  deps: Deps,
  tenantId: string | null,
  from: string | null,
  progress: Progress,
): Promise<Backfilled> {
  if (from !== null && from > deps.now().toISOString().slice(0, 10))
    throw new UsageError(`--from must not be after today (UTC), but ${from} is.`)
  const tenants = await listFedTenants(deps.db, tenantId === null ? null : await findTenant(deps, tenantId))
  progress.begin('Finding the events that are kept', tenants.length)
  const done: Backfilled = { tenants: tenants.length, days: 0, unkept: [] }
  let total = 0
  for (const each of tenants) {
    total += (await planBackfill(deps, each, from)).days.length
    progress.add(1)
  }
  progress.begin('Counting days', total)
  for (const each of tenants) {
    // Looked at again: since then days may have passed their retention.
    const plan = await planBackfill(deps, each, from)
    done.unkept.push(...plan.unkept)
    for (const day of plan.days) {
      if (await backfillDay(deps, each, day)) done.days += 1
      else done.unkept.push({ tenantId: each, from: day, to: day })
      progress.add(1)
    }
    await backfillLastActive(deps, each)
  }
  return done
}

function describe({ tenants, days, unkept }: Backfilled): string[] {
  const shown = unkept
    .slice(0, UNKEPT_SHOWN_MAX)
    .map((each) => `  ${each.tenantId}: ${each.from === each.to ? each.from : `${each.from} to ${each.to}`}`)
  return [
    `Recounted ${days} days of ${tenants} tenants.`,
    ...(unkept.length === 0
      ? []
      : ['Unchanged, because some of their events are older than the retention period:', ...shown]),
    ...(unkept.length > UNKEPT_SHOWN_MAX ? [`  and days of ${unkept.length - UNKEPT_SHOWN_MAX} more tenants`] : []),
  ]
}

/** `halfkey analytics backfill` */
export const analyticsBackfill = defineCommand({
  name: 'analytics backfill',
  summary: 'Recount the days of GET /analytics from the events that are kept',
  details: `You can run it while the service runs, and more than once: each day is counted in one transaction, from all of its events or not at all.
Days with events older than HALFKEY_RETENTION stay unchanged. Deliveries and requests are not events, so their counts stay unchanged too.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only this tenant (default: all tenants)')
      .option('--from <day>', 'the first day, such as 2026-11-21 (UTC)', readDay),
  async run({ tenant = null, from = null }, context) {
    const done = await withDeps(context, (deps, progress) => backfill(deps, tenant, from, progress))
    return { data: { ...done }, lines: describe(done) }
  },
})
