import type { Delivery, Webhook } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { ErrorText } from '../../../components/controls/field.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { StatusBadge } from '../../../components/records/badge.tsx'
import { messageOf } from '../../../error-words.ts'
import { useEventTypes } from '../../event-types/known-types.ts'
import { AttemptAnswer } from './attempts.tsx'
import { outcomeOf } from './last-answer.tsx'

const TEST = 'webhook.test'

function verdictOf(delivery: Delivery): string {
  const last = delivery.attempts.at(-1)
  if (delivery.status === 'succeeded') return 'Your endpoint accepted the event.'
  if (last === undefined) return 'No response yet. Open the delivery to see its progress.'
  return 'Your endpoint did not accept the event. Test events are not retried.'
}

function Outcome({ delivery }: { delivery: Delivery }) {
  const last = delivery.attempts.at(-1)
  return (
    <section aria-label="Outcome" role="status" className="flex min-w-0 flex-col gap-3 border-t pt-4">
      <div className="flex flex-wrap items-center gap-3">
        <StatusBadge status={delivery.status} />
        {last === undefined ? null : (
          <span className="text-sm tabular-nums [overflow-wrap:anywhere]">
            {outcomeOf(last)} in {last.durationMs} ms
          </span>
        )}
        <Link
          to="/webhooks/$webhookId/deliveries/$deliveryId"
          params={{ webhookId: delivery.webhookId, deliveryId: delivery.id } as never}
          className="ml-auto text-sm text-accent hover:underline"
        >
          Open the delivery
        </Link>
      </div>
      <p className="text-sm">{verdictOf(delivery)}</p>
      {last === undefined ? null : <AttemptAnswer attempt={last} />}
    </section>
  )
}

/** Sends a test event of a chosen type and shows the receiver's answer. */
export function TestDialog({ webhook, open, onClose }: { webhook: Webhook; open: boolean; onClose: () => void }) {
  const types = useEventTypes()
  const [type, setType] = useState(TEST)
  const queryClient = useQueryClient()
  const test = useMutation({
    mutationFn: () => api.webhooks.test(webhook.id, { eventType: type as never }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks', webhook.id] }),
  })
  const close = () => {
    test.reset()
    onClose()
  }
  const active = types.filter(({ archived }) => !archived)
  const known = active.length === 0 ? [TEST] : active.map((each) => each.type)
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title="Send a test event"
      description="Sends a signed event with example data to this endpoint only. Test events are not retried."
    >
      <div className="flex min-w-0 flex-col gap-4">
        <div className="flex flex-wrap items-center gap-2">
          <Select
            label="Event type"
            value={type}
            options={known.map((each) => ({ value: each, label: each }))}
            onChange={setType}
            className="min-w-0 flex-1"
          />
          <Button tone="primary" busy={test.isPending} onClick={() => test.mutate()}>
            Send
          </Button>
        </div>
        <ErrorText>{test.isError ? messageOf(test.error) : undefined}</ErrorText>
        {test.data === undefined ? null : <Outcome delivery={test.data} />}
      </div>
    </Dialog>
  )
}
