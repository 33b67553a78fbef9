import type { User } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { Tabs } from '../../components/layout/tabs.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { nameOfUser } from '../../components/records/user-link.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { DelegatedSessionsTab } from './delegated-sessions-tab.tsx'
import { DenialsTab } from './denials-tab.tsx'
import { EventsTab } from './events-tab.tsx'
import { OverviewTab } from './overview-tab.tsx'
import { PasskeysTab } from './passkeys-tab.tsx'
import { SessionsTab } from './sessions-tab.tsx'
import { TransactionsTab } from './transactions-tab.tsx'
import { UserActions } from './user-actions.tsx'
import { WalletTab } from './wallet-tab.tsx'

const BACK = { to: '/users', label: 'Users' }

const TABS = [
  { value: 'overview', label: 'Overview', scope: 'users:read', content: OverviewTab },
  { value: 'sessions', label: 'Sessions', scope: 'users:read', content: SessionsTab },
  { value: 'passkeys', label: 'Passkeys', scope: 'users:read', content: PasskeysTab },
  { value: 'wallet', label: 'Wallet', scope: 'wallets:read', content: WalletTab },
  {
    value: 'delegated-sessions',
    label: 'Delegated sessions',
    scope: 'delegated_sessions:read',
    content: DelegatedSessionsTab,
  },
  { value: 'denials', label: 'Refused attempts', scope: 'delegated_sessions:read', content: DenialsTab },
  { value: 'transactions', label: 'Transactions', scope: 'wallets:read', content: TransactionsTab },
  { value: 'events', label: 'Events', scope: 'audit:read', content: EventsTab },
] as const

function UserTabs({ user }: { user: User }) {
  const { session } = useSession()
  const { values, set } = useFilters()
  const tabs = TABS.filter(({ scope }) => allows(session, scope))
  const chosen = tabs.find(({ value }) => value === values.tab) ?? TABS[0]
  return (
    <Tabs
      label="User sections"
      value={chosen.value}
      // A filter applies to one tab only.
      onChange={(tab) => set({ tab: tab === 'overview' ? undefined : tab, events: undefined, sessions: undefined })}
      tabs={tabs.map(({ value, label, content: Content }) => ({
        value,
        label,
        content: value === chosen.value ? <Content user={user} /> : null,
      }))}
    />
  )
}

/** One user: who they are, how they sign in, who can sign for them, and what happened. */
export function UserPage() {
  const { userId = '' } = useParams({ strict: false }) as { userId?: string }
  const query = useQuery({
    queryKey: ['users', 'one', userId],
    queryFn: ({ signal }) => api.users.get(userId, { signal }),
    ...LIVE,
  })
  if (query.data === undefined)
    return (
      <Page title="User" back={BACK}>
        <Card flush>
          {query.isPending ? <Loading /> : <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
        </Card>
      </Page>
    )
  const user = query.data
  return (
    <Page
      title={nameOfUser(user)}
      heading={
        <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <bdi className="line-clamp-3">{nameOfUser(user)}</bdi>
          {user.status === 'active' ? null : <StatusBadge status={user.status} />}
        </span>
      }
      back={BACK}
      actions={<UserActions user={user} />}
    >
      <UserTabs user={user} />
    </Page>
  )
}
