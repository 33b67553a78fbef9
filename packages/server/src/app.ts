import { analyticsFollower, analyticsTallies, createActivitySweep } from './analytics/follower-service.ts'
import { analyticsRoutes } from './analytics/routes.ts'
import { apiKeyRoutes } from './api-keys/routes.ts'
import { API_KEY_ERRORS } from './api-keys/service.ts'
import { appRoutes } from './apps/routes.ts'
import { APP_ERRORS } from './apps/service.ts'
import { auditRoutes } from './audit/routes.ts'
import { followAudit } from './audit/service.ts'
import { deleteOldEvents, reconcileSubscriptions } from './billing/event-service.ts'
import { billingRoutes, processorEventsRoute } from './billing/routes.ts'
import { BILLING_ERRORS } from './billing/service.ts'
import { usageFollower, usageSink } from './billing/usage-service.ts'
import { deleteOldChallenges } from './core/challenges.ts'
import type { Config } from './core/config.ts'
import type { Db } from './core/db.ts'
import type { Deps } from './core/deps.ts'
import { type Follower, followFeed } from './core/feed.ts'
import type { Entrance, PlainRoute, Route } from './core/http.ts'
import { deleteOldJobs } from './core/jobs.ts'
import { openApiDocument } from './core/openapi.ts'
import { deleteOldRevocations } from './core/revocations.ts'
import { drainTallies, type TallySink } from './core/tallies.ts'
import { VERSION } from './core/version.ts'
import { custodyRoutes } from './custody/routes.ts'
import { CUSTODY_ERRORS, deleteOldEncryptionKeys } from './custody/service.ts'
import { CUSTOM_DOMAIN_ERRORS } from './custom-domains/errors.ts'
import { recheckDomains } from './custom-domains/recheck-service.ts'
import { customDomainRoutes, tlsAllowedRoute } from './custom-domains/routes.ts'
import { dashboardRoutes } from './dashboard/routes.ts'
import { deleteOldSessions as deleteOldDashboardSessions, enterDashboard } from './dashboard/service.ts'
import { DASHBOARD_CALLS } from './dashboard/session-service.ts'
import { reconcileTransactions } from './delegated-sessions/reconcile-service.ts'
import { delegatedSessionRoutes } from './delegated-sessions/routes.ts'
import { DELEGATED_SESSION_ERRORS, sweepDelegatedSessions } from './delegated-sessions/service.ts'
import { docsPages } from './docs-site/routes.ts'
import { eventRoutes } from './events/routes.ts'
import { faucetRoutes } from './faucet/routes.ts'
import { sweepGuests } from './guests/expiry-service.ts'
import { guestRoutes } from './guests/routes.ts'
import { GUEST_ERRORS } from './guests/service.ts'
import { healthProbes, healthRoutes } from './health/routes.ts'
import { jobRoutes } from './jobs/routes.ts'
import { keyGenerationRoutes } from './key-generations/routes.ts'
import { KEY_GENERATION_ERRORS, sweepKeyGenerations } from './key-generations/service.ts'
import { KEY_SHARE_ERRORS } from './key-shares/errors.ts'
import { keyShareRoutes } from './key-shares/routes.ts'
import { messengerRoutes } from './messenger/routes.ts'
import { deleteOldPayloads, MESSENGER_ERRORS } from './messenger/service.ts'
import { mfaRoutes } from './mfa/routes.ts'
import { MFA_ERRORS } from './mfa/service.ts'
import { passkeyRoutes, relatedOriginsRoute } from './passkeys/routes.ts'
import { PASSKEY_ERRORS } from './passkeys/service.ts'
import { sweepResharings } from './recovery/reshare-service.ts'
import { recoveryRoutes } from './recovery/routes.ts'
import { RECOVERY_ERRORS } from './recovery/service.ts'
import { jwksRoute, sessionRoutes } from './sessions/routes.ts'
import { deleteOldSessions } from './sessions/service.ts'
import { enterFromPage } from './signin/page-service.ts'
import { signInPageRoutes, signInPages, signInRoutes } from './signin/routes.ts'
import { deleteOldCodes, SIGN_IN_ERRORS } from './signin/service.ts'
import { templateRoutes } from './templates/routes.ts'
import { TEMPLATE_ERRORS } from './templates/service.ts'
import { tenantRoutes } from './tenant/routes.ts'
import { transactionRoutes } from './transactions/routes.ts'
import { blankErased } from './users/erasure-service.ts'
import { userRoutes } from './users/routes.ts'
import { onboardWallets } from './wallets/onboarding-service.ts'
import { walletRoutes } from './wallets/routes.ts'
import { WALLET_ERRORS } from './wallets/service.ts'
import { DELIVERY_ERRORS } from './webhooks/delivery-service.ts'
import { stepRecovery } from './webhooks/recover-service.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { WEBHOOK_ERRORS } from './webhooks/service.ts'

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
