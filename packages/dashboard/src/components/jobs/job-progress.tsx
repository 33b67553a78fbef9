import { isHalfkeyError } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { Button } from '../controls/button.tsx'
import { Card } from '../layout/card.tsx'
import { ProgressBar } from '../layout/progress-bar.tsx'
import { ErrorState } from '../layout/states.tsx'

const POLL_MS = 700
const FAILURES_SHOWN_MAX = 20

/** A job as it is shown. */
export interface JobView {
  status: 'pending' | 'running' | 'succeeded' | 'failed'
  done: number
  total: number
  /** What it is doing, such as "Suspending users". */
  doing: string
  /** The result, once it has ended. */
  result: string
  error: string | null
  /** Records that it left unchanged. */
  failures: readonly { id: string; message: string }[]
  /** What to expect after its end. */
  note?: string
}

const isOver = (job: JobView | undefined): boolean => job?.status === 'succeeded' || job?.status === 'failed'

function Failures({ failures, link }: { failures: JobView['failures']; link: (id: string) => ReactNode }) {
  if (failures.length === 0) return null
  return (
    <ul className="flex flex-col gap-1 text-sm">
      {failures.slice(0, FAILURES_SHOWN_MAX).map(({ id, message }) => (
        <li key={id} className="flex min-w-0 flex-wrap gap-x-3">
          {link(id)}
          <span className="text-danger">{message}</span>
        </li>
      ))}
      {failures.length > FAILURES_SHOWN_MAX ? <li>And {failures.length - FAILURES_SHOWN_MAX} more.</li> : null}
    </ul>
  )
}

/** The progress of a job of the server, then its result and what failed. A job that can no longer be read is dismissed. */
export function JobProgress({
  label,
  jobId,
  read,
  changes,
  link,
  onDismiss,
}: {
  label: string
  jobId: string
  read: (options: { signal: AbortSignal }) => Promise<JobView>
  /** The first parts of the keys of the queries that the job changes. */
  changes: readonly string[]
  link: (id: string) => ReactNode
  onDismiss: () => void
}) {
  const queries = useQueryClient()
  const { data: job, error } = useQuery({
    queryKey: ['jobs', jobId],
    queryFn: read,
    refetchInterval: ({ state }) => (isOver(state.data) ? false : POLL_MS),
  })
  const over = isOver(job)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end of the job is what changes them
  useEffect(() => {
    if (over) void queries.invalidateQueries({ queryKey: changes })
  }, [over, queries])
  // Jobs can be read for 30 days after their end.
  const gone = isHalfkeyError(error, 'not_found')
  useEffect(() => {
    if (gone) onDismiss()
  }, [gone, onDismiss])
  if (gone) return null
  if (job === undefined) return error === null ? null : <ErrorState error={error} />
  return (
    <Card>
      <section aria-label={label} className="flex flex-col gap-3">
        {over ? (
          <p role="status" className="text-sm font-medium">
            {job.result}
          </p>
        ) : (
          <ProgressBar label={job.doing} value={job.done} max={job.total} />
        )}
        {job.error === null ? null : <p className="text-sm text-danger">{job.error}</p>}
        <Failures failures={job.failures} link={link} />
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-soft">{over ? job.note : 'This runs on the server. You can leave this page.'}</p>
          {over ? <Button onClick={onDismiss}>Dismiss</Button> : null}
        </div>
      </section>
    </Card>
  )
}
