import Stripe from 'stripe'
import type { Config } from '../../platform/config.ts'
import {
  PAID_PLANS,
  type PaidPlan,
  type PaymentProcessor,
  ProcessorError,
  type ProcessorEvent,
  type Subscription,
} from '../../platform/ports/payment-processor.ts'
import { isLoopback } from '../../platform/security/web-origin.ts'
import { isPaidPlan } from './plans.ts'

const TIMEOUT_MS = 6_000
const RETRIES_MAX = 1
/** How old a signature may be, as Stripe recommends: https://docs.stripe.com/webhooks/signature */
const TOLERANCE_SECONDS = 300
/** The limit for one customer, without ended subscriptions. Stripe's own limit is 500. More than one is a customer's mistake. */
const SUBSCRIPTIONS_MAX = 100
const ID_CHARS_MAX = 255

/** Statuses in which a plan is in force. `past_due`: a payment failed, and Stripe tries again until it gives up. */
const IN_FORCE = new Set(['active', 'trialing', 'past_due'])

const REASON_CHARS_MAX = 500
/** A placeholder in a success URL that Stripe replaces only in this spelling. */
const TEMPLATE = '{CHECKOUT_SESSION_ID}'
const TEMPLATE_ENCODED = encodeURIComponent(TEMPLATE)
const KEYS_MAX = 3

const isOldFailure = (error: unknown) =>
  error instanceof Stripe.errors.StripeError &&
  (error.statusCode ?? 0) >= 500 &&
  error.headers?.['idempotent-replayed'] === 'true'

/**
 * Calls with an idempotency key. Stripe repeats its first answer to a key for a day, even a server error
 * (https://docs.stripe.com/api/idempotent_requests): after a repeated server error, the next key is tried.
 */
async function tryKeys<T>(key: string, call: (options: { idempotencyKey: string }) => Promise<T>): Promise<T> {
  for (let nth = 1; ; nth += 1)
    try {
      return await call({ idempotencyKey: nth === 1 ? key : `${key}-${nth}` })
    } catch (error) {
      if (nth === KEYS_MAX || !isOldFailure(error)) throw error
    }
}

/** The part of Stripe's errors that may be logged: no header, no body, and not the key, which some messages contain. */
function toProcessorError(error: unknown, key: string): ProcessorError {
  if (!(error instanceof Stripe.errors.StripeError)) throw error
  const { type, code, param, statusCode, requestId, message } = error
  const passing =
    error instanceof Stripe.errors.StripeConnectionError ||
    error instanceof Stripe.errors.StripeRateLimitError ||
    error instanceof Stripe.errors.StripeAPIError
  const facts = [type, code, statusCode, requestId].filter((fact) => fact !== undefined).join(' ')
  const text =
    error instanceof Stripe.errors.StripeAuthenticationError ? 'the key was refused' : message.replaceAll(key, '[key]')
  const customerGone = code === 'resource_missing' && param === 'customer'
  return new ProcessorError(`Stripe: ${text.slice(0, REASON_CHARS_MAX)} (${facts})`, { passing, customerGone })
}

/** Plans by price. @throws Error naming a plan that cannot be bought */
function plansByPrice(prices: Config['stripePrices']): Map<string, PaidPlan> {
  const plans = new Map<string, PaidPlan>()
  for (const [plan, price] of prices) {
    if (!isPaidPlan(plan))
      throw new Error(`HALFKEY_STRIPE_PRICES: ${plan} is not a plan that can be bought. Use ${PAID_PLANS.join(' or ')}`)
    if (plans.has(price)) throw new Error(`HALFKEY_STRIPE_PRICES: ${price} is the price of two plans`)
    plans.set(price, plan)
  }
  return plans
}

function toSubscription(subscription: Stripe.Subscription, plans: ReadonlyMap<string, PaidPlan>): Subscription | null {
  const items = subscription.items.data
  const item = items.find(({ price }) => plans.has(price.id)) ?? items[0]
  if (item === undefined) return null
  return {
    id: subscription.id,
    status: subscription.status,
    plan: IN_FORCE.has(subscription.status) ? (plans.get(item.price.id) ?? null) : null,
    periodStart: new Date(item.current_period_start * 1000),
    periodEnd: new Date(item.current_period_end * 1000),
  }
}

const rank = ({ plan }: Subscription) => (plan === null ? -1 : PAID_PLANS.indexOf(plan))

const idIn = (value: unknown): string | null => {
  const id = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value
  return typeof id === 'string' && id.length <= ID_CHARS_MAX ? id : null
}

const tellsOfPlans = (type: unknown) =>
  typeof type === 'string' && (type.startsWith('customer.subscription.') || type === 'checkout.session.completed')

/** A body with a valid signature, which does not prove its shape. */
interface Signed {
  type?: unknown
  data?: { object?: { customer?: unknown } | null } | null
}

function readEvent(
  client: Stripe,
  secret: string,
  { body, signature, now }: { body: Buffer; signature: string; now: Date },
): ProcessorEvent | null | 'forged' {
  let event: Signed | null
  try {
    const { webhooks } = client
    event = webhooks.constructEvent(
      body,
      signature,
      secret,
      TOLERANCE_SECONDS,
      undefined,
      now.getTime(),
    ) as Signed | null
  } catch {
    return 'forged'
  }
  const id = idIn(event)
  const customerId = idIn(event?.data?.object?.customer)
  return id === null || customerId === null || !tellsOfPlans(event?.type) ? null : { id, customerId }
}

/** Stripe, with its library and the API version that the library pins. @throws Error if a price belongs to no plan */
export function createStripe(
  config: Pick<Config, 'stripeApi' | 'stripePrices'>,
  secrets: { key: string; webhookSecret: string },
): PaymentProcessor {
  const plans = plansByPrice(config.stripePrices)
  const asking = <T>(call: Promise<T>): Promise<T> =>
    call.catch((error: unknown): never => {
      throw toProcessorError(error, secrets.key)
    })
  const priceOf = (plan: PaidPlan) => config.stripePrices.get(plan) as string
  const api = new URL(config.stripeApi)
  if (api.protocol === 'http:' && !isLoopback(api))
    throw new Error('HALFKEY_STRIPE_API must start with https://: otherwise the key would be sent unencrypted')
  const client = new Stripe(secrets.key, {
    protocol: api.protocol === 'http:' ? 'http' : 'https',
    host: api.hostname,
    port: api.port === '' ? (api.protocol === 'http:' ? 80 : 443) : Number(api.port),
    maxNetworkRetries: RETRIES_MAX,
    timeout: TIMEOUT_MS,
    telemetry: false,
  })
  const running = new Map<string, Promise<unknown>>()
  /** Stripe refuses a request while another with the same key runs: concurrent calls share one request. */
  function underKey<T>(key: string, call: (options: { idempotencyKey: string }) => Promise<T>): Promise<T> {
    const asked = running.get(key) ?? asking(tryKeys(key, call)).finally(() => running.delete(key))
    running.set(key, asked)
    return asked as Promise<T>
  }
  return {
    name: 'stripe',
    plans: PAID_PLANS.filter((plan) => config.stripePrices.has(plan)),
    async createCustomer(tenantId, gone) {
      const key = `halfkey-customer-${tenantId}${gone === null ? '' : `-after-${gone}`}`
      return (await underKey(key, (options) => client.customers.create({ metadata: { tenantId } }, options))).id
    },
    async createCheckout({ tenantId, customerId, plan, successUrl, cancelUrl, repeatKey }) {
      const params: Stripe.Checkout.SessionCreateParams = {
        mode: 'subscription',
        customer: customerId,
        client_reference_id: tenantId,
        line_items: [{ price: priceOf(plan), quantity: 1 }],
        success_url: successUrl.replaceAll(TEMPLATE_ENCODED, TEMPLATE),
        cancel_url: cancelUrl,
        metadata: { tenantId },
        subscription_data: { metadata: { tenantId } },
      }
      const key = `halfkey-checkout-${repeatKey}-${customerId}`
      const session = await underKey(key, (options) => client.checkout.sessions.create(params, options))
      if (session.url === null) throw new ProcessorError(`Stripe: ${session.id} has no page`)
      return { id: session.id, url: session.url, expiresAt: new Date(session.expires_at * 1000) }
    },
    async createPortal({ customerId, returnUrl, repeatKey }) {
      const params = { customer: customerId, return_url: returnUrl }
      const key = `halfkey-portal-${repeatKey}`
      return (await underKey(key, (options) => client.billingPortal.sessions.create(params, options))).url
    },
    readEvent: (body, signature, now) => readEvent(client, secrets.webhookSecret, { body, signature, now }),
    async presentSubscription(customerId) {
      // Without a status, Stripe lists all subscriptions that have not ended.
      const listed = asking(client.subscriptions.list({ customer: customerId, limit: SUBSCRIPTIONS_MAX }))
      const data = await listed.then(
        (list) => list.data,
        (error: unknown) => {
          if (error instanceof ProcessorError && error.customerGone) return []
          throw error
        },
      )
      const found = data.flatMap((one) => toSubscription(one, plans) ?? [])
      // Stripe lists the newest first, and the sort is stable: of equal plans, the newest counts.
      return found.toSorted((one, other) => rank(other) - rank(one))[0] ?? null
    },
  }
}
