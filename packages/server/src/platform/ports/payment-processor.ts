/** Plans that money buys, the smallest first. */
export const PAID_PLANS = ['pro', 'scale'] as const
export type PaidPlan = (typeof PAID_PLANS)[number]

/** A subscription as the processor has it now. */
export interface Subscription {
  id: string
  /** The processor's own word, such as `active` or `past_due`. */
  status: string
  /** Null where its status gives none, or its price is none of ours. */
  plan: PaidPlan | null
  periodStart: Date
  periodEnd: Date
}

/** What the processor tells of by itself: that something about a customer has changed. */
export interface ProcessorEvent {
  /** Unique at the processor; the same at every attempt to deliver it. */
  id: string
  customerId: string
}

/** Where a person pays, and until when the page can be used. */
export interface CheckoutPage {
  id: string
  url: string
  expiresAt: Date
}

/**
 * Takes payments and knows who has paid. Its calls wait for a network: never inside a transaction. Those that create
 * something take a key of ours, under which a repeat creates nothing more. Each may throw `ProcessorError`.
 */
export interface PaymentProcessor {
  /** Beneath `/processor-events/`, the path that its events come in at. */
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
  /** Reads what was posted as an event: null if it is genuine and tells of nothing that counts here, `forged` otherwise. */
  readEvent(body: Buffer, signature: string, now: Date): ProcessorEvent | null | 'forged'
  /** The one of a customer's subscriptions that counts, as it is at this moment; null if there is none that has not ended, or no such customer. */
  presentSubscription(customerId: string): Promise<Subscription | null>
}

/** The processor could not be asked, or refused. The message is for the log; nothing secret is in it. */
export class ProcessorError extends Error {
  /** Whether the same call may succeed later without anybody doing anything. */
  readonly passing: boolean
  /** Whether it knows no such customer: deleted there, or made in another account or mode. */
  readonly customerGone: boolean

  constructor(message: string, { passing = false, customerGone = false } = {}) {
    super(message)
    this.passing = passing
    this.customerGone = customerGone
  }
}
