import type { ErrorTable } from '../../platform/http/errors.ts'

export const CUSTOM_DOMAIN_ERRORS = {
  dns_record_missing: [400, 'The TXT record that proves this domain was not found.'],
  dns_unavailable: [400, 'The DNS servers of this domain gave no answer. Try again.'],
  domain_taken: [409, 'Another tenant of this service has verified this domain.'],
  domain_limit_reached: [409, 'The tenant has as many custom domains as it may have. Remove one first.'],
} as const satisfies ErrorTable
