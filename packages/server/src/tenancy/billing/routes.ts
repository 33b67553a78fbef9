import { one, type PlainRoute, type Route, route, secretKey } from '../../platform/http/route.ts'
import { takeProcessorEvent } from './processor-events.ts'
import { Checkout, CreateCheckout, CreatePortal, Portal, Usage } from './schema.ts'
import { openCheckout, openPortal, requestCheckout, requestPortal } from './service.ts'
import { getUsage } from './usage.ts'

/** The endpoints of billing. */
export const billingRoutes: Route[] = [
  route(
    'POST /billing/checkout',
    {
      summary: 'Buy a plan',
      description:
        'Returns a page of the payment processor. The plan changes when the processor reports the payment: wait for `billing.plan_changed`, not for the browser. Needs a key that is not bound to an app.',
      callers: secretKey('billing:write', { tenantWide: true }),
      body: CreateCheckout,
      reply: one(Checkout),
      status: 201,
      secret: true,
      errors: ['billing_not_configured', 'subscription_active', 'processor_unavailable'],
    },
    {
      effect: (deps, { caller, body }) => requestCheckout(deps, caller, body),
      finish: (deps, { caller }, asked) => openCheckout(deps, caller, asked as never),
    },
  ),
  route(
    'POST /billing/portal',
    {
      summary: 'Manage the plan',
      description:
        'Returns a page of the payment processor, where the customer sees invoices and cards, and changes or ends the plan. Needs a key that is not bound to an app.',
      callers: secretKey('billing:write', { tenantWide: true }),
      body: CreatePortal,
      reply: one(Portal),
      status: 201,
      secret: true,
      errors: ['billing_not_configured', 'billing_customer_missing', 'processor_unavailable'],
    },
    {
      effect: (deps, { caller, body }) => requestPortal(deps, caller, body),
      finish: (deps, _, asked) => openPortal(deps, asked as never),
    },
  ),
  route(
    'GET /billing/usage',
    {
      summary: 'Get the usage',
      description:
        'Returns the current plan and its usage: the current number of users, and the other figures of the current period. Figures are a second or two old.',
      callers: secretKey('billing:read', { tenantWide: true }),
      reply: one(Usage),
    },
    (deps, { caller }) => getUsage(deps, caller),
  ),
]

/** The endpoint to which the payment processor posts its events. */
export const processorEventsRoute: PlainRoute = {
  method: 'POST',
  path: '/processor-events/stripe',
  async handler(deps, request) {
    await takeProcessorEvent(deps, request)
    return { status: 200, contentType: 'application/json; charset=utf-8', body: '{"received":true}' }
  },
}
