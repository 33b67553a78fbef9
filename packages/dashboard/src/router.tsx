import {
  type AnyRoute,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
} from '@tanstack/react-router'
import { Page } from './components/layout/page.tsx'
import { EmptyState, ErrorState, Loading } from './components/layout/states.tsx'
import { Shell } from './shell/shell.tsx'

type Search = Record<string, string | undefined>

const root = createRootRoute({
  component: Shell,
  // Search parameters stay text. Each page validates those that it uses.
  validateSearch: (search: Record<string, unknown>): Search =>
    Object.fromEntries(
      Object.entries(search)
        // A removed parameter must not become the text "undefined".
        .filter(([, value]) => value !== undefined && value !== null)
        .map(([name, value]) => [name, String(value)]),
    ),
  search: { middlewares: [retainSearchParams<Search>(['tenant'])] },
  notFoundComponent: () => (
    <Page title="Page not found">
      <EmptyState title="This page does not exist.">Choose a page from the menu.</EmptyState>
    </Page>
  ),
})

/** A page by its path. Its code is loaded when it is first opened. */
// biome-ignore lint/suspicious/noExplicitAny: pages take no properties; the library's type for that is an any of its own
function page(path: string, load: () => Promise<Record<string, any>>, name: string) {
  return createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, name) })
}

const routes = [
  page('/', () => import('./pages/overview/overview-page.tsx'), 'OverviewPage'),
  page('/users', () => import('./pages/users/users-page.tsx'), 'UsersPage'),
  page('/users/$userId', () => import('./pages/users/user-page.tsx'), 'UserPage'),
  page('/guests', () => import('./pages/guests/guests-page.tsx'), 'GuestsPage'),
  page('/wallets', () => import('./pages/wallets/wallets-page.tsx'), 'WalletsPage'),
  page('/wallets/$walletId', () => import('./pages/wallets/wallet-page.tsx'), 'WalletPage'),
  page('/transactions', () => import('./pages/transactions/transactions-page.tsx'), 'TransactionsPage'),
  page('/transactions/$transactionId', () => import('./pages/transactions/transaction-page.tsx'), 'TransactionPage'),
  page(
    '/delegated-sessions',
    () => import('./pages/delegated-sessions/delegated-sessions-page.tsx'),
    'DelegatedSessionsPage',
  ),
  page(
    '/delegated-sessions/new',
    () => import('./pages/delegated-sessions/new-delegated-session-page.tsx'),
    'NewDelegatedSessionPage',
  ),
  page(
    '/delegated-sessions/$sessionId',
    () => import('./pages/delegated-sessions/delegated-session-page.tsx'),
    'DelegatedSessionPage',
  ),
  page('/approvals', () => import('./pages/approvals/approvals-page.tsx'), 'ApprovalsPage'),
  page('/denials', () => import('./pages/delegated-sessions/denials/denials-page.tsx'), 'DenialsPage'),
  page('/webhooks', () => import('./pages/webhooks/webhooks-page.tsx'), 'WebhooksPage'),
  page('/webhooks/$webhookId', () => import('./pages/webhooks/webhook-page.tsx'), 'WebhookPage'),
  page(
    '/webhooks/$webhookId/deliveries/$deliveryId',
    () => import('./pages/webhooks/deliveries/delivery-page.tsx'),
    'DeliveryPage',
  ),
  page('/events', () => import('./pages/events/events-page.tsx'), 'EventsPage'),
  page('/events/$eventId', () => import('./pages/events/event-page.tsx'), 'EventPage'),
  page('/event-types', () => import('./pages/event-types/event-types-page.tsx'), 'EventTypesPage'),
  page('/subscribers', () => import('./pages/subscribers/subscribers-page.tsx'), 'SubscribersPage'),
  page('/subscribers/$subscriberId', () => import('./pages/subscribers/subscriber-page.tsx'), 'SubscriberPage'),
  page('/api-keys', () => import('./pages/api-keys/api-keys-page.tsx'), 'ApiKeysPage'),
  page('/custom-domains', () => import('./pages/custom-domains/custom-domains-page.tsx'), 'CustomDomainsPage'),
  page('/custom-domains/$domainId', () => import('./pages/custom-domains/custom-domain-page.tsx'), 'CustomDomainPage'),
  page('/analytics', () => import('./pages/analytics/analytics-page.tsx'), 'AnalyticsPage'),
  page('/billing', () => import('./pages/billing/billing-page.tsx'), 'BillingPage'),
  page('/members', () => import('./pages/members/members-page.tsx'), 'MembersPage'),
  page('/account', () => import('./pages/account/account-page.tsx'), 'AccountPage'),
  page('/audit-log', () => import('./pages/audit-log/audit-log-page.tsx'), 'AuditLogPage'),
  page('/settings', () => import('./pages/settings/settings-page.tsx'), 'SettingsPage'),
  page('/settings/apps/$appId', () => import('./pages/settings/app-page.tsx'), 'AppPage'),
  page(
    '/settings/apps/$appId/providers',
    () => import('./pages/settings/providers/providers-page.tsx'),
    'ProvidersPage',
  ),
  page('/settings/apps/$appId/issuers', () => import('./pages/settings/issuers/issuers-page.tsx'), 'IssuersPage'),
]

/** Loads the code of the page in the URL, so that it is there when the session is known. */
export function preloadPage(): void {
  const pages = new Map<string, AnyRoute>(Object.entries(router.routesById))
  for (const { routeId } of router.matchRoutes(router.latestLocation)) {
    const component: { preload?: () => Promise<unknown> | undefined } = pages.get(routeId)?.options.component ?? {}
    // A failure is shown when the page is opened.
    component.preload?.()?.catch(() => undefined)
  }
}

/** The pages by their addresses below `/dashboard`. */
export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/dashboard',
  defaultPreload: 'intent',
  scrollRestoration: true,
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
    const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString()
    return text === '' ? '' : `?${text}`
  },
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})
