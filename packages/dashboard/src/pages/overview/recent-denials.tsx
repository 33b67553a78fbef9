import type { Denial } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'

const DAY_MS = 86_400_000
const READ_MAX = 100
const SHOWN = 4

function inWords(recent: Denial[]): string {
  const attempts = recent.reduce((sum, { count }) => sum + count, 0)
  if (attempts === 0) return 'Delegated sessions attempted nothing that their policies do not allow.'
  const atLeast = recent.length === READ_MAX ? 'At least ' : ''
  return `${atLeast}${attempts} ${attempts === 1 ? 'attempt' : 'attempts'} by delegated sessions`
}

/** What was refused to delegated sessions today and yesterday, with links to the sessions' refused attempts. */
export function RecentDenials() {
  const query = useQuery({
    queryKey: ['denials', 'recent'],
    queryFn: async ({ signal }) => (await api.denials.list({ pageSize: READ_MAX }, { signal })).data,
    ...LIVE,
  })
  const since = Date.now() - DAY_MS
  const recent = query.data?.filter(({ lastAt }) => Date.parse(lastAt) >= since)
  return (
    <Card
      title="Refused in the last 24 hours"
      description={recent === undefined ? undefined : inWords(recent)}
      actions={
        <Link to="/denials" className="text-sm text-accent hover:underline">
          View all refused attempts
        </Link>
      }
    >
      {query.isPending ? <Loading /> : null}
      {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : null}
      {recent === undefined || recent.length === 0 ? null : (
        <ul className="-my-1.5 divide-y">
          {recent.slice(0, SHOWN).map(({ sessionId, rule, message, count, firstAt, lastAt }) => (
            <li key={`${sessionId} ${rule} ${firstAt}`} className="flex h-10 items-center gap-3 text-sm">
              <Link
                to={`/delegated-sessions/${sessionId}`}
                search={{ tab: 'denials' } as never}
                title={message}
                className="min-w-0 flex-1 truncate text-accent hover:underline"
              >
                {message}
              </Link>
              <span className="flex-none text-soft tabular-nums">×{count}</span>
              <span className="flex-none text-soft">
                <RelativeTime at={lastAt} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}
