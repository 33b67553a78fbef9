import type { DelegatedSession, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { StatusBadge } from '../../components/badge.tsx'
import { Card } from '../../components/card.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { useFilters } from '../../components/filters.tsx'
import { RelativeTime } from '../../components/relative-time.tsx'
import { EmptyState } from '../../components/states.tsx'
import { UserText } from '../../components/user-text.tsx'
import { LIVE } from '../../query-client.ts'

const NUMERIC = ['uses']

const columns: Column<DelegatedSession>[] = [
  {
    id: 'name',
    header: 'Name',
    cell: ({ row }) => (
      <Link
        to="/delegated-sessions/$sessionId"
        params={{ sessionId: row.original.id } as never}
        search={{} as never}
        className="font-medium text-accent hover:underline"
      >
        {row.original.name === null ? (
          <code className="font-mono text-[0.8125rem]">{row.original.id}</code>
        ) : (
          <UserText>{row.original.name}</UserText>
        )}
      </Link>
    ),
  },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  {
    id: 'uses',
    header: 'Uses',
    cell: ({ row: { original } }) =>
      original.maxUses === null ? original.uses : `${original.uses} of ${original.maxUses}`,
  },
  { id: 'used', header: 'Last used', cell: ({ row }) => <RelativeTime at={row.original.lastUsedAt} none="never" /> },
  { id: 'ends', header: 'Ends', cell: ({ row }) => <RelativeTime at={row.original.expiresAt} /> },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

/** Who else may transact from the user's wallet, within which policy. */
export function DelegatedSessionsTab({ user }: { user: User }) {
  const { page } = useFilters()
  const query = useQuery({
    queryKey: ['delegated-sessions', 'of', user.id, page],
    queryFn: async ({ signal }) => await api.delegatedSessions.list({ userId: user.id, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card
      flush
      title="Delegated sessions"
      description="Agents and services that may transact from the user’s wallet, within a policy."
    >
      <DataTable
        label="Delegated sessions"
        query={query}
        columns={columns}
        numeric={NUMERIC}
        empty={
          <EmptyState
            title="No delegated sessions"
            action={
              <Link
                to="/delegated-sessions/new"
                search={{ user_id: user.id } as never}
                className="text-sm font-medium text-accent hover:underline"
              >
                Create one for this user
              </Link>
            }
          >
            One lets an agent or a service transact from the user’s wallet, within a policy and until it ends.
          </EmptyState>
        }
      />
    </Card>
  )
}
