import type { Id } from '../ids.ts'

/** How x402 names a tenant's embedded ledger (CAIP-2): no other tenant's ledger has this name, in whatever installation. */
export const networkOf = (tenantId: Id<'ten'>): string => `halfkey:${tenantId}`
