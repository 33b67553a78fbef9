import { randomUUID } from 'node:crypto'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { type ErrorTable, failures, invalid } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { type PaidPlan, type PaymentProcessor, ProcessorError } from '../../platform/ports/payment-processor.ts'
import { QUOTA_ERRORS } from '../../platform/ports/quotas.ts'
import { isLoopback, webUrlProblem } from '../../platform/security/web-origin.ts'
import { isPaidPlan } from './plans.ts'
import { type Checkout, type CreateCheckout, type CreatePortal, type Portal, URL_CHARS_MAX } from './schema.ts'
import * as store from './store.ts'

export const BILLING_ERRORS = {
  ...QUOTA_ERRORS,
  billing_not_configured: [400, 'This service takes no payments: no payment processor is configured.'],
  billing_customer_missing: [
    400,
    'The tenant has never bought a plan, so there is nothing to manage. Start with POST /billing/checkout.',
  ],
  processor_signature_invalid: [400, 'The signature is not valid, or is too old.'],
  subscription_active: [
    409,
    'The tenant already pays for a plan. Change or end it on the page that POST /billing/portal returns.',
  ],
  processor_unavailable: [
    500,
    'The payment processor did not complete the request. Try again. The reason is in the log of the service.',
  ],
} as const satisfies ErrorTable

const fail = failures(BILLING_ERRORS)

const RETRY_AFTER_SECONDS = '5'

/** @throws billing_not_configured */
export function processorOf(deps: Deps): PaymentProcessor {
  if (deps.payments === null) throw fail('billing_not_configured')
  return deps.payments
}

/** The result of a call to the processor. The reason of a failure is logged, not returned. @throws processor_unavailable */
export async function callProcessor<T>(deps: Deps, call: Promise<T>): Promise<T> {
  return call.catch((error: unknown): never => {
    if (!(error instanceof ProcessorError)) throw error
    deps.log.error(
      { processor: deps.payments?.name, passing: error.passing, reason: error.message },
      'processor failed',
    )
    const message = error.passing
      ? 'The payment processor could not be reached or was busy. Try again in a few seconds, with the same Idempotency-Key.'
      : 'The payment processor refused the request. The configured key or a price may be wrong: the operator must check them.'
    throw fail(
      'processor_unavailable',
      [{ code: 'processor_unavailable', message, retryable: error.passing }],
      error.passing ? { 'retry-after': RETRY_AFTER_SECONDS } : {},
    )
  })
}

/**
 * A URL that a browser may be sent back to, in the normal form of browsers: other parsers read some spellings differently.
 * Does not check whose URL it is. @throws validation_failed, naming the field
 */
function parseReturnUrl(field: string, text: string, development: boolean): URL {
  const url = URL.parse(text)
  if (url === null) throw invalid(field, 'Must be an absolute URL, such as https://shop.example.com/billing.')
  const problem = webUrlProblem(url, development)
  if (problem !== null) throw invalid(field, problem)
  if (url.href.length > URL_CHARS_MAX)
    throw invalid(field, `Must be at most ${URL_CHARS_MAX} characters long once it is percent-encoded.`)
  return url
}

/** A return URL that belongs to the tenant. @throws validation_failed, naming the field */
async function ownUrl(deps: Deps, tenantId: Id<'ten'>, field: string, text: string): Promise<string> {
  const development = deps.config.env === 'development'
  const url = parseReturnUrl(field, text, development)
  if (url.origin === new URL(publicUrl(deps.config)).origin) return url.href
  const own = await store.isOwnOrigin(deps.db, tenantId, url.origin, {
    host: url.origin === `https://${url.hostname}` ? url.hostname : null,
    // As at sign-in: in development an app without allowed origins accepts any loopback origin.
    anyLoopback: development && isLoopback(url),
  })
  if (own) return url.href
  throw invalid(
    field,
    `${url.origin} does not belong to you. Add it to an app's allowedOrigins, or verify it as a custom domain.`,
    'foreign_url',
  )
}

/** The input of a checkout or portal session, stored before the processor is called so that a repeat uses it again. */
export interface Asked extends Record<string, unknown> {
  /** The idempotency key at the processor: a repeat creates no second session. */
  repeatKey: string
}

/** @throws validation_failed, listing the plans that can be bought */
function purchasable({ plans }: PaymentProcessor, plan: string): PaidPlan {
  if (isPaidPlan(plan) && plans.includes(plan)) return plan
  const message =
    plans.length === 0 ? 'No plan can be bought: none has a price.' : `Must be one of ${plans.join(', ')}.`
  throw invalid('plan', message, 'not_purchasable', { plans })
}

/**
 * The first half of a checkout: all checks.
 * @throws billing_not_configured, validation_failed, subscription_active
 */
export async function requestCheckout(deps: Deps, { tenantId }: Caller, input: CreateCheckout): Promise<Asked> {
  const plan = purchasable(processorOf(deps), input.plan)
  const successUrl = await ownUrl(deps, tenantId, 'successUrl', input.successUrl)
  const cancelUrl = await ownUrl(deps, tenantId, 'cancelUrl', input.cancelUrl)
  const row = await store.findSubscription(deps.db, tenantId)
  // A second subscription would be charged in addition to the first.
  if (row?.in_force === true) throw fail('subscription_active')
  return { repeatKey: randomUUID(), plan, successUrl, cancelUrl }
}

/**
 * The tenant's customer at the processor, created at its first checkout, and again if the processor no longer knows
 * `gone`. Concurrent calls get the same customer.
 */
async function customerOf(deps: Deps, tenantId: Id<'ten'>, gone: string | null): Promise<string> {
  const known = await store.findSubscription(deps.db, tenantId)
  if (known !== undefined && known.customer_id !== gone) return known.customer_id
  const customerId = await callProcessor(deps, processorOf(deps).createCustomer(tenantId, gone))
  await deps.failpoint('customer made')
  await store.putCustomer(deps.db, tenantId, { customerId, gone }, deps.now())
  const noted = await store.findSubscription(deps.db, tenantId)
  // Otherwise, payments would count for that tenant.
  if (noted === undefined) throw new Error('the processor returned a customer of another tenant')
  return noted.customer_id
}

const isGone = (error: unknown) => error instanceof ProcessorError && error.customerGone

/** The second half: the page at the processor. @throws processor_unavailable */
export async function openCheckout(deps: Deps, { tenantId }: Caller, asked: Asked): Promise<Checkout> {
  const { repeatKey, plan, successUrl, cancelUrl } = asked as Asked & {
    plan: PaidPlan
    successUrl: string
    cancelUrl: string
  }
  const open = (customerId: string) =>
    processorOf(deps).createCheckout({ tenantId, customerId, plan, successUrl, cancelUrl, repeatKey })
  const customerId = await customerOf(deps, tenantId, null)
  const opened = open(customerId).catch(async (error: unknown) => {
    if (!isGone(error)) throw error
    return open(await customerOf(deps, tenantId, customerId))
  })
  const page = await callProcessor(deps, opened)
  await deps.failpoint('page made')
  return { id: page.id, url: page.url, plan, expiresAt: page.expiresAt.toISOString() }
}

/** The first half of a visit to the portal. @throws billing_not_configured, validation_failed, billing_customer_missing */
export async function requestPortal(deps: Deps, { tenantId }: Caller, input: CreatePortal): Promise<Asked> {
  processorOf(deps)
  const returnUrl = await ownUrl(deps, tenantId, 'returnUrl', input.returnUrl)
  const row = await store.findSubscription(deps.db, tenantId)
  if (row === undefined) throw fail('billing_customer_missing')
  return { repeatKey: randomUUID(), customerId: row.customer_id, returnUrl }
}

/** The second half. @throws processor_unavailable, billing_customer_missing */
export async function openPortal(deps: Deps, asked: Asked): Promise<Portal> {
  const { customerId, returnUrl, repeatKey } = asked as Asked & { customerId: string; returnUrl: string }
  const opened = processorOf(deps)
    .createPortal({ customerId, returnUrl, repeatKey })
    .catch((error: unknown): never => {
      throw isGone(error) ? fail('billing_customer_missing') : error
    })
  return { url: await callProcessor(deps, opened) }
}
