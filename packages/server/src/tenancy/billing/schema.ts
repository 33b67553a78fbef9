import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'

/** Limit of a return URL, as given and percent-encoded. Processors limit the length too. */
export const URL_CHARS_MAX = 2_000
const ReturnUrl = z.string().max(URL_CHARS_MAX)

const returns = (description: string) =>
  ReturnUrl.meta({
    description: `${description} Must be on the service's own origin, an allowed origin or redirect URL of one of your apps, or a verified custom domain.`,
    example: 'https://shop.example.com/billing',
    'x-expected': 'an https URL of at most 2000 characters',
  })

export const CreateCheckout = z.strictObject({
  plan: z.string().max(50).meta({ description: 'The plan to buy.', example: 'pro' }),
  successUrl: returns('Where the browser goes after the payment.'),
  cancelUrl: returns('Where the browser goes if the customer cancels.'),
})
export type CreateCheckout = z.output<typeof CreateCheckout>

export const Checkout = z
  .object({
    id: z.string().meta({ description: "The payment processor's id.", example: 'cs_test_a1b2c3' }),
    url: z
      .string()
      .meta({ description: 'Send the browser there.', example: 'https://checkout.stripe.com/c/pay/cs_test_a1b2c3' }),
    plan: z.string().meta({ example: 'pro' }),
    expiresAt: Time,
  })
  .meta({ id: 'Checkout', description: 'A page where the customer buys a plan.' })
export type Checkout = z.input<typeof Checkout>

export const CreatePortal = z.strictObject({ returnUrl: returns('Where the browser goes afterwards.') })
export type CreatePortal = z.output<typeof CreatePortal>

export const Portal = z
  .object({
    url: z.string().meta({
      description: 'Send the browser there soon, and show the URL to nobody else: it gives access without a sign-in.',
      example: 'https://billing.stripe.com/p/session/test_a1b2c3',
    }),
  })
  .meta({ id: 'Portal', description: 'A page where the customer sees invoices, and changes or ends the plan.' })
export type Portal = z.input<typeof Portal>

const UsageMeter = z
  .object({
    key: z.enum(['users', 'transactions', 'deliveries', 'apiRequests']),
    used: z
      .int()
      .meta({ description: 'The current number of users. For other meters, the use in the period.', example: 8_000 }),
    limit: z.int().nullable().meta({ description: 'The quota. null means unlimited.', example: 10_000 }),
  })
  .meta({ id: 'UsageMeter', description: 'The use of one quota.' })

export const Usage = z
  .object({
    plan: z.enum(['self_hosted', 'free', 'pro', 'scale']),
    periodStart: Time,
    periodEnd: Time,
    meters: z.array(UsageMeter),
  })
  .meta({ id: 'Usage', description: 'The current plan, and its use in the current period.' })
export type Usage = z.input<typeof Usage>
