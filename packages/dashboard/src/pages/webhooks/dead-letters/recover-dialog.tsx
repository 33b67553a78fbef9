import type { Webhook } from '@halfkey/sdk'
import { api } from '../../../api.ts'
import { Form } from '../../../components/form/form.tsx'
import type { FormField } from '../../../components/form/form-field.ts'
import { Dialog } from '../../../components/layout/dialog.tsx'

const HOUR_MS = 3_600_000

const SPANS = [
  { value: 'hour', label: 'The last hour', ms: HOUR_MS },
  { value: 'day', label: 'The last 24 hours', ms: 24 * HOUR_MS },
  { value: 'week', label: 'The last 7 days', ms: 168 * HOUR_MS },
  { value: 'all', label: 'All dead letters', ms: null },
  { value: 'time', label: 'Custom time', ms: null },
] as const
type Span = (typeof SPANS)[number]['value']

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
