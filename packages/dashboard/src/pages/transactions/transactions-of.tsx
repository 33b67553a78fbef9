import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useFilters, useSort } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { TRANSACTION_SORT, TransactionTable } from './transaction-table.tsx'

/** The transactions of one user, wallet or delegated session. `empty` describes what would appear here. */
export function TransactionsOf({
  filter,
  empty,
}: {
  filter: { userId: string } | { walletId: string } | { delegatedSessionId: string }
  empty: string
}) {
  const { page } = useFilters()
  const sort = useSort(TRANSACTION_SORT)
  const query = useQuery({
    queryKey: ['transactions', filter, sort, page],
    queryFn: async ({ signal }) => await api.transactions.list({ page, sort, ...filter }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush>
      <TransactionTable ofOne query={query} empty={<EmptyState title="No transactions yet">{empty}</EmptyState>} />
    </Card>
  )
}
