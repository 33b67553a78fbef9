import { isHalfkeyError, type Job, type Webhook } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import type { FormField } from '../../../components/form/form-field.ts'
import { Card } from '../../../components/layout/card.tsx'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { ProgressBar } from '../../../components/layout/progress-bar.tsx'
import { ErrorState } from '../../../components/layout/states.tsx'
import { useSession } from '../../../shell/session-context.ts'

const POLL_MS = 700
const HOUR_MS = 3_600_000

const SPANS = [
  { value: 'hour', label: 'The last hour', ms: HOUR_MS },
  { value: 'day', label: 'The last 24 hours', ms: 24 * HOUR_MS },
  { value: 'week', label: 'The last 7 days', ms: 168 * HOUR_MS },
  { value: 'all', label: 'All dead letters', ms: null },
  { value: 'time', label: 'Custom time', ms: null },
] as const
type Span = (typeof SPANS)[number]['value']

const ended = (job: Job | undefined): boolean => job?.status === 'succeeded' || job?.status === 'failed'

/** The recovery of a webhook that was begun in this browser, kept over reloads until it is dismissed. */
export function useRecovery(webhookId: string) {
  const { session } = useSession()
  const key = `halfkey.recovery.${session.tenant.id}.${webhookId}`
  const [jobId, setJobId] = useState(() => localStorage.getItem(key))
  return {
    jobId,
    begin(id: string) {
      localStorage.setItem(key, id)
      setJobId(id)
    },
    forget() {
      localStorage.removeItem(key)
      setJobId(null)
    },
  }
}

/** The progress of a recovery. */
export function RecoveryProgress({
  jobId,
  webhookId,
  onDismiss,
}: {
  jobId: string
  webhookId: string
  onDismiss: () => void
}) {
  const queryClient = useQueryClient()
  const { data: job, error } = useQuery({
    queryKey: ['jobs', jobId],
    queryFn: ({ signal }) => api.jobs.get(jobId, { signal }),
    refetchInterval: (query) => (ended(query.state.data) ? false : POLL_MS),
  })
  const over = ended(job)
  useEffect(() => {
    if (over) void queryClient.invalidateQueries({ queryKey: ['webhooks', webhookId] })
  }, [over, queryClient, webhookId])
  // Jobs can be read for 30 days after their end.
  const gone = isHalfkeyError(error) && error.code === 'not_found'
  useEffect(() => {
    if (gone) onDismiss()
  }, [gone, onDismiss])
  if (gone) return null
  return (
    <Card>
      <section aria-label="Retry by time" className="flex flex-col gap-3">
        {error !== null && job === undefined ? <ErrorState error={error} /> : null}
        {over ? (
          <p role="status" className="text-sm font-medium">
            {job?.status === 'succeeded'
              ? `Retry finished: ${job.progress} of ${job.total} dead letters are being sent again.`
              : 'The retry failed.'}
          </p>
        ) : (
          <ProgressBar
            label="Sending dead letters again"
            value={job === undefined ? null : job.progress}
            max={job?.total ?? 1}
          />
        )}
        {job?.error ? <p className="text-sm text-danger">{job.error}</p> : null}
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-soft">
            {over
              ? 'Deliveries that fail again return to this list.'
              : 'This runs on the server. You can leave this page.'}
          </p>
          {over ? <Button onClick={onDismiss}>Dismiss</Button> : null}
        </div>
      </section>
    </Card>
  )
}

function sinceOf(span: Span, typed: string): string {
  if (span === 'time') return Number.isNaN(Date.parse(typed)) ? typed : new Date(typed).toISOString()
  const ms = SPANS.find(({ value }) => value === span)?.ms ?? null
  return new Date(ms === null ? 0 : Date.now() - ms).toISOString()
}

interface RecoveryInput {
  span: Span
  since: string
}

const FIELDS: FormField<RecoveryInput>[] = [
  { name: 'span', label: 'Since', kind: 'select', options: SPANS },
  {
    name: 'since',
    label: 'Time',
    required: 'Choose a time.',
    shown: ({ span }) => span === 'time',
    input: { type: 'datetime-local', step: 1 },
  },
]

/** Asks from which time on dead letters are to be retried, and starts that. */
export function RecoverDialog({
  webhook,
  open,
  onClose,
  onBegun,
}: {
  webhook: Webhook
  open: boolean
  onClose: () => void
  onBegun: (jobId: string) => void
}) {
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Retry dead letters by time"
      description="Each is sent again with the same event id and starts a new series of attempts. This runs in the background."
    >
      <Form<RecoveryInput>
        fields={FIELDS}
        values={{ span: 'day', since: '' }}
        action="Retry all"
        onCancel={onClose}
        onSubmit={async ({ span, since }) => {
          const job = await api.webhooks.recover(webhook.id, { since: sinceOf(span, since) })
          onBegun(job.id)
          onClose()
        }}
      />
    </Dialog>
  )
}
