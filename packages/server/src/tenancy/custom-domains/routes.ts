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
      description: 'Newest first. A key that is bound to an app sees that app’s domains only.',
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
        'Answers the TXT record that proves the domain (`verification`) and the CNAME record that brings users here (`target`). The service looks for the TXT record by itself for a week; `POST /custom-domains/verify` looks at once. The value is new at each registration. Refused with a code that says why: public suffixes, IP addresses, the service’s own host, and what is no host name.',
      callers: secretKey('custom_domains:write'),
      body: CreateCustomDomain,
      reply: one(CustomDomain),
      status: 201,
      errors: ['not_found', 'already_exists', 'domain_taken', 'domain_limit_reached'],
    },
    (deps, { caller, body }) => createCustomDomain(deps, caller, body),
  ),
  route(
    'POST /custom-domains/verify',
    {
      summary: 'Verify a custom domain',
      description:
        'Looks at the TXT record, for at most 5 seconds. `dns_record_missing` says in `details` what was `expected` and `observed`; `dns_unavailable` means that the DNS servers did not answer, and can be tried again. From then on the record is looked at every day. A verified domain stays verified until its record has been missing for 72 hours. Emits `custom_domain.verified` when the status changes.',
      callers: secretKey('custom_domains:write'),
      body: VerifyCustomDomain,
      reply: one(CustomDomain),
      errors: ['not_found', 'dns_record_missing', 'dns_unavailable', 'domain_taken'],
    },
    {
      // DNS is asked outside any transaction. A second lookup does no harm.
      effect: async () => ({}),
      finish: (deps, { caller, origin, body }) => verifyCustomDomain(deps, { caller, origin }, body),
    },
  ),
  route(
    'DELETE /custom-domains',
    {
      summary: 'Remove a custom domain',
      description:
        'Named by `?domain=` or in the body. Counts for nothing from then on. Answers the record’s final state and emits `custom_domain.removed`.',
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
        'How many of the app’s passkeys belong to which relying party, whether they work on the domain, and what is to be done, in order. Changes nothing.',
      callers: secretKey('custom_domains:read'),
      params: IdParam,
      reply: one(DomainPlan),
      extension: true,
    },
    (deps, { caller, params }) => planForDomain(deps, caller, params.id),
  ),
]

/** A TLS proxy asks here before it requests a certificate for a name. */
export const tlsAllowedRoute: PlainRoute = { path: '/tls/allowed', anyHost: true, handler: tlsAllowed }

/** Where else passkeys of this host may be used (WebAuthn L3, section 5.11, related origin requests). */
export const relatedOriginsRoute: PlainRoute = { path: '/.well-known/webauthn', handler: relatedOriginsOf }
