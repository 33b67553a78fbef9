import { isHalfkeyError } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { LIVE } from '../../query-client.ts'

interface Check {
  name: string
  ok: boolean
  note: string
}

async function readChecks(): Promise<Check[]> {
  try {
    const { checks } = await api.health.ready()
    return checks.map((check) => ({
      name: check.name,
      ok: check.state === 'ok',
      note: check.message ?? `${check.durationMs} ms`,
    }))
  } catch (error) {
    if (!isHalfkeyError(error, 'not_ready')) throw error
    return error.details.map((detail) => ({
      name: String(detail.name ?? detail.code),
      ok: detail.state === 'ok',
      note: detail.message,
    }))
  }
}

/** The result of all checks. */
function inWords(checks: Check[] | undefined): string {
  const failing = checks?.filter(({ ok }) => !ok).length ?? 0
  if (failing > 0) return failing === 1 ? '1 check is failing' : `${failing} checks are failing`
  return checks === undefined || checks.length === 0
    ? 'Readiness of the server process behind this page'
    : 'All checks of the server process behind this page pass'
}

/** The readiness checks of the process that answers. */
export function Health() {
  const query = useQuery({ queryKey: ['health'], queryFn: readChecks, ...LIVE })
  return (
    <Card title="Health" description={inWords(query.data)}>
      {query.isPending ? <Loading /> : null}
      {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.data?.length === 0 ? (
        <p className="text-sm text-soft">This process runs no checks, so its health is not known.</p>
      ) : null}
      <ul className="-my-1.5 divide-y">
        {query.data?.map(({ name, ok, note }) => (
          <li key={name} className="flex min-h-10 items-center justify-between gap-4 text-sm">
            <span className="capitalize">{name.replaceAll('_', ' ')}</span>
            <span className="flex items-center gap-3 text-soft">
              <span className="tabular-nums">{note}</span>
              <Badge tone={ok ? 'good' : 'danger'}>{ok ? 'ok' : 'failing'}</Badge>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
