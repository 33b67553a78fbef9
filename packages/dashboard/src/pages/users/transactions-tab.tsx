import type { TransactionSummary, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { StatusBadge } from '../../components/badge.tsx'
import { Card } from '../../components/card.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { useFilters } from '../../components/filters.tsx'
import { RecordLink } from '../../components/record-link.tsx'
import { RelativeTime } from '../../components/relative-time.tsx'
import { EmptyState } from '../../components/states.tsx'
import { UserText } from '../../components/user-text.tsx'
import { LIVE } from '../../query-client.ts'

const SHOWN_MAX = 3

function operationsOf({ operations }: TransactionSummary): string {
  const words = operations
    .slice(0, SHOWN_MAX)
    .map(({ type, templateId, choice }) => (type === 'create' ? `Create ${templateId}` : `${choice} on ${templateId}`))
  const more = operations.length - words.length
  return more > 0 ? `${words.join(', ')} and ${more} more` : words.join(', ') || '–'
}

const columns: Column<TransactionSummary>[] = [
  {
    id: 'command',
    header: 'Command',
    cell: ({ row }) => (
      <Link
        to="/transactions/$transactionId"
        params={{ transactionId: row.original.id } as never}
        search={{} as never}
        className="font-medium text-accent hover:underline"
      >
        <UserText>{row.original.commandId}</UserText>
      </Link>
    ),
  },
  { id: 'what', header: 'What', cell: ({ row }) => <UserText>{operationsOf(row.original)}</UserText> },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  {
    id: 'by',
    header: 'By',
    cell: ({ row }) => <RecordLink id={row.original.delegatedSessionId} label="Delegated session" />,
  },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

/** What delegated sessions executed from the user's wallet. */
export function TransactionsTab({ user }: { user: User }) {
  const { page } = useFilters()
  const query = useQuery({
    queryKey: ['transactions', 'of', user.id, page],
    queryFn: async ({ signal }) => await api.transactions.list({ userId: user.id, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush title="Transactions">
      <DataTable
        label="Transactions"
        query={query}
        columns={columns}
        empty={
          <EmptyState title="No transactions">
            What delegated sessions execute from the user’s wallet appears here.
          </EmptyState>
        }
      />
    </Card>
  )
}
