import { IdParam, list, one, type PlainRoute, type Route, route, secretKey } from '../../platform/http/route.ts'
import { planForDomain } from './plan.ts'
import { relatedOriginsOf } from './related-origins.ts'
import {
  CreateCustomDomain,
  CustomDomain,
  DomainPlan,
  ListCustomDomains,
  RemoveCustomDomain,
  RemovedDomain,
  VerifyCustomDomain,
} from './schema.ts'
import { createCustomDomain, getCustomDomain, listCustomDomains, removeCustomDomain } from './service.ts'
import { tlsAllowed } from './tls.ts'
import { verifyCustomDomain } from './verify.ts'

/** The endpoints of custom domains. */
export const customDomainRoutes: Route[] = [
  route(
    'GET /custom-domains',
    {
      summary: 'List custom domains',
      description: 'Newest first. A key that is bound to an app sees only that app’s domains.',
      callers: secretKey('custom_domains:read'),
      query: ListCustomDomains,
      reply: list(CustomDomain),
      errors: ['not_found'],
      extension: true,
    },
    (deps, { caller, query }) => listCustomDomains(deps, caller, query),
  ),
  route(
    'POST /custom-domains',
    {
      summary: 'Register a custom domain',
      description:
        'Returns the TXT record that proves the domain (`verification`) and the CNAME record that leads users to the service (`target`). For a week, the service checks the TXT record by itself; `POST /custom-domains/verify` checks it immediately. Each registration has a new value. Public suffixes, IP addresses, the service’s own host and invalid host names are refused, with a code that says why.',
      callers: secretKey('custom_domains:write'),
      body: CreateCustomDomain,
      reply: one(CustomDomain),
      status: 201,
      errors: ['not_found', 'already_exists', 'domain_taken', 'domain_limit_reached'],
    },
    (deps, { caller, origin, body }) => createCustomDomain(deps, { caller, origin }, body),
  ),
  route(
    'POST /custom-domains/verify',
    {
      summary: 'Verify a custom domain',
      description:
        'Looks up the TXT record, for at most 5 seconds. The `details` of `dns_record_missing` contain the `expected` and `observed` values. `dns_unavailable` means that the DNS servers did not answer: try again. After the verification, the service checks the record every day. A verified domain stays verified until its record has been missing for 72 hours. Emits `custom_domain.verified` when the status changes.',
      callers: secretKey('custom_domains:write'),
      body: VerifyCustomDomain,
      reply: one(CustomDomain),
      errors: ['not_found', 'dns_record_missing', 'dns_unavailable', 'domain_taken'],
    },
    {
      // The DNS lookup runs outside any transaction. A second lookup does no harm.
      effect: async () => ({}),
      finish: (deps, { caller, origin, body }) => verifyCustomDomain(deps, { caller, origin }, body),
    },
  ),
  route(
    'DELETE /custom-domains',
    {
      summary: 'Remove a custom domain',
      description:
        'Send the domain as `?domain=` or in the body. The domain stops working immediately. Returns the record in its final state and emits `custom_domain.removed`.',
      callers: secretKey('custom_domains:write'),
      query: RemovedDomain,
      body: RemoveCustomDomain,
      reply: one(CustomDomain),
      errors: ['not_found'],
    },
    (deps, { caller, origin, query, body }) => removeCustomDomain(deps, { caller, origin }, query, body),
  ),
  route(
    'GET /custom-domains/:id',
    {
      summary: 'Get a custom domain',
      callers: secretKey('custom_domains:read'),
      params: IdParam,
      reply: one(CustomDomain),
      extension: true,
    },
    (deps, { caller, params }) => getCustomDomain(deps, caller, params.id),
  ),
  route(
    'GET /custom-domains/:id/plan',
    {
      summary: 'Plan the use of passkeys on a custom domain',
      description:
        'Returns how many of the app’s passkeys belong to each relying party, whether they work on the domain, and the steps to take, in order. Changes nothing.',
      callers: secretKey('custom_domains:read'),
      params: IdParam,
      reply: one(DomainPlan),
      extension: true,
    },
    (deps, { caller, params }) => planForDomain(deps, caller, params.id),
  ),
]

/** A TLS proxy calls this before it requests a certificate for a name. */
export const tlsAllowedRoute: PlainRoute = { path: '/tls/allowed', anyHost: true, handler: tlsAllowed }

/** The other origins where passkeys of this host may be used (WebAuthn L3, section 5.11, related origin requests). */
export const relatedOriginsRoute: PlainRoute = { path: '/.well-known/webauthn', handler: relatedOriginsOf }
