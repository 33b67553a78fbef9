import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useFilters, useSort } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { SESSION_SORT, SessionTable } from './session-table.tsx'

/** The delegated sessions of one user or wallet. `action` creates the first one. */
export function SessionsOf({
  filter,
  empty,
  action,
}: {
  filter: { userId: string } | { walletId: string }
  empty: string
  action?: ReactNode
}) {
  const { page } = useFilters()
  const sort = useSort(SESSION_SORT)
  const query = useQuery({
    queryKey: ['delegated-sessions', filter, sort, page],
    queryFn: async ({ signal }) => await api.delegatedSessions.list({ page, sort, ...filter }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush>
      <SessionTable
        ofOne
        query={query}
        empty={
          <EmptyState title="No delegated sessions yet" action={action}>
            {empty}
          </EmptyState>
        }
      />
    </Card>
  )
}
