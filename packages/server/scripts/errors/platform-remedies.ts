import type { Remedy } from './remedy.ts'

/** Of apps, API keys, webhooks, custom domains and billing. */
export const PLATFORM_REMEDIES = {
  default_app: {
    means: "The tenant's default app is where things go that name no app, so there must be one.",
    causes: ['The app to be deleted is the one in `settings.defaultAppId` of the tenant.'],
    fix: ['`PATCH /v1/tenant {"settings": {"defaultAppId": "app_…"}}`, then delete.'],
    retry: 'never',
  },
  app_not_empty: {
    means: 'The app still has users. Deleting it would erase them, with their wallets.',
    causes: ['Users, guests among them, were never deleted.'],
    fix: [
      'Delete the users first, or all of them together with the app: `DELETE /v1/apps/:id?force=true`. There is no undoing it.',
    ],
    retry: 'never',
  },
  last_admin_key: {
    means: 'Without this key nobody could administer the tenant any more.',
    causes: [
      'It is the last key that is active, tenant-wide, has the scope `*`, never expires and may be used from everywhere.',
    ],
    fix: [
      'Make another such key first, store it, then revoke this one.',
      'To replace it in place: `POST /v1/api-keys/:id/rotate`.',
    ],
    retry: 'never',
  },
  api_key_not_active: {
    means: 'A key that is revoked or expired cannot be given a new value.',
    causes: ['It was revoked by somebody else meanwhile.'],
    fix: ['Make a new key with `POST /v1/api-keys`.'],
    retry: 'never',
  },
  webhook_url_blocked: {
    means: 'Deliveries may not go to this URL: it leads, or could lead, into a private network.',
    causes: [
      '`http:` instead of `https:`, or a private, loopback, link-local or cloud-metadata address, by name or in any notation.',
      'The name resolves to such an address, or to none.',
      'The URL has a user name, a fragment or a port that is not allowed.',
    ],
    fix: [
      'Use a public https address. In development loopback is open: `http://127.0.0.1:3000/hook`.',
      'For a receiver within your network the operator names it in `HALFKEY_EGRESS_ALLOW`.',
    ],
    retry: 'never',
    detail: { field: 'url', code: 'webhook_url_blocked', message: 'Deliveries may not be sent to this URL.' },
  },
  webhook_disabled: {
    means: 'The webhook is disabled, so nothing is sent to it.',
    causes: ['Everything failed for five days: `disabledReason` says since when.'],
    fix: [
      'Mend the endpoint, set `status` to `active` (`PATCH /v1/webhooks/:id`), and `recover` what came meanwhile: [webhooks](../webhooks.md#when-it-fails).',
    ],
    retry: 'never',
  },
  webhook_limit_reached: {
    means: 'The tenant has as many webhooks as it may.',
    causes: [
      'A deployment or a test makes one each time and deletes none.',
      'The operator set `HALFKEY_WEBHOOKS_PER_TENANT` low.',
    ],
    fix: [
      'Delete those that are not used.',
      'One endpoint can take every kind of event: subscribe to `*` instead of making many.',
    ],
    retry: 'never',
    detail: {
      code: 'webhook_limit_reached',
      message: 'The tenant has 20000 webhooks, which is as many as it may have.',
      limit: 20000,
    },
  },
  delivery_not_retryable: {
    means: 'This delivery cannot be sent again, neither by hand nor by a recovery.',
    causes: ['It was a test.', 'Its event is older than the retention (30 days), or it has had 100 attempts.'],
    fix: [
      'For tests send another one: `POST /v1/webhooks/:id/test`.',
      'What an old event told is in the record it was about: read that.',
    ],
    retry: 'never',
  },
  dns_record_missing: {
    means: 'DNS answered, and the TXT record is not there, or has another value.',
    causes: [
      'The record was set a moment ago and has not spread.',
      'The provider added the domain to the name once more (`_halfkey.login.example.com.example.com`).',
      'The domain was removed and registered anew: then the value is a new one.',
    ],
    fix: [
      '`details` says what was expected and what was observed. `dig TXT _halfkey.<domain>` shows what the world sees.',
      'Wait for the time to live of the old answer and ask again.',
    ],
    retry: 'later',
    detail: {
      field: 'domain',
      code: 'dns_record_missing',
      message: 'The TXT record was not found.',
      name: '_halfkey.login.example.com',
      expected: 'halfkey-verification=2f0d…',
      observed: [],
    },
  },
  dns_unavailable: {
    means:
      'The name servers gave no answer, so nothing is known about the record. That counts as neither present nor missing.',
    causes: [
      "The domain's servers fail or are slow (SERVFAIL, time-out).",
      'DNSSEC of the domain is broken.',
      "The service's own resolver is away (`HALFKEY_DNS_SERVERS`).",
    ],
    fix: ['Try again in a minute.', 'If it stays: `dig +trace TXT _halfkey.<domain>` shows where it ends.'],
    retry: 'later',
    detail: {
      field: 'domain',
      code: 'dns_unavailable',
      message: 'The DNS servers of this domain gave no answer.',
      retryable: true,
    },
  },
  domain_taken: {
    means: 'Another tenant of this service has verified the domain.',
    causes: ['A company has two tenants and registered it in the other.', 'It is not your domain.'],
    fix: [
      'Remove it there first. If you own the domain and do not know who has it: take the TXT record away, and it falls free within days.',
    ],
    retry: 'never',
    detail: {
      field: 'domain',
      code: 'domain_taken',
      message: 'Another tenant of this service has verified this domain.',
    },
  },
  domain_limit_reached: {
    means: 'The tenant has 1 000 custom domains, which is as many as it may.',
    causes: ['Domains of former customers were never removed.'],
    fix: [
      'Remove those that are `failed`: `GET /v1/custom-domains?status=failed`, `DELETE /v1/custom-domains?domain=…`.',
    ],
    retry: 'never',
    detail: {
      code: 'domain_limit_reached',
      message: 'The tenant has as many custom domains as it may have. Remove one first.',
      limit: 1000,
    },
  },
  billing_not_configured: {
    means: 'This service takes no payments. Nothing is limited then.',
    causes: ["`HALFKEY_STRIPE_SECRET_KEY` is not set: the normal state of a service of one's own."],
    fix: ['Hide checkout where `GET /v1/billing/usage` shows no limits, or set it up: [billing](../billing.md).'],
    retry: 'never',
  },
  billing_customer_missing: {
    means: 'There is nothing to manage: the tenant has never bought a plan.',
    causes: ['The portal was opened before the first checkout.'],
    fix: ['Begin with `POST /v1/billing/checkout`.'],
    retry: 'never',
  },
  subscription_active: {
    means: 'The tenant pays for a plan already; a second checkout would make it pay twice.',
    causes: ['A change of plan was sent to checkout.'],
    fix: ['Change or end the plan at the page that `POST /v1/billing/portal` answers.'],
    retry: 'never',
  },
  processor_signature_invalid: {
    where: 'At `POST /processor-events/stripe`, which the payment processor calls.',
    means:
      'An event at `/processor-events/stripe` is not signed by the configured secret, or is too old. It was ignored.',
    causes: [
      '`HALFKEY_STRIPE_WEBHOOK_SECRET` is that of another endpoint, or of test mode.',
      'A proxy changes the body.',
      "The machine's clock is more than five minutes off.",
    ],
    fix: [
      "Copy the signing secret of exactly this endpoint from Stripe's dashboard and restart.",
      'Then send the failed events again from there.',
    ],
    retry: 'never',
  },
  processor_unavailable: {
    means: 'The payment processor could not be reached or refused. Nobody was charged by this call.',
    causes: [
      'A disturbance at the processor, or on the way to it.',
      'The secret key was revoked, or a price of `HALFKEY_STRIPE_PRICES` is gone: then `retryable` is false.',
    ],
    fix: [
      'Where `details[0].retryable` is true, repeat it with the same `Idempotency-Key`.',
      "Otherwise the service's log and `halfkey doctor` say what the processor refused.",
    ],
    retry: 'safely',
    detail: { code: 'processor_unavailable', message: 'The payment processor did not answer.', retryable: true },
  },
  quota_exceeded: {
    means:
      "A quota of the tenant's plan is used up: of users, or of this month's transactions. Reading, signing in and everything that is there go on.",
    causes: ['The app has grown past the plan.', 'A load test made many users.'],
    fix: [
      '`GET /v1/billing/usage` shows each meter. A larger plan counts at once; for transactions `Retry-After` says when the next period begins.',
      'The event `usage.threshold_reached` warns at 80 percent: subscribe to it.',
    ],
    retry: 'never',
    detail: {
      code: 'quota_exceeded',
      message: 'The plan has 10000 users.',
      meter: 'users',
      used: 10000,
      limit: 10000,
      plan: 'free',
    },
  },
} as const satisfies Record<string, Remedy>
