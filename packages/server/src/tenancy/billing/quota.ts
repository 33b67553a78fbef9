import { LRUCache } from 'lru-cache'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { PAID_PLANS } from '../../platform/ports/payment-processor.ts'
import { QUOTA_ERRORS, type Quotas, type RefusedMeter } from '../../platform/ports/quotas.ts'
import { isPaidPlan, PLANS, type Plan } from './plans.ts'
import { type Figures, readFigures } from './usage.ts'

const fail = failures(QUOTA_ERRORS)

/** How long figures are cached. */
const FRESH_MS = 1_000
const TENANTS_MAX = 10_000

/** Without a period, a meter falls only when something is deleted. */
const hasPeriod = (meter: RefusedMeter) => meter !== 'users'

/** How the tenant gets a larger quota. A paid plan is changed in the portal, not bought a second time. */
function biggerThan(plan: Plan): string {
  if (plan === PAID_PLANS.at(-1)) return 'There is no larger plan: ask the operator of this service'
  return `Buy a larger plan with POST /billing/${isPaidPlan(plan) ? 'portal' : 'checkout'}`
}

function refusal(now: Date, { plan, period }: Figures, meter: RefusedMeter, used: number, limit: number) {
  const instead = hasPeriod(meter)
    ? `, or wait for the next period, which begins at ${period.end.toISOString()}`
    : ', or delete users'
  const message = `The plan ${plan} allows ${limit} ${meter}. ${biggerThan(plan)}${instead}.`
  const seconds = Math.max(1, Math.ceil((period.end.getTime() - now.getTime()) / 1000))
  return fail(
    'quota_exceeded',
    [{ code: 'quota_exceeded', message, meter, used, limit, plan }],
    hasPeriod(meter) ? { 'retry-after': String(seconds) } : {},
  )
}

/** The quotas if there is a payment processor. Each tenant's figures are cached for a second. */
export function createQuotas(deps: Pick<Deps, 'now'>): Quotas {
  const known = new LRUCache<Id<'ten'>, Figures>({ max: TENANTS_MAX, ttl: FRESH_MS, ttlResolution: 0 })

  function check(figures: Figures, meter: RefusedMeter): void {
    const limit = PLANS[figures.plan][meter]
    const used = figures.used.get(meter) ?? 0
    if (limit !== null && used >= limit) throw refusal(deps.now(), figures, meter, used, limit)
  }

  async function read(db: Db, tenantId: Id<'ten'>): Promise<Figures> {
    const start = performance.now()
    const figures = await readFigures({ db, now: deps.now }, tenantId, true)
    known.set(tenantId, figures, { start })
    return figures
  }

  return {
    require(db, tenantId, meter) {
      const figures = known.get(tenantId)
      // The period ends by the service's clock; cache entries age by the monotonic clock.
      if (figures !== undefined && deps.now() < figures.period.end) return check(figures, meter)
      return read(db, tenantId).then((fresh) => check(fresh, meter))
    },
  }
}

/** No quotas. Nothing is looked up. */
export const UNLIMITED: Quotas = { require: () => undefined }
