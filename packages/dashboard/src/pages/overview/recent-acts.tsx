import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { RecordName } from '../../components/records/record-name.tsx'
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
      <ul className="-my-1.5 divide-y">
        {query.data?.data.map((entry) => (
          <li key={entry.id} className="flex h-10 items-center gap-3 text-sm">
            <span title={entry.action} className="min-w-0 truncate font-medium">
              {entry.action}
            </span>
            <span className="min-w-24 flex-1 truncate text-soft">
              <RecordName id={entry.target} />
            </span>
            <span className="flex-none text-soft">
              <RelativeTime at={entry.at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
