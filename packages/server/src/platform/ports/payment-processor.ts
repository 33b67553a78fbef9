/** Plans that can be bought, the smallest first. */
export const PAID_PLANS = ['pro', 'scale'] as const
export type PaidPlan = (typeof PAID_PLANS)[number]

/** A subscription as the processor has it now. */
export interface Subscription {
  id: string
  /** In the processor's terms, such as `active` or `past_due`. */
  status: string
  /** Null if its status gives no plan, or no plan has its price. */
  plan: PaidPlan | null
  periodStart: Date
  periodEnd: Date
}

/** A notice of the processor that something about a customer has changed. */
export interface ProcessorEvent {
  /** Unique at the processor; the same at every delivery attempt. */
  id: string
  customerId: string
}

/** The page at which a person pays, and when it expires. */
interface CheckoutPage {
  id: string
  url: string
  expiresAt: Date
}

/**
 * Takes payments and knows who has paid. Its calls use the network: never call them inside a transaction. Calls that
 * create something take an idempotency key. Each may throw `ProcessorError`.
 */
export interface PaymentProcessor {
  /** Its events arrive at the path `/processor-events/<name>`. */
  readonly name: string
  /** Plans that it has a price for. */
  readonly plans: readonly PaidPlan[]
  /** @param gone the one that this replaces, if any @returns its id; the same for the same tenant within a day */
  createCustomer(tenantId: string, gone: string | null): Promise<string>
  createCheckout(input: {
    tenantId: string
    customerId: string
    plan: PaidPlan
    successUrl: string
    cancelUrl: string
    repeatKey: string
  }): Promise<CheckoutPage>
  /** @returns where a customer sees invoices, and changes or ends the subscription */
  createPortal(input: { customerId: string; returnUrl: string; repeatKey: string }): Promise<string>
  /** Reads a posted event: null if it is genuine but irrelevant here, `forged` if its signature is not valid. */
  readEvent(body: Buffer, signature: string, now: Date): ProcessorEvent | null | 'forged'
  /** The present state of a customer's best subscription; null if all have ended, or there is no such customer. */
  presentSubscription(customerId: string): Promise<Subscription | null>
}

/** The processor could not be reached, or refused. The message is for the log and holds no secret. */
export class ProcessorError extends Error {
  /** Whether the same call may succeed later without any change. */
  readonly passing: boolean
  /** Whether the customer does not exist: deleted, or created in another account or mode. */
  readonly customerGone: boolean

  constructor(message: string, { passing = false, customerGone = false } = {}) {
    super(message)
    this.passing = passing
    this.customerGone = customerGone
  }
}
