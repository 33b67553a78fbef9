import type { Webhook } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { ConfirmButton } from '../../../components/layout/confirm-button.tsx'
import { useToast } from '../../../components/layout/toast.tsx'

const countOf = (count: number) => (count === 1 ? '1 dead letter' : `${count} dead letters`)

/** The actions for the selected dead letters. `onBegun` gets the job that an action starts. */
export function SelectedActions({
  webhook,
  ids,
  onBegun,
}: {
  webhook: Webhook
  ids: ReadonlySet<string>
  onBegun: (jobId: string) => void
}) {
  const start = async (action: 'retry' | 'purge') => {
    const { id } = await api.webhooks.deliveries.bulk(webhook.id, { action, deliveryIds: [...ids] })
    onBegun(id)
  }
  return (
    <>
      {webhook.status === 'disabled' ? null : (
        <ConfirmButton
          label="Retry selected"
          tone="primary"
          title={`Retry ${countOf(ids.size)}`}
          action="Retry"
          danger={false}
          onConfirm={() => start('retry')}
        >
          <p>Each is sent again with the same event id and starts a new series of attempts. The history is kept.</p>
        </ConfirmButton>
      )}
      <ConfirmButton
        label="Purge selected"
        title={`Delete ${countOf(ids.size)}`}
        action="Purge"
        onConfirm={() => start('purge')}
      >
        <p>
          These deliveries can no longer be retried. Their events stay in the event feed until their retention ends.
        </p>
      </ConfirmButton>
    </>
  )
}

/** The actions for all dead letters of a webhook. */
export function AllActions({ webhook, onRecover }: { webhook: Webhook; onRecover: () => void }) {
  const queryClient = useQueryClient()
  const { done } = useToast()
  return (
    <>
      <Button disabled={webhook.status === 'disabled'} onClick={onRecover}>
        Retry all since…
      </Button>
      <ConfirmButton
        label="Purge all…"
        title="Delete all dead letters of this webhook"
        action="Purge"
        typed="purge"
        onConfirm={async () => {
          const { purged } = await api.webhooks.purge(webhook.id)
          done(`${countOf(purged)} deleted`)
          await queryClient.invalidateQueries({ queryKey: ['webhooks', webhook.id] })
        }}
      >
        <p>
          These deliveries can no longer be retried. Their events stay in the event feed until their retention ends.
        </p>
      </ConfirmButton>
    </>
  )
}
