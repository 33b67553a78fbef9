import type { Calls, RequestOptions } from '../http.ts'
import type { Checkout, Portal, Usage } from '../models.ts'
import type { Body } from '../operations.ts'

/** Calls of the tenant's plan. Keys must be tenant-wide. Every method may also throw what any call does: see `HalfkeyError`. */
export function billingOf({ one }: Calls) {
  return {
    /**
     * Gets a page on which a plan is bought: send the browser to its `url`. The event `billing.plan_changed` announces the
     * new plan. Scope `billing:write`. @throws billing_not_configured, subscription_active, processor_unavailable
     */
    checkout: (body: Body<'/billing/checkout', 'post'>, options?: RequestOptions): Promise<Checkout> =>
      one('post', '/billing/checkout', { body }, options),

    /**
     * Gets a page on which the plan is changed or ended. Scope `billing:write`.
     * @throws billing_not_configured, billing_customer_missing, processor_unavailable
     */
    portal: (body: Body<'/billing/portal', 'post'>, options?: RequestOptions): Promise<Portal> =>
      one('post', '/billing/portal', { body }, options),

    /** Gets the current plan, its quotas and their usage. Scope `billing:read`. */
    usage: (options?: RequestOptions): Promise<Usage> => one('get', '/billing/usage', {}, options),
  }
}
