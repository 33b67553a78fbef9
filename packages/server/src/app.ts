import { reconcileTransactions } from './delegation/remote/reconcile.ts'
import { delegatedSessionRoutes } from './delegation/routes.ts'
import { DELEGATED_SESSION_ERRORS, sweepDelegatedSessions } from './delegation/service.ts'
import { eventRoutes } from './delivery/events/routes.ts'
import { jobRoutes } from './delivery/jobs/routes.ts'
import { DELIVERY_ERRORS } from './delivery/webhooks/deliveries.ts'
import { stepRecovery } from './delivery/webhooks/recover.ts'
import { webhookRoutes } from './delivery/webhooks/routes.ts'
import { WEBHOOK_ERRORS } from './delivery/webhooks/service.ts'
import { sweepGuests } from './identity/guests/expiry.ts'
import { guestRoutes } from './identity/guests/routes.ts'
import { GUEST_ERRORS } from './identity/guests/service.ts'
import { messengerRoutes } from './identity/messenger/routes.ts'
import { deleteOldPayloads, MESSENGER_ERRORS } from './identity/messenger/service.ts'
import { mfaRoutes } from './identity/mfa/routes.ts'
import { MFA_ERRORS } from './identity/mfa/service.ts'
import { passkeyRoutes } from './identity/passkeys/routes.ts'
import { PASSKEY_ERRORS } from './identity/passkeys/service.ts'
import { jwksRoute, sessionRoutes } from './identity/sessions/routes.ts'
import { deleteOldSessions } from './identity/sessions/service.ts'
import { signInPageRoutes, signInPages, signInRoutes } from './identity/sign-in/routes.ts'
import { enterFromPage } from './identity/sign-in/serve-page.ts'
import { deleteOldCodes, SIGN_IN_ERRORS } from './identity/sign-in/service.ts'
import { blankErased } from './identity/users/erasure.ts'
import { userRoutes } from './identity/users/routes.ts'
import { analyticsFollower, analyticsTallies, createActivitySweep } from './insight/analytics/follow.ts'
import { analyticsRoutes } from './insight/analytics/routes.ts'
import { auditRoutes } from './insight/audit/routes.ts'
import { followAudit } from './insight/audit/service.ts'
import { keyGenerationRoutes } from './keys/key-generations/routes.ts'
import { KEY_GENERATION_ERRORS, sweepKeyGenerations } from './keys/key-generations/service.ts'
import { KEY_SHARE_ERRORS } from './keys/key-shares/errors.ts'
import { keyShareRoutes } from './keys/key-shares/routes.ts'
import { sweepResharings } from './keys/recovery/reshare.ts'
import { recoveryRoutes } from './keys/recovery/routes.ts'
import { RECOVERY_ERRORS } from './keys/recovery/service.ts'
import { dashboardRoutes } from './operations/dashboard/routes.ts'
import { deleteOldSessions as deleteOldDashboardSessions, enterDashboard } from './operations/dashboard/service.ts'
import { DASHBOARD_CALLS } from './operations/dashboard/session.ts'
import { docsPages } from './operations/docs-site/routes.ts'
import { healthProbes, healthRoutes } from './operations/health/routes.ts'
import type { Config } from './platform/config.ts'
import type { Db } from './platform/db/db.ts'
import type { Deps } from './platform/deps.ts'
import { drainTallies, type TallySink } from './platform/events/counters.ts'
import { type Follower, followFeed } from './platform/events/feed.ts'
import { deleteOldJobs } from './platform/events/jobs.ts'
import type { Hooks } from './platform/hooks.ts'
import { openApiDocument } from './platform/http/openapi.ts'
import type { Entrance, PlainRoute, Route } from './platform/http/route.ts'
import { deleteOldChallenges } from './platform/security/challenges.ts'
import { deleteOldRevocations } from './platform/security/revocations.ts'
import { VERSION } from './platform/version.ts'
import { apiKeyRoutes } from './tenancy/api-keys/routes.ts'
import { API_KEY_ERRORS } from './tenancy/api-keys/service.ts'
import { appRoutes } from './tenancy/apps/routes.ts'
import { APP_ERRORS } from './tenancy/apps/service.ts'
import { deleteOldEvents, reconcileSubscriptions } from './tenancy/billing/processor-events.ts'
import { billingRoutes, processorEventsRoute } from './tenancy/billing/routes.ts'
import { BILLING_ERRORS } from './tenancy/billing/service.ts'
import { usageFollower, usageSink } from './tenancy/billing/usage.ts'
import { CUSTOM_DOMAIN_ERRORS } from './tenancy/custom-domains/errors.ts'
import { recheckDomains } from './tenancy/custom-domains/recheck.ts'
import { customDomainRoutes, relatedOriginsRoute, tlsAllowedRoute } from './tenancy/custom-domains/routes.ts'
import { tenantRoutes } from './tenancy/tenant/routes.ts'
import { custodyRoutes } from './wallets/custody/routes.ts'
import { CUSTODY_ERRORS, deleteOldEncryptionKeys, removeWrapsOf } from './wallets/custody/service.ts'
import { faucetRoutes } from './wallets/faucet/routes.ts'
import { templateRoutes } from './wallets/templates/routes.ts'
import { TEMPLATE_ERRORS } from './wallets/templates/service.ts'
import { transactionRoutes } from './wallets/transactions/routes.ts'
import { onboardWallets } from './wallets/wallets/onboarding.ts'
import { walletRoutes } from './wallets/wallets/routes.ts'
import { freezeWalletOf, WALLET_ERRORS } from './wallets/wallets/service.ts'

/** Every endpoint under `/v1`. */
export const routes: readonly Route[] = [
  ...appRoutes,
  ...userRoutes,
  ...walletRoutes,
  ...custodyRoutes,
  ...recoveryRoutes,
  ...keyGenerationRoutes,
  ...keyShareRoutes,
  ...sessionRoutes,
  ...signInRoutes,
  ...passkeyRoutes,
  ...messengerRoutes,
  ...guestRoutes,
  ...mfaRoutes,
  ...delegatedSessionRoutes,
  ...transactionRoutes,
  ...templateRoutes,
  ...faucetRoutes,
  ...apiKeyRoutes,
  ...webhookRoutes,
  ...eventRoutes,
  ...customDomainRoutes,
  ...billingRoutes,
  ...jobRoutes,
  ...tenantRoutes,
  ...auditRoutes,
  ...analyticsRoutes,
  ...healthRoutes,
]

/** The endpoints that a configuration serves: those for development are not there in production. */
export function routesOf(config: Config): readonly Route[] {
  return config.env === 'development' ? routes : routes.filter((route) => !route.path.startsWith('/dev/'))
}

/** Every error beyond the common ones, by its code. */
export const errors = {
  ...APP_ERRORS,
  ...SIGN_IN_ERRORS,
  ...PASSKEY_ERRORS,
  ...MESSENGER_ERRORS,
  ...GUEST_ERRORS,
  ...WALLET_ERRORS,
  ...CUSTODY_ERRORS,
  ...RECOVERY_ERRORS,
  ...KEY_SHARE_ERRORS,
  ...KEY_GENERATION_ERRORS,
  ...MFA_ERRORS,
  ...DELEGATED_SESSION_ERRORS,
  ...TEMPLATE_ERRORS,
  ...API_KEY_ERRORS,
  ...WEBHOOK_ERRORS,
  ...CUSTOM_DOMAIN_ERRORS,
  ...DELIVERY_ERRORS,
  ...BILLING_ERRORS,
}

/** The API's description, as served and as committed. */
export function describeApi(): object {
  return openApiDocument(routes, errors, VERSION)
}

const description = JSON.stringify(describeApi())

/** Keyless endpoints outside `/v1` of a process that answers requests. */
export const plainRoutes: readonly PlainRoute[] = [
  ...healthProbes,
  jwksRoute,
  relatedOriginsRoute,
  tlsAllowedRoute,
  processorEventsRoute,
  ...signInPages,
  ...dashboardRoutes,
  ...docsPages,
  {
    path: '/openapi.json',
    handler: async () => ({ status: 200, contentType: 'application/json; charset=utf-8', body: description }),
  },
]

/** What the hosted sign-in page needs of the API. */
const SIGN_IN_PAGE_CALLS =
  /^(\w+ \/auth\/(passkey|passkeys|messenger|sessions|refresh|logout)(\/.*)?|\w+ \/mfa(\/.*)?|POST \/guests(\/:id\/convert)?)$/

/** Ways in for pages of our own. */
export function entrancesOf(config: Config): readonly Entrance[] {
  return [
    {
      base: '/signin/api',
      routes: [
        ...signInPageRoutes,
        ...routes.filter((route) => SIGN_IN_PAGE_CALLS.test(`${route.method} ${route.path}`)),
      ],
      limit: 'publishable',
      enter: enterFromPage,
    },
    { ...DASHBOARD_CALLS, routes: routesOf(config), enter: enterDashboard },
  ]
}

/** What higher slices do in the transactions of lower ones. */
export const hooks: Hooks = { guestEnded: freezeWalletOf, passkeyRemoved: removeWrapsOf }

type Chore = (db: Db) => Promise<boolean>

const HOUR_MS = 3_600_000

/** The chore until it has nothing left, and then not for an hour. */
function hourly(chore: Chore): Chore {
  let doneAt = Number.NEGATIVE_INFINITY
  return async (db) => {
    if (performance.now() - doneAt < HOUR_MS) return false
    const more = await chore(db)
    if (!more) doneAt = performance.now()
    return more
  }
}

/** A chore that waits for a network: it runs by itself, so that the others, and lost leases, do not wait with it. */
function byItself(deps: Deps, chore: Chore): Chore {
  let running = false
  const run = async (db: Db) => {
    running = true
    try {
      while (await chore(db));
    } catch (error) {
      deps.log.error({ err: error }, 'a chore failed')
    } finally {
      running = false
    }
  }
  return async (db) => {
    if (!running) void run(db)
    return false
  }
}

/** What is derived from events. */
function followers(deps: Deps): Follower[] {
  return [analyticsFollower, usageFollower(deps)]
}

/** All that follow the feed, by name: retention waits for each of them. */
export function followerNames(deps: Deps): string[] {
  return [...followers(deps).map(({ name }) => name), 'audit']
}

/** What the counts of deliveries and requests are added to. */
function tallySinks(deps: Deps): TallySink[] {
  return [analyticsTallies, usageSink(deps)]
}

/** By the requests' pool: the engine's has no connections to spare for them. */
function derivations(deps: Deps): Chore[] {
  const sinks = tallySinks(deps)
  return [
    ...followers(deps).map((follower) => byItself(deps, () => followFeed(deps.db, follower))),
    byItself(deps, () => drainTallies(deps.db, sinks)),
  ]
}

/** Periodic work of a worker beside deliveries; each answers whether there is more to do at once. */
export function chores(deps: Deps): Chore[] {
  return [
    (db) => stepRecovery(db, deps.log),
    (db) => sweepGuests({ ...deps, db }),
    (db) => sweepDelegatedSessions({ ...deps, db }),
    (db) => sweepResharings({ ...deps, db }),
    (db) => sweepKeyGenerations({ ...deps, db }),
    blankErased,
    byItself(deps, (db) => reconcileTransactions({ ...deps, db })),
    byItself(deps, (db) => onboardWallets({ ...deps, db })),
    byItself(deps, (db) => recheckDomains({ ...deps, db })),
    ...derivations(deps),
    byItself(deps, (db) => followAudit(db, deps)),
    hourly(deleteOldJobs),
    hourly((db) => deleteOldEvents(db, deps.now())),
    byItself(
      deps,
      hourly((db) => reconcileSubscriptions({ ...deps, db })),
    ),
    hourly(deleteOldSessions),
    hourly(deleteOldRevocations),
    hourly(deleteOldChallenges),
    hourly(deleteOldEncryptionKeys),
    hourly(deleteOldCodes),
    hourly(deleteOldPayloads),
    hourly((db) => deleteOldDashboardSessions({ db, now: deps.now })),
    hourly(createActivitySweep(deps.now)),
  ]
}
