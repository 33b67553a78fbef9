import type { Job } from '@halfkey/sdk'
import { Link } from '@tanstack/react-router'
import { api } from '../../../api.ts'
import { JobProgress, type JobView } from '../../../components/jobs/job-progress.tsx'
import { ShortId } from '../../../components/records/short-id.tsx'

const countOf = (count: number) => (count === 1 ? '1 dead letter' : `${count} dead letters`)

function viewOf({ type, progress, failures, ...job }: Job): JobView {
  const isPurge = type === 'deliveries.purge'
  const handled = countOf(progress - failures.length)
  const refused = failures.length === 0 ? '' : ` ${failures.length} left unchanged.`
  const ended = isPurge
    ? `${handled} deleted.`
    : `${handled} ${progress - failures.length === 1 ? 'is' : 'are'} being sent again.`
  return {
    ...job,
    done: progress,
    doing: isPurge ? 'Deleting dead letters' : 'Sending dead letters again',
    result: job.status === 'failed' ? 'The job failed.' : ended + refused,
    failures,
    note: isPurge ? '' : 'Deliveries that fail again return to this list.',
  }
}

/** The progress of a job that retries or deletes dead letters of a webhook. */
export function DeadLetterJob({
  label,
  jobId,
  webhookId,
  onDismiss,
}: {
  label: string
  jobId: string
  webhookId: string
  onDismiss: () => void
}) {
  return (
    <JobProgress
      label={label}
      jobId={jobId}
      read={async (options) => viewOf(await api.jobs.get(jobId, options))}
      changes={['webhooks', webhookId]}
      link={(deliveryId) => (
        <Link
          to="/webhooks/$webhookId/deliveries/$deliveryId"
          params={{ webhookId, deliveryId } as never}
          className="text-accent hover:underline"
        >
          <ShortId id={deliveryId} className="max-w-[min(16rem,100%)]" />
        </Link>
      )}
      onDismiss={onDismiss}
    />
  )
}
