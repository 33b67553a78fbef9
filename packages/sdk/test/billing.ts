import { expect } from 'vitest'
import type { HalfkeyClient } from '../src/client.ts'
import { HalfkeyError } from '../src/errors.ts'

/** Looks at the usage, buys a plan as far as the processor's page, and visits the portal. The tenant has bought nothing yet. */
export async function useBilling(client: HalfkeyClient): Promise<void> {
  const { billing } = client
  const usage = await billing.usage()
  expect(usage.plan).toBe('free')
  expect(usage.meters.map(({ key }) => key)).toEqual(['users', 'transactions', 'deliveries', 'apiRequests'])
  const returnUrl = 'http://localhost:3000/billing'
  const early = await billing.portal({ returnUrl }).catch((error: unknown) => error)
  expect(early).toBeInstanceOf(HalfkeyError)
  expect(early).toMatchObject({ status: 400, code: 'billing_customer_missing' })
  const page = await billing.checkout({ plan: 'pro', successUrl: returnUrl, cancelUrl: returnUrl })
  expect(page).toMatchObject({ plan: 'pro', url: expect.stringContaining(page.id) })
  expect((await billing.portal({ returnUrl })).url).toMatch(/^http/)
}
