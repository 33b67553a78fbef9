import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../../api.ts'
import { Card } from '../../../components/layout/card.tsx'
import { EmptyState } from '../../../components/layout/states.tsx'
import { useFilters } from '../../../components/table/filters.tsx'
import { LIVE } from '../../../query-client.ts'
import { DenialTable } from './denial-table.tsx'

const WHAT = {
  session: 'Attempts of this session that its policy refuses appear here',
  wallet: 'Attempts of delegated sessions to act from this wallet that a policy refuses appear here',
  user: 'Attempts of delegated sessions to act for this user that a policy refuses appear here',
}

function listOf(of: keyof typeof WHAT, id: string, page: number, signal: AbortSignal) {
  if (of === 'session') return api.delegatedSessions.denials(id, { page }, { signal })
  return api.denials.list({ page, ...(of === 'user' ? { userId: id } : { walletId: id }) }, { signal })
}

/** What was refused to one session, or to the sessions of one wallet or user. */
export function DenialsOf({ of, id }: { of: keyof typeof WHAT; id: string }) {
  const { page } = useFilters()
  const query = useQuery({
    queryKey: ['denials', of, id, page],
    queryFn: async ({ signal }) => await listOf(of, id, page, signal),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush title="Refused attempts" description="Kept for 30 days. Refused attempts create no transaction.">
      <DenialTable
        query={query}
        of={of === 'session' ? 'session' : 'user'}
        empty={
          <EmptyState title="Nothing was refused">
            {WHAT[of]}, with the rule that refused them and what would have been allowed.
          </EmptyState>
        }
      />
    </Card>
  )
}
