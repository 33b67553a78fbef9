import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'

const SHOWN = 6

/** The latest entries of the audit log. */
export function RecentActs() {
  const query = useQuery({
    queryKey: ['audit-log', 'recent'],
    queryFn: async ({ signal }) => await api.auditLog.list({ pageSize: SHOWN }, { signal }),
    ...LIVE,
  })
  return (
    <Card
      title="Recent activity"
      description="The latest entries of the audit log"
      actions={
        <Link to="/audit-log" className="text-sm text-accent hover:underline">
          View all
        </Link>
      }
    >
      {query.isPending ? <Loading /> : null}
      {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.data?.data.length === 0 ? <EmptyState title="No activity yet" /> : null}
      <ul className="flex flex-col gap-2.5">
        {query.data?.data.map((entry) => (
          <li key={entry.id} className="flex flex-wrap items-baseline justify-between gap-x-4 text-sm">
            <span className="min-w-0">
              <span className="font-medium">{entry.action}</span>{' '}
              <span className="text-soft">
                <RecordLink id={entry.target} />
              </span>
            </span>
            <span className="text-soft">
              <RelativeTime at={entry.at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
