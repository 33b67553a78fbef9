import {
  Activity,
  Bot,
  ChartLine,
  CreditCard,
  Globe,
  Hand,
  KeyRound,
  LayoutDashboard,
  ListTree,
  type LucideIcon,
  ScrollText,
  Settings,
  Shapes,
  Ticket,
  UserRound,
  Users,
  UsersRound,
  Wallet,
  Webhook,
} from 'lucide-react'

/** A page in the menu. `words` are further search terms for the palette. */
export interface Place {
  to: string
  label: string
  icon: LucideIcon
  words: string
  /** A page of the same section that has no entry in the menu. */
  also?: string
  /** The scope that a key needs to see it. */
  scope: string
  /** Not for sessions that are bound to an app. */
  tenantWide?: true
}

/** The menu: groups of pages. */
export const NAVIGATION: readonly { label: string | null; places: readonly Place[] }[] = [
  {
    label: null,
    places: [{ to: '/', label: 'Overview', icon: LayoutDashboard, words: 'home start', scope: 'analytics:read' }],
  },
  {
    label: 'People',
    places: [
      {
        to: '/users',
        label: 'Users',
        icon: UserRound,
        words: 'people accounts search passkeys sessions',
        scope: 'users:read',
      },
      { to: '/guests', label: 'Guests', icon: Ticket, words: 'anonymous convert cleanup', scope: 'guests:read' },
    ],
  },
  {
    label: 'Wallets',
    places: [
      { to: '/wallets', label: 'Wallets', icon: Wallet, words: 'custody freeze keys shares', scope: 'wallets:read' },
      { to: '/transactions', label: 'Transactions', icon: Activity, words: 'ledger effects', scope: 'wallets:read' },
      {
        to: '/delegated-sessions',
        also: '/denials',
        label: 'Delegated sessions',
        icon: Bot,
        words: 'policy agents spend dry run refused denied attempts',
        scope: 'delegated_sessions:read',
      },
      {
        to: '/approvals',
        label: 'Approvals',
        icon: Hand,
        words: 'inbox owner passkey ask pending requests',
        scope: 'delegated_sessions:read',
      },
    ],
  },
  {
    label: 'Developers',
    places: [
      {
        to: '/webhooks',
        label: 'Webhooks',
        icon: Webhook,
        words: 'deliveries dead letters retry',
        scope: 'webhooks:read',
      },
      { to: '/events', label: 'Events', icon: ListTree, words: 'feed tail log', scope: 'webhooks:read' },
      {
        to: '/event-types',
        label: 'Event types',
        icon: Shapes,
        words: 'own custom events publish json schema',
        scope: 'event_types:read',
      },
      {
        to: '/subscribers',
        label: 'Subscribers',
        icon: UsersRound,
        words: 'customers portal link endpoints',
        scope: 'subscribers:read',
      },
      {
        to: '/api-keys',
        label: 'API keys',
        icon: KeyRound,
        words: 'secret publishable scopes rotate revoke',
        scope: 'api_keys:read',
      },
      {
        to: '/custom-domains',
        label: 'Custom domains',
        icon: Globe,
        words: 'dns records verify',
        scope: 'custom_domains:read',
      },
    ],
  },
  {
    label: 'Account',
    places: [
      { to: '/analytics', label: 'Analytics', icon: ChartLine, words: 'charts figures daily', scope: 'analytics:read' },
      {
        to: '/billing',
        label: 'Billing and usage',
        icon: CreditCard,
        words: 'plan quota stripe meters',
        scope: 'billing:read',
      },
      {
        to: '/members',
        label: 'Members',
        icon: Users,
        words: 'people team roles invite owner admin',
        scope: 'members:read',
        tenantWide: true,
      },
      {
        to: '/audit-log',
        label: 'Audit log',
        icon: ScrollText,
        words: 'activity history changes',
        scope: 'audit:read',
      },
      {
        to: '/settings',
        label: 'Settings',
        icon: Settings,
        words: 'tenant apps origins redirect mfa',
        scope: 'tenant:read',
      },
    ],
  },
]
