import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { PAID_PLANS } from '../../platform/ports/payment-processor.ts'
import { QUOTA_ERRORS, type Quotas, type RefusedMeter } from '../../platform/ports/quotas.ts'
import { isPaidPlan, type Period, PLANS, type Plan, periodAt, planInForce } from './plans.ts'
import * as store from './store.ts'

const fail = failures(QUOTA_ERRORS)

/** How long figures are believed. */
const FRESH_MS = 1_000
const TENANTS_MAX = 10_000

interface Figures {
  readAtMs: number
  plan: Plan
  period: Period
  used: ReadonlyMap<string, number>
}

/** What has no period frees itself by nothing but deleting. */
const hasPeriod = (meter: RefusedMeter) => meter !== 'users'

/** How a tenant gets more. A plan that is paid for is changed where it is paid, not bought a second time. */
function biggerThan(plan: Plan): string {
  if (plan === PAID_PLANS.at(-1)) return 'There is no larger plan: ask whoever runs this service'
  return `Buy a larger plan with POST /billing/${isPaidPlan(plan) ? 'portal' : 'checkout'}`
}

function refusal(now: Date, { plan, period }: Figures, meter: RefusedMeter, used: number, limit: number) {
  const instead = hasPeriod(meter)
    ? `, or wait for the next period, which begins at ${period.end.toISOString()}`
    : ', or delete users'
  const message = `The plan ${plan} has room for ${limit} ${meter}. ${biggerThan(plan)}${instead}.`
  const seconds = Math.max(1, Math.ceil((period.end.getTime() - now.getTime()) / 1000))
  return fail(
    'quota_exceeded',
    [{ code: 'quota_exceeded', message, meter, used, limit, plan }],
    hasPeriod(meter) ? { 'retry-after': String(seconds) } : {},
  )
}

/** Quotas where a payment processor is configured: by the meters, each tenant's kept in memory for a second. */
export function createQuotas(deps: Pick<Deps, 'now'>): Quotas {
  const known = new Map<Id<'ten'>, Figures>()

  function check(figures: Figures, meter: RefusedMeter): void {
    const limit = PLANS[figures.plan][meter]
    const used = figures.used.get(meter) ?? 0
    if (limit !== null && used >= limit) throw refusal(deps.now(), figures, meter, used, limit)
  }

  async function read(db: Db, tenantId: Id<'ten'>): Promise<Figures> {
    const readAtMs = performance.now()
    const [account] = await store.findAccounts(db, [tenantId])
    const subscribed = account === undefined ? null : store.subscribedPeriod(account)
    const period = periodAt(subscribed, deps.now())
    const rows = await store.findMeters(db, tenantId, period.start)
    const figures = {
      readAtMs,
      plan: planInForce(account?.plan ?? '', true),
      period,
      used: new Map(rows.map((row) => [row.meter, row.used])),
    }
    known.delete(tenantId)
    if (known.size >= TENANTS_MAX) known.delete(known.keys().next().value as Id<'ten'>)
    known.set(tenantId, figures)
    return figures
  }

  return {
    require(db, tenantId, meter) {
      const figures = known.get(tenantId)
      // The period may have ended since: by the service's clock, which is not the one that figures age by.
      const fresh =
        figures !== undefined && performance.now() - figures.readAtMs < FRESH_MS && deps.now() < figures.period.end
      return fresh ? check(figures, meter) : read(db, tenantId).then((now) => check(now, meter))
    },
  }
}

/** No quotas: nothing is looked up. */
export const UNLIMITED: Quotas = { require: () => undefined }
