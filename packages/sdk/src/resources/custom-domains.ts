import type { Calls, RequestOptions } from '../http.ts'
import type { CustomDomain, DomainPlan } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of custom domains. Every method may also throw what any call does: see `HalfkeyError`. */
export function customDomainsOf({ one, list }: Calls) {
  return {
    /** Lists custom domains, newest first. Scope `custom_domains:read`. @throws not_found (the app) */
    list: (query?: Query<'/custom-domains', 'get'>, options?: RequestOptions): List<CustomDomain> =>
      list('/custom-domains', {}, query, options),

    /**
     * Registers a domain. `verification` is the DNS record that proves ownership, with a new value each time; `target` is
     * the record that points the domain at the service. Scope `custom_domains:write`.
     * @throws not_found (the app), already_exists, domain_taken, domain_limit_reached
     */
    create: (body: Body<'/custom-domains', 'post'>, options?: RequestOptions): Promise<CustomDomain> =>
      one('post', '/custom-domains', { body }, options),

    /** Gets a custom domain. Scope `custom_domains:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<CustomDomain> =>
      one('get', '/custom-domains/{id}', { path: { id } }, options),

    /**
     * How many of the app's passkeys belong to which relying party, whether they work on the domain, and which steps are
     * needed, in order. Scope `custom_domains:read`. @throws not_found
     */
    plan: (id: string, options?: RequestOptions): Promise<DomainPlan> =>
      one('get', '/custom-domains/{id}/plan', { path: { id } }, options),

    /**
     * Looks up a domain's record, which takes up to 5 seconds. The details of `dns_record_missing` have what was `expected`
     * and `observed`; `dns_unavailable` can be retried. Scope `custom_domains:write`.
     * @throws not_found, dns_record_missing, dns_unavailable, domain_taken
     */
    verify: (domain: string, options?: RequestOptions): Promise<CustomDomain> =>
      one('post', '/custom-domains/verify', { body: { domain } }, options),

    /** Removes a domain, which then has no effect. Scope `custom_domains:write`. @throws not_found */
    remove: (domain: string, options?: RequestOptions): Promise<CustomDomain> =>
      one('delete', '/custom-domains', { body: { domain } }, options),
  }
}
