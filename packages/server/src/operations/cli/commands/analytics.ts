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
    throw new UsageError(`--from must not be after today (UTC), and ${from} is.`)
  const tenants = await listFedTenants(deps.db, tenantId === null ? null : await findTenant(deps, tenantId))
  progress.begin('Looking at what is kept', tenants.length)
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
    `Counted ${days} days of ${tenants} tenants again.`,
    ...(unkept.length === 0
      ? []
      : ['Left as they are, because some of their events are older than the retention:', ...shown]),
    ...(unkept.length > UNKEPT_SHOWN_MAX ? [`  and of ${unkept.length - UNKEPT_SHOWN_MAX} more tenants`] : []),
  ]
}

/** `halfkey analytics backfill` */
export const analyticsBackfill = defineCommand({
  name: 'analytics backfill',
  summary: 'Count the days of GET /analytics again from the events that are kept',
  details: `Can run beside the service, and again: a day is counted in one transaction, from all of its events or not at all.
Days that have events older than HALFKEY_RETENTION stay as they are. Deliveries and requests are not events, so their counts stay too.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only this tenant; all tenants when not given')
      .option('--from <day>', 'the first day, such as 2026-11-21 (UTC)', readDay),
  async run({ tenant = null, from = null }, context) {
    const done = await withDeps(context, (deps, progress) => backfill(deps, tenant, from, progress))
    return { data: { ...done }, lines: describe(done) }
  },
})
