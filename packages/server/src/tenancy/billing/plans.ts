import { PAID_PLANS, type PaidPlan } from '../../platform/ports/payment-processor.ts'

/** The meters. `users` is the current number; the others count the period. */
export const METERS = ['users', 'transactions', 'deliveries', 'apiRequests'] as const
export type Meter = (typeof METERS)[number]

/** All plans with their quotas; null is unlimited. */
export const PLANS = {
  /** The plan if no payment processor is configured, because nobody could pay for more. */
  self_hosted: { users: null, transactions: null, deliveries: null, apiRequests: null },
  free: { users: 500, transactions: 1_000, deliveries: 10_000, apiRequests: 100_000 },
  pro: { users: 10_000, transactions: 50_000, deliveries: 1_000_000, apiRequests: 10_000_000 },
  scale: { users: 250_000, transactions: 2_000_000, deliveries: 50_000_000, apiRequests: null },
} as const satisfies Record<string, Record<Meter, number | null>>
export type Plan = keyof typeof PLANS

/** Whether this is the name of a plan that can be bought. */
export function isPaidPlan(name: string): name is PaidPlan {
  return (PAID_PLANS as readonly string[]).includes(name)
}

/** The plan in force: unlimited without a payment processor; with one, `free` until a plan is bought. */
export function planInForce(stored: string, withProcessor: boolean): Plan {
  if (!withProcessor) return 'self_hosted'
  return isPaidPlan(stored) ? stored : 'free'
}

/** A span of time in which use is counted: `start` included, `end` excluded. */
export interface Period {
  start: Date
  end: Date
}

/**
 * The period that contains a moment. A subscription's periods follow each other without a gap, so the next one begins
 * where the last known one ends, before the processor reports it. Without a subscription, or before it, the calendar
 * month in UTC.
 */
export function periodAt(subscribed: Period | null, at: Date): Period {
  if (subscribed !== null && at >= subscribed.start) {
    const lengthMs = subscribed.end.getTime() - subscribed.start.getTime()
    const past = lengthMs > 0 ? Math.floor((at.getTime() - subscribed.start.getTime()) / lengthMs) : 0
    return {
      start: new Date(subscribed.start.getTime() + past * lengthMs),
      end: new Date(subscribed.end.getTime() + past * lengthMs),
    }
  }
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()]
  return { start: new Date(Date.UTC(year, month, 1)), end: new Date(Date.UTC(year, month + 1, 1)) }
}
