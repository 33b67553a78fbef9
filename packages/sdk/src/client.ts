import { type ClientOptions, createCalls } from './http.ts'
import { analyticsOf } from './resources/analytics.ts'
import { apiKeysOf } from './resources/api-keys.ts'
import { appsOf } from './resources/apps.ts'
import { auditLogOf } from './resources/audit-log.ts'
import { authOf, emailsOf } from './resources/auth.ts'
import { billingOf } from './resources/billing.ts'
import { customDomainsOf } from './resources/custom-domains.ts'
import { approvalsOf, delegatedSessionsOf, denialsOf, policiesOf } from './resources/delegated-sessions.ts'
import { devOf } from './resources/dev.ts'
import { eventsOf, eventTypesOf } from './resources/events.ts'
import { guestsOf } from './resources/guests.ts'
import { healthOf } from './resources/health.ts'
import { mfaOf } from './resources/mfa.ts'
import { mpcOf } from './resources/mpc.ts'
import { templatesOf } from './resources/templates.ts'
import { membersOf, tenantOf } from './resources/tenant.ts'
import { transactionsOf } from './resources/transactions.ts'
import { usersOf } from './resources/users.ts'
import { walletOf, walletsOf } from './resources/wallets.ts'
import { jobsOf, subscribersOf, webhooksOf } from './resources/webhooks.ts'
import { checkedTrust } from './trust/service-pin.ts'
import { x402Of } from './x402/facilitator.ts'

/** The method by which Node's `console.log` and `util.inspect` print an object. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom')

/** The API, a property for each family of endpoints. */
export interface HalfkeyClient {
  readonly apps: ReturnType<typeof appsOf>
  readonly users: ReturnType<typeof usersOf>
  readonly auth: ReturnType<typeof authOf>
  readonly guests: ReturnType<typeof guestsOf>
  readonly mfa: ReturnType<typeof mfaOf>
  /** The current user's wallet. */
  readonly wallet: ReturnType<typeof walletOf>
  readonly wallets: ReturnType<typeof walletsOf>
  /** Shares of the current user's key. */
  readonly mpc: ReturnType<typeof mpcOf>
  readonly delegatedSessions: ReturnType<typeof delegatedSessionsOf>
  readonly denials: ReturnType<typeof denialsOf>
  readonly approvals: ReturnType<typeof approvalsOf>
  readonly policies: ReturnType<typeof policiesOf>
  readonly transactions: ReturnType<typeof transactionsOf>
  readonly templates: ReturnType<typeof templatesOf>
  readonly dev: ReturnType<typeof devOf>
  /** Settles payments for HTTP requests. */
  readonly x402: ReturnType<typeof x402Of>
  readonly apiKeys: ReturnType<typeof apiKeysOf>
  readonly webhooks: ReturnType<typeof webhooksOf>
  /** The feed of all events, and publishing your own. */
  readonly events: ReturnType<typeof eventsOf>
  /** Types of the events that you publish. */
  readonly eventTypes: ReturnType<typeof eventTypesOf>
  /** Your app's customers, and links to the portal where they manage their webhooks. */
  readonly subscribers: ReturnType<typeof subscribersOf>
  readonly customDomains: ReturnType<typeof customDomainsOf>
  readonly billing: ReturnType<typeof billingOf>
  readonly analytics: ReturnType<typeof analyticsOf>
  /** The people who use the tenant's dashboard. */
  readonly members: ReturnType<typeof membersOf>
  readonly tenant: ReturnType<typeof tenantOf>
  readonly auditLog: ReturnType<typeof auditLogOf>
  readonly emails: ReturnType<typeof emailsOf>
  readonly jobs: ReturnType<typeof jobsOf>
  readonly health: ReturnType<typeof healthOf>
}

/**
 * Creates a client of a Halfkey server. It holds no connection, so a client for each user costs nothing.
 *
 * Methods return the unwrapped `data`; `list` methods return a `List`. Failures throw a `HalfkeyError`. Network errors,
 * time-outs, 429, 500, 502, 503, 504 and `idempotency_in_progress` are retried with jittered exponential back-off, or
 * as `Retry-After` says up to a minute, where a repeat cannot have a second effect: GET, DELETE, and POST and PATCH
 * with their `Idempotency-Key`, which the server honours for secret keys, current users and delegated sessions.
 * @throws TypeError for invalid options
 */
export function createClient(options: ClientOptions): HalfkeyClient {
  const calls = createCalls(options)
  const client: HalfkeyClient = {
    apps: appsOf(calls),
    users: usersOf(calls),
    auth: authOf(calls),
    guests: guestsOf(calls),
    mfa: mfaOf(calls),
    wallet: walletOf(calls),
    wallets: walletsOf(calls),
    mpc: mpcOf(calls, checkedTrust(options)),
    delegatedSessions: delegatedSessionsOf(calls),
    denials: denialsOf(calls),
    approvals: approvalsOf(calls),
    policies: policiesOf(calls),
    transactions: transactionsOf(calls),
    templates: templatesOf(calls),
    dev: devOf(calls),
    x402: x402Of(calls),
    apiKeys: apiKeysOf(calls),
    webhooks: webhooksOf(calls),
    events: eventsOf(calls),
    eventTypes: eventTypesOf(calls),
    subscribers: subscribersOf(calls),
    customDomains: customDomainsOf(calls),
    billing: billingOf(calls),
    analytics: analyticsOf(calls),
    members: membersOf(calls),
    tenant: tenantOf(calls),
    auditLog: auditLogOf(calls),
    emails: emailsOf(calls),
    jobs: jobsOf(calls),
    health: healthOf(calls),
  }
  // A log line shows where the client sends its calls, and never its key.
  const shown = { name: 'HalfkeyClient', baseUrl: calls.base }
  return Object.defineProperties(client, { toJSON: { value: () => shown }, [INSPECT]: { value: () => shown } })
}
