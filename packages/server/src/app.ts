import { connectPageRoutes } from './delegation/connect/connect-routes.ts'
import { AGENT_CALLS, AGENT_OPERATIONS, enterAsDelegate } from './delegation/service.ts'
import { delegationSlice } from './delegation/slice.ts'
import { eventTypeSlice } from './delivery/event-types/slice.ts'
import { eventSlice } from './delivery/events/slice.ts'
import { jobSlice } from './delivery/jobs/slice.ts'
import { portalRoutes } from './delivery/portal/routes.ts'
import { enterPortal, PORTAL_CALLS } from './delivery/portal/service.ts'
import { portalSlice } from './delivery/portal/slice.ts'
import { subscriberSlice } from './delivery/subscribers/slice.ts'
import { portalWebhookRoutes } from './delivery/webhooks/portal-routes.ts'
import { webhookSlice } from './delivery/webhooks/slice.ts'
import { emailRecoverySlice } from './identity/email-recovery/slice.ts'
import { emailSignInSlice } from './identity/email-sign-in/slice.ts'
import { emailSlice } from './identity/emails/slice.ts'
import { externalWalletSlice } from './identity/external-wallets/slice.ts'
import { guestSlice } from './identity/guests/slice.ts'
import { idTokenSlice } from './identity/id-tokens/slice.ts'
import { identitySlice } from './identity/identities/slice.ts'
import { messengerSlice } from './identity/messenger/slice.ts'
import { mfaSlice } from './identity/mfa/slice.ts'
import { passkeySlice } from './identity/passkeys/slice.ts'
import { providerSlice } from './identity/providers/slice.ts'
import { sessionSlice } from './identity/sessions/slice.ts'
import { signInPageRoutes } from './identity/sign-in/routes.ts'
import { enterFromPage } from './identity/sign-in/serve-page.ts'
import { signInSlice } from './identity/sign-in/slice.ts'
import { userSlice } from './identity/users/slice.ts'
import { analyticsSlice } from './insight/analytics/slice.ts'
import { auditSlice } from './insight/audit/slice.ts'
import { keyGenerationSlice } from './keys/key-generations/slice.ts'
import { keyShareSlice } from './keys/key-shares/slice.ts'
import { recoverySlice } from './keys/recovery/slice.ts'
import { DASHBOARD_CALLS } from './operations/dashboard/json-calls.ts'
import { enterDashboard } from './operations/dashboard/service.ts'
import { dashboardSlice } from './operations/dashboard/slice.ts'
import { docsSlice } from './operations/docs-site/slice.ts'
import { healthSlice } from './operations/health/slice.ts'
import { mcpSlice } from './operations/mcp-endpoint/slice.ts'
import { memberSlice } from './operations/members/slice.ts'
import { restoreSlice } from './operations/restore/slice.ts'
import type { Config } from './platform/config.ts'
import type { Deps } from './platform/deps.ts'
import { drainCounters } from './platform/events/counters.ts'
import type { Hooks } from './platform/hooks.ts'
import type { ErrorTable } from './platform/http/errors.ts'
import { openApiDocument } from './platform/http/openapi.ts'
import { createCompressed } from './platform/http/pages/compressed.ts'
import type { Entrance, PlainRoute, Route } from './platform/http/route.ts'
import { detached, type MaintenanceTask } from './platform/maintenance.ts'
import type { RecordKind } from './platform/security/records/kind.ts'
import type { Slice } from './platform/slice.ts'
import { VERSION } from './platform/version.ts'
import { apiKeySlice } from './tenancy/api-keys/slice.ts'
import { appSlice } from './tenancy/apps/slice.ts'
import { billingSlice } from './tenancy/billing/slice.ts'
import { customDomainSlice } from './tenancy/custom-domains/slice.ts'
import { tenantSlice } from './tenancy/tenant/slice.ts'
import { custodySlice } from './wallets/custody/slice.ts'
import { faucetSlice } from './wallets/faucet/slice.ts'
import { ledgerSlice } from './wallets/ledger/slice.ts'
import { onboardingSlice } from './wallets/onboarding/slice.ts'
import { templateSlice } from './wallets/templates/slice.ts'
import { tokenSlice } from './wallets/tokens/slice.ts'
import { transactionSlice } from './wallets/transactions/slice.ts'
import { walletSlice } from './wallets/wallets/slice.ts'
import { x402Slice } from './wallets/x402/slice.ts'

/** All slices, in the order in which the API's description lists their endpoints. */
const slices: readonly Slice[] = [
  appSlice,
  userSlice,
  walletSlice,
  onboardingSlice,
  tokenSlice,
  custodySlice,
  recoverySlice,
  keyGenerationSlice,
  keyShareSlice,
  sessionSlice,
  signInSlice,
  idTokenSlice,
  passkeySlice,
  messengerSlice,
  identitySlice,
  providerSlice,
  externalWalletSlice,
  emailSignInSlice,
  emailRecoverySlice,
  emailSlice,
  guestSlice,
  mfaSlice,
  delegationSlice,
  transactionSlice,
  templateSlice,
  x402Slice,
  faucetSlice,
  ledgerSlice,
  apiKeySlice,
  webhookSlice,
  eventSlice,
  eventTypeSlice,
  subscriberSlice,
  portalSlice,
  customDomainSlice,
  billingSlice,
  jobSlice,
  tenantSlice,
  memberSlice,
  auditSlice,
  analyticsSlice,
  healthSlice,
  dashboardSlice,
  docsSlice,
  mcpSlice,
  restoreSlice,
]

/** Every endpoint under `/v1`. */
export const routes: readonly Route[] = slices.flatMap((slice) => slice.routes ?? [])

/** The endpoints that a configuration serves: those for development are not there in production. */
export function routesOf(config: Config): readonly Route[] {
  return config.env === 'development' ? routes : routes.filter((route) => !route.path.startsWith('/dev/'))
}

/** Every error beyond the common ones, by its code. */
export const errors: ErrorTable = Object.assign({}, ...slices.map((slice) => slice.errors))

const appDeletions = slices.flatMap((slice) => slice.hooks?.appDeleted ?? [])

/** The kinds of records with MACs, of all tables. */
export const recordKinds: readonly RecordKind[] = slices.flatMap((slice) => slice.records ?? [])

/** What higher slices do in the transactions of lower ones: one slice answers each, and several the deletion of an app. */
export const hooks: Hooks = {
  ...Object.assign({}, ...slices.map((slice) => slice.hooks)),
  appDeleted: async (tx, deps, of) => {
    for (const deletion of appDeletions) await deletion(tx, deps, of)
  },
}

/** The API's description, as served and as committed. */
export function describeApi(): object {
  return openApiDocument(routes, errors, VERSION)
}

let description: ReturnType<typeof createCompressed> | undefined

/** Keyless endpoints outside `/v1` of a process that answers requests. */
export const plainRoutes: readonly PlainRoute[] = [
  ...slices.flatMap((slice) => slice.plainRoutes ?? []),
  {
    path: '/openapi.json',
    believesNothing: true,
    handler: async (_deps, { headers }) => {
      description ??= createCompressed(JSON.stringify(describeApi()), 'no-cache')
      return { contentType: 'application/json; charset=utf-8', ...(await description(headers)) }
    },
  },
]

/** What the hosted pages need of the API. */
const SIGN_IN_PAGE_CALLS =
  /^(\w+ \/auth\/(passkey|passkeys|messenger|email|providers|wallet|exchange|identities|sessions|refresh|logout)(\/.*)?|\w+ \/mfa(\/.*)?|POST \/guests(\/:id\/convert)?|GET \/approvals\/:id|POST \/approvals\/:id\/(approve|deny))$/

/** What its page of the user's wallet needs besides. */
const WALLET_PAGE_CALLS = new Set([
  'GET /users/me/wallet',
  'GET /wallets/:id/onboarding',
  'POST /wallets/:id/onboarding',
  'GET /mpc/config',
  'POST /mpc/dkg',
  'POST /mpc/dkg/:id/round2',
  'POST /mpc/dkg/:id/confirm',
  'POST /mpc/challenge',
  'POST /mpc/recover',
  'GET /mpc/shares/:walletId',
  'POST /mpc/shares',
  'POST /delegated-sessions',
  'DELETE /delegated-sessions/:id',
  'POST /delegated-sessions/:id/execute',
])

const isForHostedPage = ({ method, path }: Route) =>
  SIGN_IN_PAGE_CALLS.test(`${method} ${path}`) || WALLET_PAGE_CALLS.has(`${method} ${path}`)

/** Ways in for pages of our own, and for agents. */
export function entrancesOf(config: Config): readonly Entrance[] {
  return [
    {
      base: '/signin/api',
      routes: [...signInPageRoutes, ...connectPageRoutes, ...routes.filter(isForHostedPage)],
      limit: 'publishable',
      enter: enterFromPage,
    },
    { ...DASHBOARD_CALLS, routes: routesOf(config), enter: enterDashboard },
    { ...PORTAL_CALLS, routes: [...portalRoutes, ...portalWebhookRoutes], enter: enterPortal },
    {
      ...AGENT_CALLS,
      routes: routes.filter((route) => AGENT_OPERATIONS.includes(`${route.method} ${route.path}`)),
      enter: enterAsDelegate,
    },
  ]
}

const followersOf = (deps: Deps) => slices.flatMap((slice) => slice.followers?.(deps) ?? [])

/** All that follow the feed, by name: retention waits for each of them. */
export function followerNames(deps: Deps): string[] {
  return followersOf(deps).map(({ name }) => name)
}

/** Periodic work of a worker beside deliveries. */
export function maintenanceTasks(deps: Deps): MaintenanceTask[] {
  const sinks = slices.flatMap((slice) => slice.counterSinks?.(deps) ?? [])
  return [
    ...slices.flatMap((slice) => slice.tasks?.(deps) ?? []),
    ...followersOf(deps).map(({ follow }) => detached(deps, follow)),
    // By the requests' pool: the engine's has no connections to spare.
    detached(deps, () => drainCounters(deps.db, sinks)),
  ]
}
