import type { Delivery } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../components/controls/button.tsx'
import { ErrorText } from '../components/controls/field.tsx'
import { Select } from '../components/controls/select.tsx'
import { Dialog } from '../components/layout/dialog.tsx'
import { StatusBadge } from '../components/records/badge.tsx'
import { messageOf } from '../error-words.ts'
import { type Portal, webhooks } from './portal-api.ts'
import type { View } from './portal-page.tsx'

const TEST = 'webhook.test'

function verdictOf({ status, attempts }: Delivery): string {
  if (status === 'succeeded') return 'Your endpoint accepted the event.'
  if (attempts.length === 0) return 'No response yet.'
  return 'Your endpoint did not accept the event. Test events are not retried.'
}

/** Sends a test event and says how the endpoint answered. */
export function TestDialog({
  portal,
  webhookId,
  open,
  onClose,
  show,
}: {
  portal: Portal
  webhookId: string
  open: boolean
  onClose: () => void
  show: (view: View) => void
}) {
  const [type, setType] = useState(TEST)
  const queryClient = useQueryClient()
  const test = useMutation({
    mutationFn: () => webhooks.test(webhookId, { eventType: type }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks', webhookId] }),
  })
  const close = () => {
    test.reset()
    onClose()
  }
  const { data } = test
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title="Send a test event"
      description="Sends a signed event with example data to this endpoint."
    >
      <div className="flex min-w-0 flex-col gap-4">
        <div className="flex flex-wrap items-center gap-2">
          <Select
            label="Event type"
            value={type}
            options={[TEST, ...portal.eventTypes.map(({ name }) => name)].map((value) => ({ value, label: value }))}
            onChange={setType}
            className="min-w-0 flex-1"
          />
          <Button tone="primary" busy={test.isPending} onClick={() => test.mutate()}>
            Send
          </Button>
        </div>
        <ErrorText>{test.isError ? messageOf(test.error) : undefined}</ErrorText>
        {data === undefined ? null : (
          <section
            aria-label="Outcome"
            role="status"
            className="flex flex-wrap items-center gap-3 border-t pt-4 text-sm"
          >
            <StatusBadge status={data.status} />
            <p className="min-w-0 flex-1">{verdictOf(data)}</p>
            <Button onClick={() => show({ name: 'delivery', webhookId, deliveryId: data.id })}>
              Show the delivery
            </Button>
          </section>
        )}
      </div>
    </Dialog>
  )
}
